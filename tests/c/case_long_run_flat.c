/* Descriptors and memory of the workers do not grow with the connections, and the counters add up
 * exactly. timeout: 120 */
#include "serve.h"

enum { workers = 2, connections = 20000, warm_up = 2000, window = 16 };

/* The TCP clients reset their connections, so that their ports are free at once; those of the Unix
 * socket end in the usual way. */
static int clients[window];

static void close_client(int at)
{
    struct linger reset = {1, 0};
    if (at % 2 == 0) {
        setsockopt(clients[at], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    close(clients[at]);
    clients[at] = -1;
}

static void run_connections(int count, const char *local)
{
    for (int i = 0; i < count; i++) {
        int at = i % window;
        if (clients[at] >= 0) {
            serve_echo(clients[at]);
            close_client(at);
        }
        clients[at] = connect_to(at % 2 == 0 ? serve.address : local);
        CHECK(serve_greeting(clients[at], 10000) >= 0);
    }
    for (int at = 0; at < window; at++) {
        serve_echo(clients[at]);
        close_client(at);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    char path[64];
    int fds[workers];
    long rss_kib[workers];
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.worker_connections = window; /* both of them have to take part */
    config.accept_delay_ms = 20;
    test_begin(110);
    memset(clients, -1, sizeof clients);
    serve_prepare(&config, workers);
    snprintf(path, sizeof path, "unix:@herd-flat-%d", (int)getpid());
    CHECK_CODE(herd_listen(serve.herd, path, NULL, serve_on_accept, NULL), 1);
    serve_fork(0);
    serve_fork(1);
    serve_settle();

    run_connections(warm_up, path);
    for (int slot = 0; slot < workers; slot++) {
        fds[slot] = process_fds(serve.pids[slot]);
        rss_kib[slot] = process_rss_kib(serve.pids[slot]);
    }
    run_connections(connections, path);
    for (int slot = 0; slot < workers; slot++) {
        long grown_kib = process_rss_kib(serve.pids[slot]) - rss_kib[slot];
        struct herd_stats stats = serve_stats(slot);
        printf("slot %d: %d accepted, %ld KiB more\n", slot, (int)stats.accepted, grown_kib);
        CHECK_EQ(process_fds(serve.pids[slot]), fds[slot]);
        CHECK(grown_kib < 1024);
        CHECK_EQ(stats.accepted, serve.shared->accepted[slot]);
        CHECK_EQ(stats.closed, stats.accepted);
        CHECK_EQ(stats.connections_open, 0);
        CHECK(stats.accepted > 0);
    }
    struct herd_stats total = serve_total();
    CHECK_EQ(total.accepted, warm_up + connections);
    CHECK_EQ(total.closed, warm_up + connections);
    CHECK_EQ(total.backoffs, 0);
    CHECK_EQ(total.stale_events, 0);
    serve_end();
    test_exit(0);
}
