/* A living worker that lost its slot, since its host closed a descriptor of the herd's memory, is
   told so by every call that would touch its slot, and the slot's next worker keeps its own
   figures and is steered to. What the kernel wakes it for goes to another at once. */
#include "reuseport.h"

struct shared {
    int ready;
    int reaped;
};

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker;
    (void)event;
    (void)ready;
}

/*
 * What a host does that closes descriptors it does not know: closing any descriptor of a file drops
 * the process's record locks on it (fcntl(2)), by which the herd knows that a worker lives.
 */
static void lose_record_locks(void)
{
    for (int fd = 3; fd < 64; fd++) {
        char path[32], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, "memfd:herd-") != NULL) {
            int copy = dup(fd);
            CHECK(copy >= 0);
            close(copy);
        }
    }
}

#define REFUSED(call) CHECK_CODE(call, HERD_EREAPED)

static void reported_dead(struct herd *herd, struct shared *shared)
{
    struct herd_worker *worker = new_worker(herd);
    struct herd_accepted accepted;
    memset(&accepted, 0, sizeof accepted);
    accepted.size = sizeof accepted;
    CHECK_EQ(herd_conn_opened(worker), 1);
    CHECK_EQ(herd_trylock(worker), 1);
    lose_record_locks();
    SHARED_SET(shared->ready, 1);
    WAIT_UNTIL(SHARED_GET(shared->reaped), 10000);

    REFUSED(herd_run_once(worker, 0));
    REFUSED(herd_run(worker));
    REFUSED(herd_worker_state(worker));
    REFUSED(herd_worker_slot(worker));
    REFUSED(herd_trylock(worker));
    REFUSED(herd_enable_accept(worker));
    REFUSED(herd_process_events(worker, 0, HERD_POST_EVENTS));
    REFUSED(herd_conn_opened(worker));
    REFUSED(herd_conn_closed(worker));
    REFUSED(herd_set_load(worker, 5));
    REFUSED(herd_process_posted(worker, HERD_POSTED_ACCEPT));
    REFUSED(herd_accept(worker, &accepted));
    /* Events can still be taken out in order, and the right is no longer its own to give up. */
    struct herd_event event;
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_EQ(herd_post(worker, &event, HERD_POSTED_EVENTS), 1);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    CHECK(herd_unlock(worker) <= 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void next_keeps_its_figures(void)
{
    struct shared *shared = (struct shared *)shared_memory(sizeof *shared);
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    config.accept_delay_ms = 60000; /* no tick of the guard in between */
    CHECK_CODE(herd_create(&config, &herd), 0);
    new_listener(herd, NULL, NULL);
    pid_t child = test_fork();
    if (child == 0) {
        reported_dead(herd, shared);
        test_exit(0);
    }
    WAIT_UNTIL(SHARED_GET(shared->ready), 10000);
    CHECK_EQ(herd_reap(herd, child), 1);
    CHECK_EQ(herd_reap(herd, child), 0);
    struct herd_worker *worker = NULL;
    CHECK_CODE(herd_worker_create(herd, 0, &worker), 0);
    for (int open = 1; open <= 3; open++) {
        CHECK_EQ(herd_conn_opened(worker), open);
    }
    CHECK_EQ(herd_trylock(worker), 1);
    SHARED_SET(shared->reaped, 1);
    CHECK_EQ(test_join(child), 0);

    CHECK_EQ(total_stats(herd).workers, 1);
    CHECK_EQ(total_stats(herd).connections_open, 3);
    CHECK_EQ(total_stats(herd).reaps, 1);
    CHECK_EQ(herd_unlock(worker), 1);
    CHECK_EQ(herd_conn_opened(worker), 4);
    for (int open = 3; open >= 0; open--) {
        CHECK_EQ(herd_conn_closed(worker), open);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* --- among others --------------------------------------------------------------------------- */

enum { step_lost = 1, step_blocked, step_left, step_end };

static void reach(int step)
{
    SHARED_SET(serve.shared->knob, step);
}

static void await(int step)
{
    WAIT_UNTIL(SHARED_GET(serve.shared->knob) >= step, 30000);
}

/* A worker without record locks. */
static pid_t fork_lost(int slot, int runs)
{
    pid_t child = test_fork();
    if (child == 0) {
        struct herd_worker *worker = NULL;
        CHECK_CODE(herd_worker_create(serve.herd, slot, &worker), 0);
        lose_record_locks();
        SHARED_SET(serve.shared->ready[slot], getpid());
        if (runs) {
            REFUSED(herd_run(worker));
            reach(step_left);
        }
        await(step_end);
        CHECK_CODE(herd_worker_destroy(worker), 0);
        test_exit(0);
    }
    return child;
}

static void block(struct herd_worker *worker)
{
    (void)worker;
    reach(step_blocked);
    await(step_end);
}

static void close_and_end(int *clients, int count)
{
    for (int i = 0; i < count; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_end();
}

/*
 * In the listener's wait queue the lost worker is before the last one, and the first is busy. Returns the slot
 * that greets; -1: none in 10 s; -3: it was woken before.
 */
static int wakes_another(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[2], slot = -3;
    config.mode = HERD_MODE_EXCLUSIVE;
    config.accept_delay_ms = 60000;     /* the guard must not be what helps, */
    config.handover_delay_us = 1000000; /* nor that it ticks after a death */
    serve.on_request = block;
    serve_prepare(&config, 3);
    serve_fork(0);
    serve_settle();
    pid_t lost = fork_lost(1, 1);
    serve.pids[1] = lost;
    serve_settle();
    serve_fork(2);
    serve_settle();
    serve.pids[1] = 0;
    uint64_t ticks = serve_total().guard_ticks;
    serve_report(1, lost);
    WAIT_UNTIL(serve_total().guard_ticks > ticks, 10000);
    serve_settle();
    clients[0] = serve_connect(&slot);
    if (slot == 0 && SHARED_GET(serve.shared->knob) == 0) {
        CHECK_EQ(send(clients[0], "x", 1, MSG_NOSIGNAL), 1);
        await(step_blocked);
        clients[1] = connect_to(serve.address);
        slot = serve_greeting(clients[1], 10000);
        WAIT_UNTIL(SHARED_GET(serve.shared->knob) == step_left, 10000);
    } else {
        clients[1] = connect_to(serve.address);
        slot = -3;
    }
    reach(step_end);
    CHECK_EQ(test_join(lost), 0);
    close_and_end(clients, 2);
    serve.on_request = NULL;
    return slot;
}

static void be_loaded(struct herd_worker *worker, int slot)
{
    CHECK_CODE(herd_set_load(worker, slot == 1 ? 1000 : 0), 0);
}

/* Returns how many of some connections go to the less loaded worker, whose slot was the lost one's. */
static int steered_to_next(void)
{
    enum { few = 4, most = 65 };
    struct herd_config config = reuseport_config(1, 60000);
    int clients[most + few], count = 0, slot = 0, got = 0;
    serve.on_accept = be_loaded;
    serve_prepare(&config, 2);
    pid_t lost = fork_lost(0, 0);
    WAIT_UNTIL(SHARED_GET(serve.shared->ready[0]) == lost, 10000);
    serve_report(0, lost);
    serve_fork(1);
    serve_settle();
    while (slot != 1 && count < most - 1) {
        clients[count++] = serve_connect(&slot);
    }
    serve_fork(0);
    serve_settle();
    clients[count++] = serve_connect(&slot); /* where time is slow, it has not yet said that it is idle */
    serve_settle();
    reach(step_end);
    CHECK_EQ(test_join(lost), 0);
    for (int i = 0; i < few; i++) {
        serve_settle();
        clients[count++] = serve_connect(&slot);
        got += slot == 0;
    }
    close_and_end(clients, count);
    serve.on_accept = NULL;
    return got;
}

int main(void)
{
    int slot, got;
    test_begin(55);
    next_keeps_its_figures();
    struct herd *herd = new_herd(HERD_MODE_EXCLUSIVE, 2);
    int is_exclusive = herd_mode(herd) == HERD_MODE_EXCLUSIVE;
    CHECK_CODE(herd_destroy(herd), 0);
    if (is_exclusive) {
        CHECK_IN_SOME_TRY(slot = wakes_another(), slot != -3);
        CHECK_EQ(slot, 2);
    }
    if (reuseport_can_steer()) {
        CHECK_IN_SOME_TRY(got = steered_to_next(), got == 4);
    }
    return 0;
}
