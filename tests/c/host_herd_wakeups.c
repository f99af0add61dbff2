/* R20: in loops of the host's a connection wakes one of 8 idle workers, whether the library's
   descriptors are in the loop's epoll set or behind one that it polls, and all of them in shared mode.
   timeout: 180 */
#include "hosted.h"

/* The connections must not keep step with the guard, which ticks every 500 ms. */
enum { workers = 8, connections = 40, gap_ms = 47 };

/* Sleeps of all workers for each connection, without those for the guard. Behind a polled descriptor
   its ticks wake all who wait. */
static double sleeps_a_connection(uint32_t mode, uint32_t balance, enum hosted_way way)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[connections], slot;
    config.mode = mode;
    config.balance = balance;
    hosted_start(&config, workers, way);
    CHECK_EQ(herd_mode(serve.herd), mode);
    struct herd_stats before = serve_total();
    long long sleeps = serve_sleeps();
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slot);
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
    long long ticks = (long long)(after.guard_ticks - before.guard_ticks);
    return (double)(sleeps - ticks * (way == HOSTED_NESTED ? workers : 1)) / connections;
}

int main(void)
{
    static const struct {
        uint32_t mode, balance;
        enum hosted_way way;
        const char *name;
    } ways[] = {
        { HERD_MODE_EXCLUSIVE, HERD_BALANCE_SPREAD, HOSTED_ATTACHED, "attached exclusive/spread" },
        { HERD_MODE_MUTEX, HERD_BALANCE_SPREAD, HOSTED_ATTACHED, "attached mutex/spread" },
        { HERD_MODE_MUTEX, HERD_BALANCE_PACK, HOSTED_ATTACHED, "attached mutex/pack" },
        { HERD_MODE_MUTEX, HERD_BALANCE_SPREAD, HOSTED_NESTED, "nested mutex/spread" },
        { HERD_MODE_MUTEX, HERD_BALANCE_PACK, HOSTED_NESTED, "nested mutex/pack" },
    };
    test_begin(170);
    double attached = sleeps_a_connection(HERD_MODE_SHARED, HERD_BALANCE_PACK, HOSTED_ATTACHED);
    double nested = sleeps_a_connection(HERD_MODE_SHARED, HERD_BALANCE_PACK, HOSTED_NESTED);
    printf("sleeps a connection: shared attached %.2f, nested %.2f\n", attached, nested);
    CHECK(attached >= 5.0 && nested >= 5.0); /* else this test cannot see a herd */
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        double sleeps;
        CHECK_IN_SOME_TRY(sleeps = sleeps_a_connection(ways[i].mode, ways[i].balance, ways[i].way),
                          sleeps >= 0.5 && sleeps <= 2.0);
        printf("%s %.2f\n", ways[i].name, sleeps);
    }
    test_exit(0);
}
