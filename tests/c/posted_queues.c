/* The posted queues: order, this turn and the next, moves, taking back, counts, and no way to keep
   a turn from ending. */
#include "check.h"

static struct herd_worker *worker;
static char trace[64];
static int runs;

/* `data` is the event's letter. */
static void on_event(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    CHECK_EQ(ready, 0);
    size_t length = strlen(trace);
    CHECK(length + 1 < sizeof trace);
    trace[length] = *(const char *)event->data;
    trace[length + 1] = '\0';
}

static void on_again(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)ready;
    runs++;
    CHECK_EQ(herd_post(of, event, *(const uint32_t *)event->data), 1);
}

static void on_ready(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    char byte;
    (void)of;
    CHECK_EQ(ready, HERD_READ);
    CHECK_EQ(read(event->fd, &byte, 1), 1);
    ++*(int *)event->data;
}

static struct herd_event a, b, c, d;

static void counts(int events, int next)
{
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_EVENTS), events);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_NEXT), next);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_ACCEPT), 0);
}

/* A turn that must not wait, and the handlers that ran in it. */
static void turn(const char *expected)
{
    int64_t start = now_ms();
    trace[0] = '\0';
    CHECK_EQ(herd_run_once(worker, strlen(expected) > 0 ? 30000 : 0), strlen(expected));
    CHECK(now_ms() - start < 10000);
    if (strcmp(trace, expected) != 0) {
        fprintf(stderr, "ran %s, not %s\n", trace, expected);
        test_exit(1);
    }
}

static void post(struct herd_event *event, uint32_t queue)
{
    CHECK_EQ(herd_post(worker, event, queue), 1);
}

static void order(void)
{
    static const char letters[] = "abcd";
    CHECK_CODE(herd_event_init(&a, on_event, (void *)&letters[0]), 0);
    CHECK_CODE(herd_event_init(&b, on_event, (void *)&letters[1]), 0);
    CHECK_CODE(herd_event_init(&c, on_event, (void *)&letters[2]), 0);
    CHECK_CODE(herd_event_init(&d, on_event, (void *)&letters[3]), 0);
    counts(0, 0);
    post(&c, HERD_POSTED_EVENTS);
    post(&a, HERD_POSTED_EVENTS);
    post(&b, HERD_POSTED_EVENTS);
    /* Posted already: it keeps its place. */
    CHECK_EQ(herd_post(worker, &c, HERD_POSTED_EVENTS), 0);
    counts(3, 0);
    turn("cab");
    counts(0, 0);
    turn("");

    post(&b, HERD_POSTED_NEXT);
    post(&d, HERD_POSTED_NEXT);
    CHECK_EQ(herd_post(worker, &d, HERD_POSTED_NEXT), 0);
    counts(0, 2);
    turn("bd");
    counts(0, 0);

    /* Moves to the other queue, both ways, to its end. */
    post(&a, HERD_POSTED_EVENTS);
    post(&b, HERD_POSTED_NEXT);
    post(&c, HERD_POSTED_NEXT);
    post(&b, HERD_POSTED_EVENTS);
    counts(2, 1);
    post(&a, HERD_POSTED_NEXT);
    counts(1, 2);
    turn("bca");

    /* Taken back: from the front, the middle and the end. */
    post(&a, HERD_POSTED_EVENTS);
    post(&b, HERD_POSTED_EVENTS);
    post(&c, HERD_POSTED_EVENTS);
    post(&d, HERD_POSTED_EVENTS);
    CHECK_EQ(herd_unpost(worker, &c), 1);
    CHECK_EQ(herd_unpost(worker, &c), 0);
    turn("abd");
    post(&a, HERD_POSTED_NEXT);
    post(&b, HERD_POSTED_NEXT);
    post(&c, HERD_POSTED_NEXT);
    CHECK_EQ(herd_unpost(worker, &a), 1);
    CHECK_EQ(herd_unpost(worker, &c), 1);
    post(&d, HERD_POSTED_NEXT);
    counts(0, 2);
    turn("bd");

    /* One queue alone, as a turn written by hand does it. */
    post(&a, HERD_POSTED_EVENTS);
    post(&b, HERD_POSTED_NEXT);
    trace[0] = '\0';
    CHECK_EQ(herd_process_posted(worker, HERD_POSTED_EVENTS), 1);
    CHECK(strcmp(trace, "a") == 0);
    counts(0, 1);
    CHECK_EQ(herd_process_posted(worker, HERD_POSTED_EVENTS), 0);
    turn("b");
}

static void no_such_queue(void)
{
    static const uint32_t none[] = {3, 4, 65536, 65537, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < 6; i++) {
        CHECK_CODE(herd_post(worker, &a, none[i]), -EINVAL);
        CHECK_CODE(herd_posted_count(worker, none[i]), -EINVAL);
        CHECK_CODE(herd_process_posted(worker, none[i]), -EINVAL);
    }
    /* Only the library fills it. */
    CHECK_CODE(herd_post(worker, &a, HERD_POSTED_ACCEPT), -EINVAL);
    CHECK_CODE(herd_process_events(worker, 0, 2), -EINVAL);
    CHECK_CODE(herd_process_events(worker, -2, HERD_POST_EVENTS), -EINVAL);
    CHECK_CODE(herd_run_once(worker, -2), -EINVAL);
    counts(0, 0);
}

static void another_workers(struct herd *herd)
{
    struct herd_worker *other = new_worker(herd);
    post(&a, HERD_POSTED_EVENTS);
    CHECK_CODE(herd_post(other, &a, HERD_POSTED_EVENTS), -EBUSY);
    CHECK_CODE(herd_unpost(other, &a), -EBUSY);
    CHECK_CODE(herd_event_del(other, &a), -EBUSY);
    CHECK_CODE(herd_event_add(other, &a, 0, HERD_READ), -EBUSY);
    turn("a");
    /* Free again, it may go anywhere. */
    CHECK_EQ(herd_post(other, &a, HERD_POSTED_NEXT), 1);
    CHECK_CODE(herd_post(worker, &a, HERD_POSTED_NEXT), -EBUSY);
    CHECK_EQ(herd_unpost(other, &a), 1);
    CHECK_CODE(herd_worker_destroy(other), 0);
}

/* Handlers that post themselves for ever. */
static void no_end(void)
{
    static const uint32_t this_turn = HERD_POSTED_EVENTS, next_turn = HERD_POSTED_NEXT;
    struct herd_event again, ready;
    int ends[2], served = 0;
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_CODE(herd_event_init(&ready, on_ready, &served), 0);
    CHECK_CODE(herd_event_add(worker, &ready, ends[0], HERD_READ), 0);

    CHECK_CODE(herd_event_init(&again, on_again, (void *)&next_turn), 0);
    post(&again, HERD_POSTED_NEXT);
    for (int i = 1; i <= 50; i++) {
        CHECK_EQ(herd_run_once(worker, -1), 1);
        CHECK_EQ(runs, i);
        counts(0, 1);
    }
    CHECK_EQ(herd_unpost(worker, &again), 1);

    runs = 0;
    CHECK_CODE(herd_event_init(&again, on_again, (void *)&this_turn), 0);
    post(&again, HERD_POSTED_EVENTS);
    for (int i = 1; i <= 50; i++) {
        int before = runs;
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK(herd_run_once(worker, -1) > 0);
        CHECK(runs > before);
        CHECK(runs - before < 100000);
        /* Others have their turn as well. */
        CHECK_EQ(served, i);
        counts(1, 0);
    }
    CHECK_EQ(herd_unpost(worker, &again), 1);
    CHECK_CODE(herd_event_del(worker, &ready), 0);
    turn("");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    test_begin(50);
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    worker = new_worker(herd);
    order();
    no_such_queue();
    another_workers(herd);
    no_end();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
