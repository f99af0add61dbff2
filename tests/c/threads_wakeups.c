/* With 8 idle worker threads, in one process or in two, a connection causes at most 1.5 sleeps, and
 * none of them for nothing. */
#include "threads.h"

enum { workers = 8, connections = 40 };

static void slow_connections(void)
{
    int clients[connections], slot;
    struct herd_stats before = serve_total();
    long long sleeps = threads_settle();
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slot);
        threads_settle();
    }
    long long ticks = (long long)(serve_total().guard_ticks - before.guard_ticks);
    sleeps = threads_settle() - sleeps - ticks;
    printf("  sleeps a connection: %.2f, and %lld guard ticks\n", (double)sleeps / connections, ticks);
    CHECK(sleeps * 2 >= connections && sleeps * 2 <= connections * 3);
    CHECK_EQ(serve_total().accepted, connections);
    struct herd_stats after = serve_total();
    serve_check_waste(&before, &after);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
}

int main(void)
{
    test_begin(55);
    threads_in_all_forms(slow_connections, workers);
    test_exit(0);
}
