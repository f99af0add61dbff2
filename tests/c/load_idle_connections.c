/* timeout: 400
 * Connections that only stay cost memory and nothing else: they are spread evenly, nobody wakes for them, each
 * is still served, and nothing is left when they go. HERD_TEST_SLOW=1: 50000, else 2000. */
#include "load.h"

enum { workers = 4, sources = 4, wakes_a_second_most = 3, asked_most = 1000 };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int count = load_is_slow() ? 50000 : 2000, idle_s = load_is_slow() ? 10 : 1;
    test_begin(380);
    if (!load_raise_fds((rlim_t)count + 1000)) {
        test_skip("the limit of open files cannot be raised");
    }
    config.worker_connections = (uint32_t)count;
    serve_start(&config, workers);
    load_note_fds();
    long rss_kib[workers];
    for (int slot = 0; slot < workers; slot++) {
        rss_kib[slot] = process_rss_kib(serve.pids[slot]);
    }
    int *fds = (int *)malloc((size_t)count * sizeof *fds);
    CHECK(fds != NULL);
    int64_t began_ms = now_ms();
    for (int i = 0; i < count; i++) {
        fds[i] = load_connect(serve.address, 1 + i % sources);
        if (i % 64 == 63 || i == count - 1) {
            for (int greeted = i - i % 64; greeted <= i; greeted++) {
                CHECK(serve_greeting(fds[greeted], 10000) >= 0);
            }
        }
    }
    printf("%d connections in %d ms\n", count, (int)(now_ms() - began_ms));
    CHECK_EQ(serve_total().connections_open, count);
    double sum = 0, squares = 0;
    for (int slot = 0; slot < workers; slot++) {
        double open = (double)serve_stats(slot).connections_open;
        long grown_kib = process_rss_kib(serve.pids[slot]) - rss_kib[slot];
        printf("slot %d: %d open, %ld KiB more, %d bytes each\n", slot, (int)open, grown_kib,
               (int)((double)grown_kib * 1024 / (open > 0 ? open : 1)));
        sum += open;
        squares += open * open;
    }
    printf("Jain's index %.4f\n", sum * sum / (workers * squares));
    CHECK(sum * sum / (workers * squares) >= 0.9);

    serve_settle();
    uint64_t wakeups = serve_total().wakeups;
    sleep_ms(idle_s * 1000);
    wakeups = serve_total().wakeups - wakeups;
    printf("%d wake-ups in %d s\n", (int)wakeups, idle_s);
    CHECK(wakeups <= (uint64_t)(wakes_a_second_most * idle_s + 3));

    for (int i = 0; i < count; i += count / (count < asked_most ? count : asked_most)) {
        load_blocking(fds[i]);
        serve_echo(fds[i]);
    }
    for (int i = 0; i < count; i++) {
        load_reset(fds[i]);
    }
    load_is_over();
    serve_end();
    free(fds);
    test_exit(0);
}
