/* R09: a report of a death is checked: a living worker, a process that is no worker and the caller
   itself keep what they have, a dead one gives everything back at once. */
#include "check.h"

struct shared {
    int ready[2];
    int checked;
};

/* A worker with connections; the first one holds the accept right as well. */
static void serve(struct herd *herd, struct shared *shared, int slot)
{
    struct herd_worker *worker = NULL;
    CHECK_CODE(herd_worker_create(herd, slot, &worker), 0);
    CHECK_EQ(herd_conn_opened(worker), 1);
    CHECK_EQ(herd_conn_opened(worker), 2);
    CHECK_EQ(herd_trylock(worker), slot == 0);
    SHARED_SET(shared->ready[slot], 1);
    WAIT_UNTIL(SHARED_GET(shared->checked), 20000);
    /* After the mistaken report everything is as before. */
    CHECK_EQ(herd_unlock(worker), slot == 0);
    CHECK_EQ(herd_trylock(worker), slot == 0);
    CHECK_EQ(herd_conn_closed(worker), 1);
    SHARED_SET(shared->ready[slot], 2);
    for (;;) {
        pause();
    }
}

int main(void)
{
    test_begin(40);
    struct shared *shared = (struct shared *)shared_memory(sizeof *shared);
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 3;
    config.accept_delay_ms = 60000; /* no tick of the guard in between */
    CHECK_CODE(herd_create(&config, &herd), 0);
    new_listener(herd, NULL, NULL);
    pid_t children[2];
    for (int slot = 0; slot < 2; slot++) {
        children[slot] = test_fork();
        if (children[slot] == 0) {
            serve(herd, shared, slot);
        }
        WAIT_UNTIL(SHARED_GET(shared->ready[slot]) == 1, 10000);
    }
    struct herd_worker *own = NULL;
    CHECK_CODE(herd_worker_create(herd, 2, &own), 0);
    CHECK_EQ(herd_conn_opened(own), 1);
    CHECK_EQ(herd_free_slots(herd), 0);

    for (int slot = 0; slot < 3; slot++) {
        CHECK_CODE(herd_worker_alive(herd, slot), 1);
    }
    CHECK_CODE(herd_worker_alive(herd, 3), -EINVAL);
    CHECK_CODE(herd_worker_alive(herd, -1), -EINVAL);
    CHECK_CODE(herd_worker_alive(herd, 65536), -EINVAL);
    CHECK_CODE(herd_reap(herd, 0), -EINVAL);
    CHECK_CODE(herd_reap(herd, -1), -EINVAL);
    CHECK_CODE(herd_reap(herd, INT32_MIN), -EINVAL);
    CHECK_CODE(herd_reap(herd, children[0]), 0);
    CHECK_CODE(herd_reap(herd, children[1]), 0);
    CHECK_CODE(herd_reap(herd, getpid()), 0);
    CHECK_CODE(herd_reap(herd, INT32_MAX), 0);
    CHECK_EQ(total_stats(herd).workers, 3);
    CHECK_EQ(total_stats(herd).connections_open, 5);
    CHECK_EQ(total_stats(herd).reaps, 0);
    CHECK_EQ(herd_trylock(own), 0);
    SHARED_SET(shared->checked, 1);
    for (int slot = 0; slot < 2; slot++) {
        WAIT_UNTIL(SHARED_GET(shared->ready[slot]) == 2, 10000);
    }
    CHECK_EQ(total_stats(herd).connections_open, 3);
    CHECK_EQ(herd_worker_state(own), HERD_WORKER_RUNNING);

    /* A child that was no worker. */
    pid_t other = test_fork();
    if (other == 0) {
        test_exit(0);
    }
    CHECK_EQ(test_join(other), 0);
    CHECK_CODE(herd_reap(herd, other), 0);

    /* The holder dies, and with it its connections and the right. */
    test_kill(children[0]);
    CHECK_CODE(herd_worker_alive(herd, 0), 0);
    CHECK_EQ(total_stats(herd).workers, 3); /* to ask frees nothing */
    CHECK_CODE(herd_reap(herd, children[0]), 1);
    CHECK_CODE(herd_reap(herd, children[0]), 0);
    CHECK_EQ(total_stats(herd).workers, 2);
    CHECK_EQ(total_stats(herd).connections_open, 2);
    CHECK_EQ(total_stats(herd).reaps, 1);
    CHECK_EQ(herd_trylock(own), 1);
    CHECK_EQ(herd_unlock(own), 1);
    struct herd_worker *next = NULL;
    CHECK_CODE(herd_worker_create(herd, 1, &next), -EBUSY);
    CHECK_CODE(herd_worker_create(herd, 0, &next), 0);
    CHECK_CODE(herd_worker_alive(herd, 0), 1);
    /* A stopped one lives. */
    kill(children[1], SIGSTOP);
    WAIT_UNTIL(process_state(children[1]) == 'T', 10000);
    CHECK_CODE(herd_worker_alive(herd, 1), 1);
    CHECK_CODE(herd_conn_closed(next), -ERANGE);

    /* One that nobody reports is found when slots are counted. */
    test_kill(children[1]);
    CHECK_EQ(herd_free_slots(herd), 1);
    CHECK_EQ(total_stats(herd).reaps, 2);
    CHECK_EQ(total_stats(herd).connections_open, 1);
    CHECK_CODE(herd_worker_destroy(next), 0);
    CHECK_CODE(herd_worker_destroy(own), 0);
    CHECK_CODE(herd_worker_alive(herd, 2), 0);
    CHECK_EQ(herd_free_slots(herd), 3);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
