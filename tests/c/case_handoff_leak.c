/* R30: 10 000 hand-overs and 100 crashes of workers leave no descriptor and no memory behind. */
/* timeout: 120 */
#include "serve.h"

enum { workers = 4, acceptor = 3, connections = 10000, crashes = 100, per_crash = connections / crashes };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF;
    config.acceptor_slot = acceptor;
    test_begin(110);
    serve_start(&config, workers);
    int own_fds = 0, acceptor_fds = 0, worker_fds = 0;
    long kib = 0;
    for (int round = 0; round <= crashes; round++) {
        if (round == 1) {
            /* After a first round, which touches what is touched at all. */
            WAIT_UNTIL(serve_total().connections_open == 0, 10000);
            serve_settle();
            own_fds = open_fds();
            acceptor_fds = process_fds(serve.pids[acceptor]);
            worker_fds = process_fds(serve.pids[0]);
            kib = process_rss_kib(serve.pids[acceptor]);
        }
        for (int i = 0; i < per_crash; i++) {
            int slot, client = serve_connect(&slot);
            CHECK(slot != acceptor);
            close(client);
        }
        int victim = 1 + round % 2;
        pid_t dead = serve_crash(victim);
        serve_report(victim, dead);
        serve_fork(victim);
        WAIT_UNTIL(SHARED_GET(serve.shared->ready[victim]) == serve.pids[victim], 10000);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
    struct herd_stats total = serve_total();
    printf("%d hand-overs, %d reaped; acceptor: %d descriptors, %ld KiB more\n",
           (int)total.handoff_received, (int)total.reaps, acceptor_fds,
           process_rss_kib(serve.pids[acceptor]) - kib);
    CHECK_EQ(total.handoff_received, connections + per_crash);
    CHECK_EQ(total.reaps, crashes + 1);
    CHECK_EQ(open_fds(), own_fds);
    CHECK_EQ(process_fds(serve.pids[acceptor]), acceptor_fds);
    CHECK_EQ(process_fds(serve.pids[0]), worker_fds);
    CHECK(process_rss_kib(serve.pids[acceptor]) - kib < 1024);
    serve_end();
    test_exit(0);
}
