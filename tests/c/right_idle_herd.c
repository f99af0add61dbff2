/* An idle herd wakes at most 2.5 times a second in all, however many its workers. */
#include "right.h"

enum { seconds = 3 };

static void stay_idle(const struct right_case *c, int workers)
{
    struct herd_config config = right_config(c, 0);
    int slot;
    serve_start(&config, workers);
    for (int i = 0; i < 3; i++) {
        close(serve_connect(&slot));
    }
    serve_settle();
    long long sleeps = serve_sleeps();
    uint64_t turns = serve_total().turns;
    int64_t began_ms = now_ms();
    sleep_ms(seconds * 1000);
    sleeps = serve_sleeps() - sleeps;
    turns = serve_total().turns - turns;
    long long took_s = (now_ms() - began_ms + 999) / 1000; /* a busy machine lets this process sleep on */
    printf("%s, %d workers: %.1f wake-ups a second, %.1f turns\n", c->name, workers,
           (double)sleeps / seconds, (double)turns / seconds);
    /* The guard is alive, and nothing else is. */
    CHECK(sleeps >= seconds);
    CHECK(sleeps <= took_s * 5 / 2);
    CHECK(turns <= (uint64_t)took_s * 5);
    serve_end();
}

int main(void)
{
    test_begin(55);
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance == HERD_BALANCE_SPREAD) {
            stay_idle(&right_cases[i], 16);
            stay_idle(&right_cases[i], 64);
        }
    }
    test_exit(0);
}
