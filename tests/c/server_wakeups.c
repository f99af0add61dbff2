/* R01, R20: in every example server a slow connection costs at most 2 sleeps of its 8 idle workers,
   and in shared mode one of each. HERD_TEST_SLOW=1: more connections, and each server in shared mode.
   timeout: 240 */
#include "server.h"

/* The connections must not keep step with the guard, which ticks every 500 ms. */
enum { workers = 8, connections_most = 40, gap_ms = 47 };
static int connections = 16;

static long long grown(const struct server_answer *before, const struct server_answer *after,
                       const char *name)
{
    return server_counter(after, name) - server_counter(before, name);
}

static double sleeps_a_connection(const struct server_case *c, const char *mode, int with_request)
{
    struct server_answer before, after;
    int clients[connections_most];
    server_start(c->program, mode, workers, NULL);
    server_counters(&before);
    long long sleeps = server_settled_sleeps();
    for (int i = 0; i < connections; i++) {
        clients[i] = server_connect();
        if (with_request) {
            sleep_ms(gap_ms / 2);
            server_ask(clients[i], 10000);
        }
        sleep_ms(gap_ms);
    }
    sleeps = server_settled_sleeps() - sleeps;
    server_counters(&after);
    for (int i = 0; i < connections; i++) {
        server_ask(clients[i], 10000);
        close(clients[i]);
    }
    long long ticks = grown(&before, &after, "guard_ticks");
    if (strcmp(mode, "shared") != 0) {
        /* As in serve_check_waste. */
        long long rescued = grown(&before, &after, "thefts") + grown(&before, &after, "blind_accepts");
        CHECK(grown(&before, &after, "accept_eagain") <= rescued + ticks);
        CHECK(grown(&before, &after, "wasted_wakeups") <= rescued + ticks);
    }
    server_stop();
    return (double)(sleeps - ticks * (c->nested ? workers : 1)) / connections;
}

static void wakeups(const struct server_case *c)
{
    double accepted, answered;
    CHECK_IN_SOME_TRY(accepted = sleeps_a_connection(c, c->mode, 0), accepted >= 0.5 && accepted <= 2.0);
    CHECK_IN_SOME_TRY(answered = sleeps_a_connection(c, c->mode, 1), answered >= 1.5 && answered <= 2.5);
    printf("%s, %s: %.2f sleeps a connection, %.2f with its request\n", c->program, c->mode, accepted,
           answered);
    static int shared_too = 1;
    if (shared_too && strcmp(c->mode, "mutex") == 0) {
        shared_too = test_is_slow();
        double shared = sleeps_a_connection(c, "shared", 0);
        printf("%s, shared: %.2f\n", c->program, shared);
        CHECK(shared >= 5.0); /* else this test cannot see a herd */
    }
}

int main(void)
{
    test_begin(230);
    connections = test_is_slow() ? connections_most : connections;
    server_for_each(wakeups);
    test_exit(0);
}
