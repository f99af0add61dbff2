/* The only worker that is left is never idle, and each of its turns takes longer than the guard waits. It looks after
 * the connection of a stopped worker all the same: the guard's tick is still there when it comes to its wait, and
 * taking it does not have to be told by the kernel. Nor does one that drains, and is awake all the time, take the tick
 * away from it. */
#include "right.h"

#include <sys/eventfd.h>

enum { most_workers = 3, delay_ms = 20, turn_ms = 2 * delay_ms, most_ms = 10000, most_clients = 100 };

/* Ready in every turn until the test says that it is enough. */
static void on_work(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)ready;
    sleep_ms(turn_ms); /* the handler is a long one */
    if (SHARED_GET(serve.shared->knob) == 0) {
        int fd = event->fd;
        CHECK_CODE(herd_event_del(worker, event), 0);
        close(fd);
    }
}

static void begin_work(struct herd_worker *worker)
{
    static struct herd_event work;
    if (SHARED_GET(serve.shared->knob) == herd_worker_slot(worker) + 1 && work.handler == NULL) {
        int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
        CHECK(fd >= 0);
        CHECK_CODE(herd_event_init(&work, on_work, NULL), 0);
        CHECK_CODE(herd_event_add(worker, &work, fd, HERD_READ), 0);
    }
}

/* The third of three drains. */
static void stop_the_other(const struct right_case *c, uint32_t handover_delay_us, int workers)
{
    struct herd_config config = right_config(c, delay_ms);
    config.handover_delay_us = handover_delay_us;
    serve.on_request = begin_work;
    serve_start(&config, workers);
    int clients[most_workers] = {-1, -1, workers == 2 ? 0 : -1}, spare[most_clients], count = 0, slot;
    while (clients[0] < 0 || clients[1] < 0 || clients[2] < 0) {
        CHECK(count < most_clients);
        spare[count] = serve_connect(&slot);
        clients[slot] = spare[count++];
        serve_settle();
    }
    int stopped = right_has_holder(c) ? (int)serve_total().holder : 0;
    CHECK(stopped >= 0);
    int busy = stopped == 0 ? 1 : 0, drained = 3 - stopped - busy;
    if (workers == 3) {
        kill(serve.pids[drained], SIGTERM);
        WAIT_UNTIL(serve_stats(drained).state == HERD_STATE_RESTING, most_ms);
    }
    SHARED_SET(serve.shared->knob, busy + 1);
    serve_echo(clients[busy]);
    kill(serve.pids[stopped], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[stopped]) == 'T', most_ms);
    uint64_t ticks = workers == 3 ? serve_stats(drained).guard_ticks : 0;
    int64_t began_ms = now_ms();
    int client = connect_to(serve.address);
    int by = -1;
    while (by == -1 && workers == 3 && now_ms() < began_ms + most_ms * test_scale()) {
        serve_echo(clients[drained]);
        by = serve_greeting(client, 1);
    }
    CHECK_EQ(by == -1 ? serve_greeting(client, most_ms) : by, busy);
    printf("%s, handover_delay %d us, %d workers: greeted after %d ms\n", c->name, (int)handover_delay_us, workers,
           (int)(now_ms() - began_ms));
    CHECK(workers == 2 || serve_stats(drained).guard_ticks == ticks);
    SHARED_SET(serve.shared->knob, 0);
    kill(serve.pids[stopped], SIGCONT);
    close(client);
    while (count > 0) {
        close(spare[--count]);
    }
    serve_end();
}

int main(void)
{
    test_begin(50);
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance != HERD_BALANCE_SPREAD) {
            continue; /* one worker gets all, and is the holder: nobody is left to be busy */
        }
        stop_the_other(&right_cases[i], 500, 2);
        /* Longer than accept_delay: what is armed anew and anew comes in between all the same. */
        stop_the_other(&right_cases[i], 5 * delay_ms * 1000, 2);
        stop_the_other(&right_cases[i], 500, 3);
    }
    test_exit(0);
}
