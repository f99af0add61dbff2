/* R01: with 8 idle workers a connection wakes one of them, and all in shared mode. timeout: 180 */
#include "serve.h"

/* The connections must not keep step with the guard, which ticks every 500 ms. */
enum { workers = 8, connections = 40, gap_ms = 47 };

/* Sleeps of all workers for each connection, without those for the guard. */
static double sleeps_a_connection(uint32_t mode, uint32_t balance, int with_request)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[connections], slot;
    config.mode = mode;
    config.balance = balance;
    serve_start(&config, workers);
    CHECK_EQ(herd_mode(serve.herd), mode);
    struct herd_stats before = serve_total();
    long long sleeps = serve_sleeps();
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slot);
        if (with_request) {
            sleep_ms(gap_ms / 2);
            serve_echo(clients[i]);
        }
        sleep_ms(gap_ms);
    }
    serve_settle();
    sleeps = serve_sleeps() - sleeps;
    struct herd_stats after = serve_total();
    CHECK_EQ(after.accepted - before.accepted, connections);
    if (mode != HERD_MODE_SHARED) {
        serve_check_waste(&before, &after);
    }
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    serve_end();
    return (double)(sleeps - (long long)(after.guard_ticks - before.guard_ticks)) / connections;
}

int main(void)
{
    static const struct {
        uint32_t mode, balance;
        const char *name;
    } ways[] = {
        { HERD_MODE_MUTEX, HERD_BALANCE_PACK, "mutex/pack" },
        { HERD_MODE_MUTEX, HERD_BALANCE_SPREAD, "mutex/spread" },
        { HERD_MODE_EXCLUSIVE, HERD_BALANCE_PACK, "exclusive/pack" },
        { HERD_MODE_EXCLUSIVE, HERD_BALANCE_SPREAD, "exclusive/spread" },
        { HERD_MODE_HANDOFF, HERD_BALANCE_SPREAD, "handoff/spread" },
        { HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD, "reuseport/spread" },
    };
    test_begin(170);
    double shared = sleeps_a_connection(HERD_MODE_SHARED, HERD_BALANCE_PACK, 0);
    printf("sleeps a connection: shared %.2f\n", shared);
    CHECK(shared >= 5.0); /* else this test cannot see a herd */
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        double accepted, answered;
        /* A connection that is passed on wakes the one that accepts and the one that serves. */
        double more = ways[i].mode == HERD_MODE_HANDOFF ? 1.0 : 0.0;
        CHECK_IN_SOME_TRY(accepted = sleeps_a_connection(ways[i].mode, ways[i].balance, 0),
                          accepted >= 0.5 && accepted <= 1.5 + more);
        CHECK_IN_SOME_TRY(answered = sleeps_a_connection(ways[i].mode, ways[i].balance, 1),
                          answered >= 1.5 && answered <= 2.2 + more);
        printf("%s %.2f, with its request %.2f\n", ways[i].name, accepted, answered);
    }
    test_exit(0);
}
