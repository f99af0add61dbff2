/* R03 a: after the death of the accept right's holder is reported, another worker accepts at once. */
#include "serve.h"

enum { workers = 4, rounds = 5 };

static int ascending(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int64_t waited_ms[rounds];
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; /* the safety net must not be what helps */
    test_begin(50);
    serve_start(&config, workers);
    for (int round = 0; round < rounds; round++) {
        int holder = serve_find_holder(NULL);
        pid_t dead = serve_crash(holder);
        serve_report(holder, dead);
        int64_t reported_ms = now_ms();
        int slot;
        int client = serve_connect(&slot);
        waited_ms[round] = now_ms() - reported_ms;
        CHECK(slot != holder);
        close(client);
        CHECK_CODE(herd_reap(serve.herd, dead), 0);
        serve_fork(holder);
        serve_settle();
    }
    qsort(waited_ms, rounds, sizeof waited_ms[0], ascending);
    printf("accepted %d ms after the report, at most %d\n", (int)waited_ms[rounds / 2],
           (int)waited_ms[rounds - 1]);
    CHECK(waited_ms[rounds / 2] < 100);
    CHECK(waited_ms[rounds - 1] < 5000);
    struct herd_stats total = serve_total();
    CHECK_EQ(total.reaps, rounds);
    CHECK(total.thefts < rounds); /* a descheduled holder looks like a stopped one */
    serve_end();
    test_exit(0);
}
