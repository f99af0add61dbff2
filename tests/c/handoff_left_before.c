/* A new worker takes at once what was sent to one that has left, and waits no accept_delay for it. The only worker
 * that there can be has nobody to look after, and its wait is a wait. */
#include "handoff_pair.h"

static struct herd *herd_of(uint32_t workers)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = workers;
    config.accept_delay_ms = 60000;
    config.handover_delay_us = 500000;
    CHECK_CODE(herd_create(&config, &herd), 0);
    CHECK_CODE(herd_on_handoff(herd, pair_on_handoff, NULL), 0);
    return herd;
}

/* Returns how often the guard has ticked: after a worker has left it does so soon. */
static uint64_t takes_what_was_left(int wait_ms)
{
    struct herd_worker *worker;
    pair.herd = herd_of(2);
    CHECK_CODE(herd_worker_create(pair.herd, 0, &worker), 0);
    CHECK(herd_run_once(worker, 0) >= 0);
    int client = pair_send();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_worker_create(pair.herd, 1, &pair.workers[1]), 0);
    unsigned before = pair.delivered;
    CHECK(herd_run_once(pair.workers[1], wait_ms) >= 0);
    CHECK_EQ(pair.delivered, before + 1);
    CHECK_EQ(pair.slot, 1);
    pair_expect_end(client);
    CHECK_EQ(total_stats(pair.herd).handoff_rerouted, 1);
    /* That was all: it does not look again. */
    int64_t began = now_ms();
    CHECK(herd_run_once(pair.workers[1], 50) >= 0);
    int64_t waited_ms = now_ms() - began;
    uint64_t ticks = total_stats(pair.herd).guard_ticks;
    CHECK(waited_ms >= 49 || ticks > 0);
    CHECK_CODE(herd_worker_destroy(pair.workers[1]), 0);
    CHECK_CODE(herd_destroy(pair.herd), 0);
    return ticks;
}

static void waits_alone(void)
{
    struct herd *herd = herd_of(1);
    struct herd_worker *worker = new_worker(herd);
    int64_t began = now_ms();
    for (int turns = 0; turns < 3; turns++) {
        CHECK(herd_run_once(worker, 50) >= 0);
    }
    CHECK(now_ms() - began >= 3 * 49);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(30);
    uint64_t ticks;
    CHECK_IN_SOME_TRY(ticks = takes_what_was_left(0), ticks == 0);
    CHECK_IN_SOME_TRY(ticks = takes_what_was_left(-1), ticks == 0);
    waits_alone();
    test_exit(0);
}
