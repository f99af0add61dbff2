/* A thread that drains takes no new client, serves the connections it has, and ends with the last
 * one; the other threads of its process serve on. */
#include "threads.h"

enum { workers = 4, connections = 80, connections_most = 600 };

static void drain_all_but_the_last(void)
{
    int clients[connections_most], slot;
    int made = threads_connect_to_all(clients, connections, connections_most);
    for (int drained = 0; drained < workers - 1; drained++) {
        SHARED_SET(threads_shared->drain[drained], 1u);
        kill(serve.pids[drained], SIGUSR1);
        WAIT_UNTIL(SHARED_GET(threads_shared->drain[drained]) == 2, 10000);
        threads_settle(); /* it has seen it */
        for (int i = 0; i < 2 * workers; i++) {
            int fd = serve_connect(&slot);
            CHECK(slot > drained);
            close(fd);
        }
        WAIT_UNTIL(serve_total().connections_open == (uint64_t)made, 10000);
        CHECK(!SHARED_GET(threads_shared->drained[drained]));
    }
    for (int i = 0; i < made; i++) {
        serve_echo(clients[i]); /* those of the draining threads too */
        close(clients[i]);
    }
    for (int drained = 0; drained < workers - 1; drained++) {
        WAIT_UNTIL(SHARED_GET(threads_shared->drained[drained]), 10000);
    }
    CHECK(!SHARED_GET(threads_shared->drained[workers - 1]));
    int last = serve_connect(&slot);
    CHECK_EQ(slot, workers - 1);
    close(last);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
}

int main(void)
{
    test_begin(55);
    threads_in_all_forms(drain_all_but_the_last, workers);
    test_exit(0);
}
