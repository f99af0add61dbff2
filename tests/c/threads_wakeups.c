/* With 8 idle worker threads, in one process or in two, a connection causes at most 1.5 sleeps, and
 * none of them for nothing. */
#include "threads.h"

enum { workers = 8, connections = 40 };

static double sleeps_a_connection(void)
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
    struct herd_stats after = serve_total();
    CHECK_EQ(after.accepted - before.accepted, connections);
    serve_check_waste(&before, &after);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    return (double)sleeps / connections;
}

static void slow_connections(void)
{
    double sleeps;
    CHECK_IN_SOME_TRY(sleeps = sleeps_a_connection(), sleeps >= 0.5 && sleeps <= 1.5);
}

int main(void)
{
    test_begin(55);
    threads_in_all_forms(slow_connections, workers);
    test_exit(0);
}
