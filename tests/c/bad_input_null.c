/* NULL for any pointer of any call is refused with -EINVAL, or is the documented default, and
   changes nothing. */
#include "every_call.h"

static int calls;

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker;
    (void)event;
    (void)ready;
    calls++;
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)worker;
    (void)timer;
    calls++;
}

#define REFUSED(call) CHECK_CODE(call, -EINVAL)

static void null_herd(void)
{
    struct herd_worker *worker = (struct herd_worker *)&calls;
    struct herd_stats stats;
    char text[32] = "as before";
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    stats.turns = 77;

    REFUSED(herd_create(NULL, NULL));
    REFUSED(herd_destroy(NULL));
    REFUSED(herd_mode(NULL));
    REFUSED(herd_balance(NULL));
    REFUSED(herd_is_steered(NULL));
    REFUSED(herd_listen(NULL, "127.0.0.1:0", NULL, NULL, NULL));
    REFUSED(herd_add_listener(NULL, 0, NULL, NULL));
    REFUSED(herd_listen_systemd(NULL, NULL, NULL, NULL));
    REFUSED(herd_remove_listener(NULL, 0));
    REFUSED(herd_listener_address(NULL, 0, text, sizeof text));
    REFUSED(herd_listener_fd(NULL, 0));
    REFUSED(herd_slot_listener_fd(NULL, 0, 0));
    REFUSED(herd_reap(NULL, 1));
    REFUSED(herd_worker_alive(NULL, 0));
    REFUSED(herd_free_slots(NULL));
    REFUSED(herd_stats_worker(NULL, 0, &stats));
    REFUSED(herd_stats_total(NULL, &stats));
    REFUSED(herd_stats_histogram(NULL, 0, 0, NULL));
    REFUSED(herd_stats_text(NULL, text, sizeof text));
    REFUSED(herd_open(NULL, NULL));
    REFUSED(herd_open("web", NULL));
    REFUSED(herd_is_alive(NULL));
    REFUSED(herd_slots(NULL));
    REFUSED(herd_worker_create(NULL, 0, &worker));
    CHECK(worker == (struct herd_worker *)&calls);
    CHECK(strcmp(text, "as before") == 0);
    CHECK_EQ(stats.turns, 77);
}

static void null_event(struct herd_worker *worker)
{
    REFUSED(herd_event_add(worker, NULL, 0, HERD_READ));
    REFUSED(herd_event_mod(worker, NULL, HERD_READ));
    REFUSED(herd_event_del(worker, NULL));
    REFUSED(herd_post_remote(worker, NULL));
    REFUSED(herd_post(worker, NULL, HERD_POSTED_EVENTS));
    REFUSED(herd_unpost(worker, NULL));
    REFUSED(herd_timer_start(worker, NULL, 0));
    REFUSED(herd_timer_stop(worker, NULL));
}

/* Memory that no init call has prepared is told apart as well. */
static void not_initialised(struct herd_worker *worker)
{
    struct herd_event event;
    struct herd_timer timer;
    memset(&event, 0, sizeof event);
    memset(&timer, 0, sizeof timer);
    REFUSED(herd_event_init(NULL, on_event, NULL));
    REFUSED(herd_event_init(&event, NULL, NULL));
    REFUSED(herd_timer_init(NULL, on_timer, NULL));
    REFUSED(herd_timer_init(&timer, NULL, NULL));
    REFUSED(herd_event_add(worker, &event, 0, HERD_READ));
    REFUSED(herd_event_mod(worker, &event, HERD_READ));
    REFUSED(herd_event_del(worker, &event));
    REFUSED(herd_post_remote(worker, &event));
    REFUSED(herd_post(worker, &event, HERD_POSTED_NEXT));
    REFUSED(herd_unpost(worker, &event));
    REFUSED(herd_timer_start(worker, &timer, 0));
    REFUSED(herd_timer_stop(worker, &timer));
}

int main(void)
{
    test_begin(30);
    struct herd_event event;
    struct herd_timer timer;
    struct herd *herd = NULL;
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_CODE(herd_timer_init(&timer, on_timer, NULL), 0);
    REFUSED(herd_config_init(NULL, sizeof(struct herd_config)));
    REFUSED(herd_listen_options_init(NULL, sizeof(struct herd_listen_options)));
    null_herd();
    check_every_call(NULL, -EINVAL, NULL, NULL);
    CHECK_CODE(herd_worker_destroy(NULL), -EINVAL);

    /* No configuration, no options and no callback are the defaults. */
    CHECK_CODE(herd_create(NULL, &herd), 0);
    int listener = new_listener(herd, NULL, NULL);
    REFUSED(herd_listen(herd, NULL, NULL, NULL, NULL));
    REFUSED(herd_listener_address(herd, listener, NULL, 100));
    REFUSED(herd_stats_worker(herd, 0, NULL));
    REFUSED(herd_stats_total(herd, NULL));
    REFUSED(herd_worker_create(herd, 0, NULL));
    CHECK_EQ(total_stats(herd).workers, 0);
    int fds = open_fds();
    struct herd_worker *worker = new_worker(herd);
    REFUSED(herd_accept(worker, NULL));
    null_event(worker);
    not_initialised(worker);

    /* Nothing was changed: no event is posted, added or pending, and the worker serves. */
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_EVENTS), 0);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_NEXT), 0);
    CHECK_EQ(herd_worker_state(worker), HERD_WORKER_RUNNING);
    CHECK_EQ(total_stats(herd).connections_open, 0);
    CHECK_CODE(herd_run_once(worker, 0), 0);
    CHECK_EQ(calls, 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_EQ(open_fds(), fds);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
