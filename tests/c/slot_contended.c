/* A slot that changes hands among processes as fast as it can has one owner at a time, whose
   figures are its own. */
#include "check.h"

#include <sched.h>

#define PROCESSES 4
#define HOLD 100

struct shared {
    int owners;
    int turns[PROCESSES];
    int stop;
};

static void contend(struct herd *herd, struct shared *shared, int number)
{
    while (!SHARED_GET(shared->stop)) {
        struct herd_worker *worker = NULL;
        int code = herd_worker_create(herd, 0, &worker);
        if (code == -EBUSY) {
            sched_yield();
            continue;
        }
        CHECK_CODE(code, 0);
        CHECK_EQ(SHARED_ADD(shared->owners, 1), 1);
        for (int i = 0; i < HOLD; i++) {
            CHECK_EQ(herd_conn_opened(worker), 1);
            CHECK_EQ(herd_conn_closed(worker), 0);
        }
        SHARED_ADD(shared->turns[number], 1);
        CHECK_EQ(SHARED_ADD(shared->owners, -1), 0);
        CHECK_CODE(herd_worker_destroy(worker), 0);
    }
    CHECK_CODE(herd_destroy(herd), 0);
}

static int all_had_turns(const struct shared *shared)
{
    for (int i = 0; i < PROCESSES; i++) {
        if (SHARED_GET(shared->turns[i]) == 0) {
            return 0;
        }
    }
    return 1;
}

int main(void)
{
    test_begin(40);
    struct shared *shared = (struct shared *)shared_memory(sizeof *shared);
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 1);
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = test_fork();
        if (children[i] == 0) {
            contend(herd, shared, i);
            test_exit(0);
        }
    }
    /* For 2 s, and then until each has had a turn, as far as the test's own limit allows. */
    int64_t end_ms = now_ms() + 2000;
    for (int running = PROCESSES; running == PROCESSES && (now_ms() < end_ms || !all_had_turns(shared));) {
        sleep_ms(10);
        for (int i = 0; i < PROCESSES; i++) {
            running -= test_ended(children[i]);
        }
    }
    SHARED_SET(shared->stop, 1);
    long long turns = 0;
    for (int i = 0; i < PROCESSES; i++) {
        CHECK_EQ(test_join(children[i]), 0);
        CHECK(shared->turns[i] > 0);
        turns += shared->turns[i];
    }
    printf("%lld turns\n", turns);
    struct herd_stats stats = total_stats(herd);
    CHECK_EQ(stats.closed, turns * HOLD);
    CHECK_EQ(stats.workers, 0);
    CHECK_EQ(stats.connections_open, 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
