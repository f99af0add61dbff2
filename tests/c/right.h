/* What the right_ programs share: the modes and policies that a promise holds for. */
#ifndef RIGHT_H
#define RIGHT_H

#include "serve.h"

struct right_case {
    uint32_t mode;
    uint32_t balance;
    const char *name;
};

static const struct right_case right_cases[] = {
    {HERD_MODE_EXCLUSIVE, HERD_BALANCE_SPREAD, "EXCLUSIVE/SPREAD"},
    {HERD_MODE_EXCLUSIVE, HERD_BALANCE_PACK, "EXCLUSIVE/PACK"},
    {HERD_MODE_MUTEX, HERD_BALANCE_SPREAD, "MUTEX/SPREAD"},
    {HERD_MODE_MUTEX, HERD_BALANCE_PACK, "MUTEX/PACK"},
    {HERD_MODE_HANDOFF, HERD_BALANCE_SPREAD, "HANDOFF/SPREAD"},
    {HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD, "REUSEPORT/SPREAD"},
};

enum { right_case_count = sizeof right_cases / sizeof right_cases[0] };

/* Whether one worker holds the accept right, which others take from it when it makes no progress. */
CHECK_HELPER int right_has_holder(const struct right_case *c)
{
    return c->mode == HERD_MODE_MUTEX || c->mode == HERD_MODE_HANDOFF;
}

CHECK_HELPER struct herd_config right_config(const struct right_case *c, uint32_t accept_delay_ms)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = c->mode;
    config.balance = c->balance;
    config.accept_delay_ms = accept_delay_ms;
    return config;
}

/* A number below `bound`, from a seed that the caller keeps (xorshift). */
CHECK_HELPER uint32_t right_random(uint32_t *seed, uint32_t bound)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed % bound;
}

/* HERD_TEST_SEED, or one of its own; printed, so that a run can be repeated. */
CHECK_HELPER uint32_t right_seed(void)
{
    const char *given = getenv("HERD_TEST_SEED");
    uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 0) : (uint32_t)now_us();
    seed += seed == 0;
    printf("HERD_TEST_SEED=%u\n", seed);
    return seed;
}

/* A turn by the hand-written recipe. `between` runs when listeners are ready and nothing is accepted
 * yet, and says whether to accept; NULL: always. */
CHECK_HELPER void right_turn(struct herd_worker *worker, int (*between)(struct herd_worker *worker))
{
    CHECK(herd_trylock(worker) >= 0);
    CHECK(herd_process_events(worker, -1, HERD_POST_EVENTS) >= 0);
    if (herd_posted_count(worker, HERD_POSTED_ACCEPT) == 0 || between == NULL || between(worker)) {
        CHECK(herd_process_posted(worker, HERD_POSTED_ACCEPT) >= 0);
    }
    CHECK(herd_unlock(worker) >= 0);
    CHECK(herd_process_timers(worker) >= 0);
    CHECK(herd_process_posted(worker, HERD_POSTED_EVENTS) >= 0);
}

#endif
