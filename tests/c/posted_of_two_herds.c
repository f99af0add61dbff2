/* Two herds in one process: an event or timer in use at a worker of the one is refused by a worker of the
 * other, on the same slot as well, and both go on with what they have. */
#include "check.h"

static int ran[2];

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker;
    (void)ready;
    ran[*(int *)event->data]++;
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)worker;
    (void)timer;
}

static struct herd_worker *first_worker(struct herd *herd)
{
    struct herd_worker *worker = NULL;
    CHECK_CODE(herd_worker_create(herd, 0, &worker), 0);
    return worker;
}

static void posted(struct herd_worker *x, struct herd_worker *y)
{
    struct herd_event e, f;
    int numbers[2] = {0, 1};
    CHECK_CODE(herd_event_init(&e, on_event, &numbers[0]), 0);
    CHECK_CODE(herd_event_init(&f, on_event, &numbers[1]), 0);
    CHECK_EQ(herd_post(x, &e, HERD_POSTED_EVENTS), 1);
    CHECK_EQ(herd_post(x, &f, HERD_POSTED_EVENTS), 1);

    CHECK_CODE(herd_post(y, &e, HERD_POSTED_NEXT), -EBUSY);
    CHECK_CODE(herd_unpost(y, &f), -EBUSY);
    CHECK_CODE(herd_event_del(y, &f), -EBUSY);
    CHECK_EQ(herd_posted_count(y, HERD_POSTED_EVENTS), 0);
    CHECK_EQ(herd_posted_count(y, HERD_POSTED_NEXT), 0);
    CHECK_EQ(herd_posted_count(x, HERD_POSTED_EVENTS), 2);

    CHECK_EQ(herd_process_posted(y, HERD_POSTED_EVENTS), 0);
    CHECK_EQ(herd_process_posted(x, HERD_POSTED_EVENTS), 2);
    CHECK_EQ(ran[0], 1);
    CHECK_EQ(ran[1], 1);
    /* Free again, they are anybody's. */
    CHECK_EQ(herd_post(y, &e, HERD_POSTED_EVENTS), 1);
    CHECK_CODE(herd_post(x, &e, HERD_POSTED_EVENTS), -EBUSY);
    CHECK_EQ(herd_unpost(y, &e), 1);
}

static void added(struct herd_worker *x, struct herd_worker *y)
{
    struct herd_event event;
    int number = 0, pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    CHECK_CODE(herd_event_init(&event, on_event, &number), 0);
    CHECK_CODE(herd_event_add(x, &event, pipe_fds[0], HERD_READ), 0);
    CHECK_CODE(herd_event_add(y, &event, pipe_fds[0], HERD_READ), -EBUSY);
    CHECK_CODE(herd_event_mod(y, &event, 0), -EBUSY);
    CHECK_CODE(herd_event_del(y, &event), -EBUSY);
    CHECK_CODE(herd_post(y, &event, HERD_POSTED_EVENTS), -EBUSY);
    CHECK_CODE(herd_event_del(x, &event), 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static void timed(struct herd_worker *x, struct herd_worker *y)
{
    struct herd_timer timer;
    CHECK_CODE(herd_timer_init(&timer, on_timer, NULL), 0);
    CHECK_CODE(herd_timer_start(x, &timer, 60000), 0);
    CHECK_CODE(herd_timer_start(y, &timer, 0), -EBUSY);
    CHECK_CODE(herd_timer_stop(y, &timer), -EBUSY);
    CHECK_EQ(herd_timer_stop(x, &timer), 1);
    CHECK_EQ(herd_timer_stop(y, &timer), 0);
}

int main(void)
{
    test_begin(20);
    struct herd *a = new_herd(HERD_MODE_EXCLUSIVE, 2), *b = new_herd(HERD_MODE_EXCLUSIVE, 2);
    struct herd_worker *x = first_worker(a), *y = first_worker(b);
    posted(x, y);
    added(x, y);
    timed(x, y);

    /* Nor is what a worker left, which its host should have initialised, taken for the next one's. */
    struct herd_event left;
    int number = 0;
    CHECK_CODE(herd_event_init(&left, on_event, &number), 0);
    CHECK_EQ(herd_post(y, &left, HERD_POSTED_EVENTS), 1);
    CHECK_CODE(herd_worker_destroy(y), 0);
    y = first_worker(b);
    CHECK_CODE(herd_unpost(y, &left), -EBUSY);
    CHECK_CODE(herd_event_init(&left, on_event, &number), 0);
    CHECK_EQ(herd_post(y, &left, HERD_POSTED_EVENTS), 1);

    CHECK_CODE(herd_worker_destroy(y), 0);
    CHECK_CODE(herd_worker_destroy(x), 0);
    CHECK_CODE(herd_destroy(b), 0);
    CHECK_CODE(herd_destroy(a), 0);
    return 0;
}
