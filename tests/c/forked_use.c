/* R33: a forked child that uses its parent's worker is told so and changes nothing; it makes a
   worker of its own. */
#include "every_call.h"

struct results {
    int runs[2];
};

static struct results *results;
static int runs;

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    char byte;
    (void)worker;
    CHECK(ready & HERD_READ);
    CHECK_EQ(read(event->fd, &byte, 1), 1);
    ++*(int *)event->data;
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)worker;
    ++*(int *)timer->data;
}

static void inherited_worker(void)
{
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    int listener = new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd);
    struct herd_event event;
    struct herd_timer timer;
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_CODE(herd_event_init(&event, on_event, &runs), 0);
    CHECK_CODE(herd_timer_init(&timer, on_timer, &runs), 0);
    CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
    CHECK_CODE(herd_timer_start(worker, &timer, 0), 0);
    CHECK_EQ(herd_conn_opened(worker), 1);
    CHECK_EQ(herd_trylock(worker), 1);
    struct herd_stats before = total_stats(herd);

    pid_t child = test_fork();
    if (child == 0) {
        check_every_call(worker, HERD_EFORKED, &event, &timer);
        /* Only the copies go; the slot stays the parent's. */
        int fds = open_fds();
        CHECK_CODE(herd_worker_destroy(worker), 0);
        CHECK_EQ(open_fds(), fds - 1);
        CHECK_CODE(herd_worker_destroy(worker), HERD_EDESTROYED);
        struct herd_worker *own = NULL;
        CHECK_CODE(herd_worker_create(herd, 0, &own), -EBUSY);
        CHECK_CODE(herd_worker_create(herd, 1, &own), 0);
        CHECK_EQ(herd_trylock(own), 0);
        CHECK_CODE(herd_worker_destroy(own), 0);
        CHECK_CODE(herd_destroy(herd), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);

    /* One that destroys the whole herd, worker and all. */
    child = test_fork();
    if (child == 0) {
        CHECK_CODE(herd_destroy(herd), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);

    struct herd_stats after = total_stats(herd);
    CHECK_EQ(after.workers, 1);
    CHECK_EQ(after.connections_open, 1);
    CHECK_EQ(after.closed, before.closed);
    CHECK_EQ(after.acquisitions, before.acquisitions);
    CHECK_EQ(after.turns, before.turns);
    CHECK_EQ(herd_worker_state(worker), HERD_WORKER_RUNNING);
    CHECK_EQ(herd_unlock(worker), 1);

    /* Registrations, timers and listeners as before. */
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_CODE(herd_run_once(worker, 5000), 2);
    CHECK_EQ(runs, 2);
    int client = connect_to(address_of(herd, listener));
    struct herd_accepted accepted;
    memset(&accepted, 0, sizeof accepted);
    accepted.size = sizeof accepted;
    CHECK(herd_run_once(worker, 5000) >= 0);
    CHECK_CODE(herd_accept(worker, &accepted), 0);
    close(accepted.fd);
    close(client);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    close(ends[0]);
    close(ends[1]);
}

/* Prepared in the master, used in each child, with descriptors of the same number. */
static void prepared_before_fork(void)
{
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    struct herd_event event;
    pid_t children[2];
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    for (int i = 0; i < 2; i++) {
        children[i] = test_fork();
        if (children[i] == 0) {
            int ends[2], mine = 0;
            struct herd_worker *worker = NULL;
            CHECK_CODE(herd_worker_create(herd, i, &worker), 0);
            CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
            event.data = &mine;
            CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
            for (int round = 0; round < 100 * (i + 1); round++) {
                CHECK_EQ(write(ends[1], "x", 1), 1);
                CHECK_CODE(herd_run_once(worker, 5000), 1);
            }
            CHECK_CODE(herd_run_once(worker, 0), 0);
            results->runs[i] = mine;
            CHECK_CODE(herd_event_del(worker, &event), 0);
            CHECK_CODE(herd_worker_destroy(worker), 0);
            CHECK_CODE(herd_destroy(herd), 0);
            test_exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(test_join(children[i]), 0);
        CHECK_EQ(results->runs[i], 100 * (i + 1));
    }
    CHECK_EQ(total_stats(herd).workers, 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(30);
    results = (struct results *)shared_memory(sizeof *results);
    int fds = open_fds();
    inherited_worker();
    prepared_before_fork();
    CHECK_EQ(open_fds(), fds);
    return 0;
}
