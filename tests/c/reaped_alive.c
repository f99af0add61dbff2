/* A living worker that lost its slot, since its host closed a descriptor of the herd's memory, is
   told so by every call that would touch its slot, and the slot's next worker keeps its own
   figures. */
#include "check.h"

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

int main(void)
{
    test_begin(30);
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
    return 0;
}
