/* An event or timer that was deleted may be freed at once, in its own handler and in another's; it
   never runs and is never touched again. */
#include "check.h"

#include <sys/eventfd.h>

/* Events live in pages of their own, which are unmapped when they are freed: any touch is a crash. */
struct object {
    struct herd_event event;
    struct herd_timer timer;
    struct object *victim;
    int fd;
};

static struct herd_worker *worker;
static int runs, late_runs;

static struct object *new_object(void)
{
    struct object *object =
        (struct object *)mmap(NULL, sizeof *object, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(object != MAP_FAILED);
    object->victim = NULL;
    object->fd = -1;
    return object;
}

static void free_object(struct object *object)
{
    if (object->fd >= 0) {
        close(object->fd);
    }
    memset(object, 0xdb, sizeof *object);
    CHECK_EQ(munmap(object, sizeof *object), 0);
}

static void on_event(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    struct object *object = (struct object *)event->data;
    (void)ready;
    runs++;
    if (object->victim != NULL) {
        CHECK_CODE(herd_event_del(of, &object->victim->event), 0);
        free_object(object->victim);
    }
    int code = herd_event_del(of, event);
    CHECK(code == 0 || (code == -ENOENT && object->fd < 0));
    free_object(object);
}

static void on_timer(struct herd_worker *of, struct herd_timer *timer)
{
    struct object *object = (struct object *)timer->data;
    runs++;
    if (object->victim != NULL) {
        CHECK_EQ(herd_timer_stop(of, &object->victim->timer), 1);
        free_object(object->victim);
    }
    free_object(object);
}

/* An event that is not ready yet. */
static struct object *quiet(void)
{
    struct object *object = new_object();
    object->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(object->fd >= 0);
    CHECK_CODE(herd_event_init(&object->event, on_event, object), 0);
    CHECK_CODE(herd_event_add(worker, &object->event, object->fd, HERD_READ), 0);
    return object;
}

static struct object *ready_one(void)
{
    struct object *object = quiet();
    uint64_t one = 1;
    CHECK_EQ(write(object->fd, &one, sizeof one), sizeof one);
    return object;
}

static struct object *only_posted(uint32_t queue)
{
    struct object *object = new_object();
    CHECK_CODE(herd_event_init(&object->event, on_event, object), 0);
    CHECK_EQ(herd_post(worker, &object->event, queue), 1);
    return object;
}

/* Turns until nothing is left to do; then `expected` handlers must have run. */
static void expect(int expected)
{
    runs = 0;
    for (int turn = 0; turn < 4; turn++) {
        CHECK(herd_run_once(worker, 0) >= 0);
    }
    CHECK_EQ(runs, expected);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_EVENTS), 0);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_NEXT), 0);
}

static void on_late(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)event;
    (void)ready;
    late_runs++;
}

/* Deletes the victim and gives its descriptor's number to an event that is not ready. */
static struct herd_event successor;

static void on_replace(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    struct object *object = (struct object *)event->data;
    int number = object->victim->fd;
    (void)ready;
    runs++;
    CHECK_CODE(herd_event_del(of, &object->victim->event), 0);
    free_object(object->victim);
    free_object(object);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK_EQ(fd, number);
    CHECK_CODE(herd_event_init(&successor, on_late, NULL), 0);
    CHECK_CODE(herd_event_add(of, &successor, fd, HERD_READ), 0);
}

int main(void)
{
    test_begin(60);
    int fds = open_fds();
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    worker = new_worker(herd);

    /* In its own handler. */
    ready_one();
    expect(1);
    only_posted(HERD_POSTED_EVENTS);
    expect(1);
    only_posted(HERD_POSTED_NEXT);
    expect(1);

    /* In another's, while both are posted in one batch: whichever runs first frees the other. */
    struct object *first = ready_one(), *second = ready_one();
    first->victim = second;
    second->victim = first;
    expect(1);
    first = only_posted(HERD_POSTED_EVENTS);
    first->victim = only_posted(HERD_POSTED_EVENTS);
    expect(1);
    /* Those around the victim keep their places. */
    first = only_posted(HERD_POSTED_EVENTS);
    only_posted(HERD_POSTED_EVENTS);
    first->victim = only_posted(HERD_POSTED_EVENTS);
    only_posted(HERD_POSTED_EVENTS);
    expect(3);
    first = only_posted(HERD_POSTED_EVENTS);
    only_posted(HERD_POSTED_EVENTS);
    first->victim = only_posted(HERD_POSTED_EVENTS);
    expect(2);
    first = only_posted(HERD_POSTED_EVENTS);
    first->victim = quiet();
    expect(1);

    /* Posted by the host, on top of being ready, then deleted outside of any handler. */
    for (uint32_t queue = HERD_POSTED_EVENTS; queue <= HERD_POSTED_NEXT; queue++) {
        first = ready_one();
        CHECK_EQ(herd_post(worker, &first->event, queue), 1);
        CHECK_CODE(herd_event_del(worker, &first->event), 0);
        CHECK_CODE(herd_event_del(worker, &first->event), -ENOENT);
        free_object(first);
        first = only_posted(queue);
        CHECK_CODE(herd_event_del(worker, &first->event), 0);
        free_object(first);
        first = only_posted(queue);
        CHECK_EQ(herd_unpost(worker, &first->event), 1);
        free_object(first);
    }
    first = quiet();
    CHECK_EQ(herd_post_remote(worker, &first->event), 1);
    CHECK_CODE(herd_event_del(worker, &first->event), 0);
    free_object(first);
    expect(0);

    /* Between the wait and the handlers of a turn written by hand. */
    first = ready_one();
    CHECK(herd_trylock(worker) >= 0);
    CHECK_EQ(herd_process_events(worker, 1000, HERD_POST_EVENTS), 1);
    CHECK(herd_unlock(worker) >= 0);
    CHECK_CODE(herd_event_del(worker, &first->event), 0);
    free_object(first);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_EVENTS), 0);
    expect(0);

    /* The successor on the same descriptor number does not inherit the readiness. */
    first = only_posted(HERD_POSTED_EVENTS);
    first->event.handler = on_replace;
    first->victim = ready_one();
    expect(1);
    CHECK_EQ(late_runs, 0);
    int reused = successor.fd;
    CHECK_CODE(herd_event_del(worker, &successor), 0);
    close(reused);

    /* Timers. */
    first = new_object();
    second = new_object();
    struct object *third = new_object();
    CHECK_CODE(herd_timer_init(&first->timer, on_timer, first), 0);
    CHECK_CODE(herd_timer_init(&second->timer, on_timer, second), 0);
    CHECK_CODE(herd_timer_init(&third->timer, on_timer, third), 0);
    first->victim = second;
    CHECK_CODE(herd_timer_start(worker, &first->timer, 0), 0);
    CHECK_CODE(herd_timer_start(worker, &second->timer, 0), 0);
    CHECK_CODE(herd_timer_start(worker, &third->timer, 0), 0);
    expect(2);

    /* What is still in use when the worker goes is not touched afterwards. */
    first = ready_one();
    second = only_posted(HERD_POSTED_EVENTS);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    free_object(first);
    free_object(second);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
    return 0;
}
