/* timeout: 7200
 * Ten million short connections leave memory and descriptors of the workers as they were.
 * HERD_TEST_SLOW=1: they; else it is left to case_long_run_flat. HERD_TEST_CONNECTIONS=N: so many. */
#include "load.h"

enum { workers = 2, client_processes = 2, window = 8, warm_up = 100000, sample_ms = 5000,
       grown_kib_most = 1024, fds_more_most = 4 * client_processes * window };

static unsigned long long *done;

/* Its connections end with a reset, so that their ports are free at once. */
static void client(unsigned long long count)
{
    int fds[window];
    for (unsigned long long i = 0; i < count + window; i++) {
        int at = (int)(i % window);
        if (i >= window) {
            CHECK(serve_greeting(fds[at], 20000) >= 0);
            load_reset(fds[at]);
            SHARED_ADD(*done, 1ull);
        }
        if (i < count) {
            fds[at] = connect_to(serve.address);
        }
    }
}

static void run_clients(unsigned long long count)
{
    pid_t pids[client_processes];
    SHARED_SET(*done, 0ull);
    for (int i = 0; i < client_processes; i++) {
        pids[i] = test_fork();
        if (pids[i] == 0) {
            client(count / client_processes);
            test_exit(0);
        }
    }
    int64_t began_ms = now_ms(), sampled_ms = began_ms;
    int most_fds = 0;
    long first_kib = 0, most_kib = 0;
    for (int left = client_processes; left > 0;) {
        sleep_ms(100);
        for (int i = 0; i < client_processes; i++) {
            if (pids[i] > 0 && test_ended(pids[i])) {
                CHECK_EQ(test_join(pids[i]), 0);
                pids[i] = 0;
                left--;
            }
        }
        long kib = 0;
        for (int slot = 0; slot < workers; slot++) {
            int more = process_fds(serve.pids[slot]) - load_fds[slot];
            kib += process_rss_kib(serve.pids[slot]);
            most_fds = more > most_fds ? more : most_fds;
            CHECK(more <= fds_more_most);
        }
        first_kib = first_kib == 0 ? kib : first_kib;
        most_kib = kib > most_kib ? kib : most_kib;
        if (now_ms() >= sampled_ms + sample_ms) {
            sampled_ms = now_ms();
            printf("%llu connections, %d s, %ld KiB, at most %d descriptors more\n", SHARED_GET(*done),
                   (int)((sampled_ms - began_ms) / 1000), kib, most_fds);
        }
    }
    int took_ms = (int)(now_ms() - began_ms);
    printf("%llu connections in %d s, %.0f a second, %ld KiB at first, %ld KiB at most, at most %d "
           "descriptors more\n", SHARED_GET(*done), took_ms / 1000,
           (double)count * 1000 / (took_ms > 0 ? took_ms : 1), first_kib, most_kib, most_fds);
    CHECK_EQ(SHARED_GET(*done), count);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    const char *wanted = getenv("HERD_TEST_CONNECTIONS");
    unsigned long long count = wanted != NULL ? strtoull(wanted, NULL, 10) : 10000000;
    test_begin(7100);
    if (!test_is_slow() && wanted == NULL) {
        test_skip("only in make check-slow");
    }
    count -= count % client_processes;
    serve_start(&config, workers);
    load_note_fds();
    done = (unsigned long long *)shared_memory(sizeof *done);
    run_clients(warm_up);
    long rss_kib[workers];
    load_is_over();
    for (int slot = 0; slot < workers; slot++) {
        rss_kib[slot] = process_rss_kib(serve.pids[slot]);
    }
    run_clients(count);
    load_is_over();
    for (int slot = 0; slot < workers; slot++) {
        long grown_kib = process_rss_kib(serve.pids[slot]) - rss_kib[slot];
        printf("slot %d: %llu accepted, %ld KiB more than after the first %d\n", slot,
               (unsigned long long)serve_stats(slot).accepted, grown_kib, warm_up);
        CHECK(grown_kib < grown_kib_most);
    }
    serve_end();
    test_exit(0);
}
