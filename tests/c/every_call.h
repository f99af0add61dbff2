/* Every call on a worker, but for herd_worker_destroy, answered with one and the same error. */
#ifndef EVERY_CALL_H
#define EVERY_CALL_H

#include "check.h"

static void every_call_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker;
    (void)event;
    (void)ready;
}

static void every_call_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)worker;
    (void)timer;
}

/* `added` and `pending` are an event and a timer that a call could harm, or NULL for fresh ones. */
static void check_every_call(struct herd_worker *worker, int code, struct herd_event *added,
                             struct herd_timer *pending)
{
    struct herd_event event;
    struct herd_timer timer;
    struct herd_accepted accepted;
    memset(&accepted, 0, sizeof accepted);
    accepted.size = sizeof accepted;
    accepted.fd = 77;
    CHECK_CODE(herd_event_init(&event, every_call_event, NULL), 0);
    CHECK_CODE(herd_timer_init(&timer, every_call_timer, NULL), 0);
    added = added != NULL ? added : &event;
    pending = pending != NULL ? pending : &timer;
    CHECK_CODE(herd_accept(worker, &accepted), code);
    CHECK_CODE(herd_event_add(worker, &event, STDIN_FILENO, HERD_READ), code);
    CHECK_CODE(herd_event_mod(worker, added, 0), code);
    CHECK_CODE(herd_event_del(worker, added), code);
    CHECK_CODE(herd_post_remote(worker, &event), code);
    CHECK_CODE(herd_conn_opened(worker), code);
    CHECK_CODE(herd_conn_closed(worker), code);
    CHECK_CODE(herd_set_load(worker, 1), code);
    CHECK_CODE(herd_request_done(worker), code);
    CHECK_CODE(herd_trylock(worker), code);
    CHECK_CODE(herd_unlock(worker), code);
    CHECK_CODE(herd_enable_accept(worker), code);
    CHECK_CODE(herd_disable_accept(worker), code);
    CHECK_CODE(herd_process_events(worker, 0, 0), code);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_ACCEPT), code);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_EVENTS), code);
    CHECK_CODE(herd_process_timers(worker), code);
    CHECK_CODE(herd_post(worker, &event, HERD_POSTED_EVENTS), code);
    CHECK_CODE(herd_unpost(worker, &event), code);
    CHECK_CODE(herd_posted_count(worker, HERD_POSTED_EVENTS), code);
    CHECK_CODE(herd_accept_disabled(worker), code);
    CHECK_CODE(herd_timer_start(worker, &timer, 0), code);
    CHECK_CODE(herd_timer_stop(worker, pending), code);
    CHECK_CODE(herd_worker_slot(worker), code);
    CHECK_CODE(herd_worker_state(worker), code);
    CHECK_CODE(herd_attach_epoll(worker, 0, 0), code);
    CHECK_CODE(herd_worker_fd(worker), code);
    CHECK_CODE(herd_prepare(worker, 0), code);
    CHECK_CODE(herd_check(worker), code);
    CHECK_CODE(herd_run_once(worker, 0), code);
    CHECK_CODE(herd_run(worker), code);
    CHECK_CODE(herd_stop(worker), code);
    CHECK_CODE(herd_drain(worker), code);
    CHECK_EQ(accepted.fd, 77);
}

#endif
