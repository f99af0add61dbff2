/* Timers: order, restart, stop, never early, once a turn, and a million of them. */
#include "check.h"

static struct herd_worker *worker;

struct timed {
    struct herd_timer timer;
    struct timed *victim;
    int64_t started_us;
    uint32_t after_ms;
    uint32_t number;
    int fired;
};

static int fired, last_number;
static char trace[64];

static void on_letter(struct herd_worker *of, struct herd_timer *timer)
{
    struct timed *timed = (struct timed *)timer->data;
    CHECK(of == worker);
    CHECK(now_us() >= timed->started_us + (int64_t)timed->after_ms * 1000);
    size_t length = strlen(trace);
    CHECK(length + 1 < sizeof trace);
    trace[length] = (char)('a' + timed->number);
    trace[length + 1] = '\0';
    if (timed->victim != NULL) {
        CHECK_EQ(herd_timer_stop(of, &timed->victim->timer), 1);
        CHECK_EQ(herd_timer_stop(of, &timed->victim->timer), 0);
        timed->victim = NULL;
    }
}

static struct timed letters[5];

static void start(uint32_t number, uint32_t after_ms)
{
    letters[number].started_us = now_us();
    letters[number].after_ms = after_ms;
    CHECK_CODE(herd_timer_start(worker, &letters[number].timer, after_ms), 0);
}

/* Turns until `expected` timers have fired, in this order, and no more. */
static void expect(const char *expected)
{
    int handled = 0;
    int64_t begin = now_ms();
    trace[0] = '\0';
    while (strlen(trace) < strlen(expected) && now_ms() - begin < 20000 * test_scale()) {
        handled += herd_run_once(worker, -1);
    }
    handled += herd_run_once(worker, 50);
    if (strcmp(trace, expected) != 0 || handled != (int)strlen(expected)) {
        fprintf(stderr, "fired %s (%d), not %s\n", trace, handled, expected);
        test_exit(1);
    }
}

static void order_and_changes(void)
{
    memset(letters, 0, sizeof letters);
    for (uint32_t i = 0; i < 5; i++) {
        letters[i].number = i;
        CHECK_CODE(herd_timer_init(&letters[i].timer, on_letter, &letters[i]), 0);
        CHECK_EQ(herd_timer_stop(worker, &letters[i].timer), 0);
    }
    start(0, 480);
    start(1, 160);
    start(2, 640);
    start(3, 320);
    start(4, 8);
    expect("ebdac");

    /* Together: in the order of their starts. */
    start(3, 0);
    start(1, 0);
    start(4, 0);
    start(0, 0);
    start(2, 0);
    expect("dbeac");

    /* A pending timer starts anew, later or sooner. */
    start(0, 80);
    start(1, 60000);
    start(2, 240);
    start(0, 480);
    start(1, 0);
    expect("bca");

    start(0, 80);
    start(1, 160);
    start(2, 240);
    CHECK_EQ(herd_timer_stop(worker, &letters[1].timer), 1);
    CHECK_EQ(herd_timer_stop(worker, &letters[1].timer), 0);
    expect("ac");

    /* In another's handler, while both are due. */
    start(0, 0);
    start(1, 0);
    start(2, 0);
    letters[0].victim = &letters[1];
    expect("ac");

    /* The end of time is not before now. */
    CHECK_CODE(herd_timer_start(worker, &letters[0].timer, UINT64_MAX), 0);
    start(1, 40);
    expect("b");
    CHECK_EQ(herd_timer_stop(worker, &letters[0].timer), 1);
}

static void on_again(struct herd_worker *of, struct herd_timer *timer)
{
    fired++;
    CHECK_CODE(herd_timer_start(of, timer, 0), 0);
}

static void once_a_turn(void)
{
    struct herd_timer timer;
    CHECK_CODE(herd_timer_init(&timer, on_again, NULL), 0);
    CHECK_CODE(herd_timer_start(worker, &timer, 0), 0);
    for (int turn = 1; turn <= 100; turn++) {
        CHECK_EQ(herd_run_once(worker, -1), 1);
        CHECK_EQ(fired, turn);
    }
    CHECK_EQ(herd_process_timers(worker), 1);
    CHECK_EQ(herd_timer_stop(worker, &timer), 1);
    CHECK_EQ(herd_run_once(worker, 0), 0);
}

static void another_workers(struct herd *herd)
{
    struct herd_worker *other = new_worker(herd);
    CHECK_CODE(herd_timer_start(worker, &letters[0].timer, 1000), 0);
    CHECK_CODE(herd_timer_start(other, &letters[0].timer, 1), -EBUSY);
    CHECK_CODE(herd_timer_stop(other, &letters[0].timer), -EBUSY);
    CHECK_EQ(herd_timer_stop(worker, &letters[0].timer), 1);
    CHECK_CODE(herd_timer_start(other, &letters[0].timer, 1000), 0);
    CHECK_EQ(herd_timer_stop(other, &letters[0].timer), 1);
    CHECK_CODE(herd_worker_destroy(other), 0);
}

#define MILLION 1000000

/* The latest time at which any timer that has fired could have been due at the earliest. */
static int64_t latest_us;
static struct timed *many;

static void on_many(struct herd_worker *of, struct herd_timer *timer)
{
    struct timed *timed = (struct timed *)timer->data;
    (void)of;
    fired++;
    CHECK_EQ(timed->fired, 0);
    timed->fired = 1;
    int64_t after_us = (int64_t)timed->after_ms * 1000;
    int64_t not_before_us = timed->started_us + after_us;
    /* The next one's start bounds when this one was started. */
    int64_t not_after_us = timed[1].started_us + after_us;
    CHECK(now_us() >= not_before_us);
    CHECK(not_after_us >= latest_us);
    if (not_before_us > latest_us) {
        latest_us = not_before_us;
    }
    if (timed->after_ms == 700) {
        CHECK((int)timed->number > last_number);
        last_number = (int)timed->number;
    }
}

static void a_million(void)
{
    many = (struct timed *)calloc(MILLION + 1, sizeof *many);
    CHECK(many != NULL);
    uint32_t random = 12345;
    int64_t begin = now_ms();
    for (uint32_t i = 0; i < MILLION; i++) {
        random = random * 1664525 + 1013904223;
        many[i].number = i;
        many[i].after_ms = i % 10 == 0 ? 700 : (random >> 8) % 1000;
        many[i].started_us = now_us();
        CHECK_CODE(herd_timer_init(&many[i].timer, on_many, &many[i]), 0);
        CHECK_CODE(herd_timer_start(worker, &many[i].timer, many[i].after_ms), 0);
    }
    many[MILLION].started_us = now_us();
    for (uint32_t i = 1; i < MILLION; i += 3) {
        CHECK_EQ(herd_timer_stop(worker, &many[i].timer), 1);
    }
    int left = MILLION - MILLION / 3;
    fired = 0;
    last_number = -1;
    while (fired < left && now_ms() - begin < 20000 * test_scale()) {
        CHECK(herd_run_once(worker, -1) >= 0);
    }
    CHECK_EQ(fired, left);
    CHECK_EQ(herd_process_timers(worker), 0);
    for (uint32_t i = 0; i < MILLION; i++) {
        CHECK_EQ(many[i].fired, i % 3 != 1);
        CHECK_EQ(herd_timer_stop(worker, &many[i].timer), 0);
    }
    CHECK(now_ms() - begin < 20000 * test_scale());
    free(many);
}

int main(void)
{
    test_begin(50);
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    worker = new_worker(herd);
    order_and_changes();
    once_a_turn();
    another_workers(herd);
    a_million();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
