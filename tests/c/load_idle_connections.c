/* timeout: 400
 * Connections that only stay cost memory and nothing else: nobody wakes for them, each is still served, and
 * nothing is left when they go. HERD_TEST_SLOW=1: 50000, else 2000. */
#include "load.h"

enum { workers = 4, client_processes = 5, at_once = 32, wakes_a_second_most = 3, asked_most = 1000 };

enum phase { opening, asking, ending };

static struct shared {
    enum phase phase;
    int open;
    int asked;
} *shared;

/* A process may have fewer descriptors than there are connections, and an address fewer ports. */
static void client(int number, int count)
{
    int *fds = (int *)malloc((size_t)count * sizeof *fds);
    CHECK(fds != NULL);
    for (int i = 0; i < count; i++) {
        fds[i] = load_connect(serve.address, 1 + number);
        if (i % at_once == at_once - 1 || i == count - 1) {
            for (int greeted = i - i % at_once; greeted <= i; greeted++) {
                CHECK(serve_greeting(fds[greeted], 20000) >= 0);
                SHARED_ADD(shared->open, 1);
            }
        }
    }
    WAIT_UNTIL(SHARED_GET(shared->phase) != opening, 300000);
    for (int i = 0; i < count; i += 1 + count / asked_most) {
        load_blocking(fds[i]);
        serve_echo(fds[i]);
        SHARED_ADD(shared->asked, 1);
    }
    WAIT_UNTIL(SHARED_GET(shared->phase) == ending, 300000);
    for (int i = 0; i < count; i++) {
        load_reset(fds[i]);
    }
    test_exit(0);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int count = test_is_slow() ? 50000 : 2000, idle_ms = test_is_slow() ? 10000 : 500;
    test_begin(380);
    if (!load_raise_fds((rlim_t)(count / workers + count / 20 + 500))) {
        test_skip("the limit of open files cannot be raised");
    }
    shared = (struct shared *)shared_memory(sizeof *shared);
    config.worker_connections = (uint32_t)count;
    serve_start(&config, workers);
    load_note_fds();
    long rss_kib[workers];
    for (int slot = 0; slot < workers; slot++) {
        rss_kib[slot] = process_rss_kib(serve.pids[slot]);
    }
    pid_t pids[client_processes];
    int64_t began_ms = now_ms();
    for (int i = 0; i < client_processes; i++) {
        pids[i] = test_fork();
        if (pids[i] == 0) {
            client(i, count / client_processes);
        }
    }
    WAIT_UNTIL(SHARED_GET(shared->open) == count, 200000);
    printf("%d connections in %d ms\n", count, (int)(now_ms() - began_ms));
    CHECK_EQ(serve_total().connections_open, count);
    double sum = 0, squares = 0;
    for (int slot = 0; slot < workers; slot++) {
        double open = (double)serve_stats(slot).connections_open;
        long grown_kib = process_rss_kib(serve.pids[slot]) - rss_kib[slot];
        printf("slot %d: %d open, %d descriptors, %ld KiB more, %d bytes each\n", slot, (int)open,
               process_fds(serve.pids[slot]), grown_kib,
               (int)((double)grown_kib * 1024 / (open > 0 ? open : 1)));
        sum += open;
        squares += open * open;
    }
    /* How even they are depends on who gets to run while they come. */
    printf("Jain's index %.4f\n", sum * sum / (workers * squares));
    CHECK_EQ(sum, count);

    serve_settle();
    uint64_t wakeups = serve_total().wakeups;
    int64_t idle_since_ms = now_ms();
    sleep_ms(idle_ms);
    wakeups = serve_total().wakeups - wakeups;
    int took_ms = (int)(now_ms() - idle_since_ms);
    printf("%d wake-ups in %d ms\n", (int)wakeups, took_ms);
    CHECK(wakeups <= (uint64_t)(wakes_a_second_most * took_ms / 1000 + 3));

    SHARED_SET(shared->phase, asking);
    WAIT_UNTIL(SHARED_GET(shared->asked) >= (count < asked_most ? count : asked_most), 60000);
    SHARED_SET(shared->phase, ending);
    for (int i = 0; i < client_processes; i++) {
        CHECK_EQ(test_join(pids[i]), 0);
    }
    load_is_over();
    for (int slot = 0; slot < workers; slot++) {
        printf("slot %d: %ld KiB more after all\n", slot, process_rss_kib(serve.pids[slot]) - rss_kib[slot]);
    }
    serve_end();
    test_exit(0);
}
