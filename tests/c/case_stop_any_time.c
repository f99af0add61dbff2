/* herd_stop and herd_drain, called by a signal handler or another thread, end herd_run whether it has
 * not begun, waits, or runs a handler; none of them is lost. */
#include "check.h"

#include <pthread.h>

static struct herd *herd;
static struct herd_worker *worker;
static int (*request)(struct herd_worker *worker);
static int by_signal;
static pid_t loop_tid;
static pthread_t loop_thread;
static int delay_us;

static void ask(void)
{
    CHECK_CODE(request(worker), 0);
}

static void on_signal(int signal_number)
{
    (void)signal_number;
    ask();
}

/* Whether the thread with the loop waits. */
static int loop_sleeps(void)
{
    long long sleeps;
    return thread_state(getpid(), loop_tid, &sleeps) == 'S';
}

static void *ask_from_thread(void *unused)
{
    (void)unused;
    if (by_signal) {
        CHECK_EQ(pthread_kill(loop_thread, SIGUSR1), 0);
    } else {
        ask();
    }
    return NULL;
}

static void *ask_while_loop_waits(void *unused)
{
    WAIT_UNTIL(loop_sleeps(), 10000);
    return ask_from_thread(unused);
}

static void *ask_after_a_while(void *unused)
{
    for (int64_t until_us = now_us() + delay_us; now_us() < until_us;) {
    }
    return ask_from_thread(unused);
}

/* From this thread: the signal comes in the middle of what it does; the thread is done on return. */
static void ask_here(void)
{
    if (by_signal) {
        raise(SIGUSR1);
        return;
    }
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, ask_from_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void on_event(struct herd_worker *w, struct herd_event *event, uint32_t ready)
{
    (void)w;
    (void)event;
    (void)ready;
    ask_here();
}

enum { BEFORE, WAITING, IN_HANDLER, RACING, MOMENTS };

static void end_loop(int moment)
{
    struct herd_event event;
    pthread_t thread;
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
    CHECK_CODE(herd_worker_state(worker), HERD_WORKER_RUNNING);
    switch (moment) {
    case BEFORE:
        ask_here();
        break;
    case WAITING:
        CHECK_EQ(pthread_create(&thread, NULL, ask_while_loop_waits, NULL), 0);
        break;
    case IN_HANDLER:
        CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
        CHECK_CODE(herd_post(worker, &event, HERD_POSTED_EVENTS), 1);
        break;
    case RACING:
        CHECK_EQ(pthread_create(&thread, NULL, ask_after_a_while, NULL), 0);
        break;
    }
    CHECK_CODE(herd_run(worker), 0);
    if (moment == WAITING || moment == RACING) {
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    CHECK_CODE(herd_worker_state(worker),
               request == herd_stop ? HERD_WORKER_STOPPED : HERD_WORKER_DRAINED);
    CHECK_CODE(herd_run(worker), 0);
    CHECK_CODE(herd_trylock(worker), 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
}

static void ask_in_all_ways(uint32_t mode, uint32_t balance)
{
    static int (*const requests[])(struct herd_worker *) = {herd_stop, herd_drain};
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.balance = balance;
    config.accept_delay_ms = 60000; /* no tick of the guard that would end the wait */
    CHECK_CODE(herd_create(&config, &herd), 0);
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL), 0);
    for (int i = 0; i < 4; i++) {
        request = requests[i / 2];
        by_signal = i % 2;
        for (int moment = BEFORE; moment < RACING; moment++) {
            end_loop(moment);
        }
        for (delay_us = 0; delay_us < 200; delay_us++) {
            end_loop(RACING);
        }
    }
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(55);
    signal(SIGUSR1, on_signal);
    loop_tid = getpid();
    loop_thread = pthread_self();
    ask_in_all_ways(HERD_MODE_MUTEX, HERD_BALANCE_PACK);
    ask_in_all_ways(HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD);
    test_exit(0);
}
