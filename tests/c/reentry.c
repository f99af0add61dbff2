/* A callback that runs the loop of its own worker, or destroys it, gets HERD_EREENTERED, and
   everything goes on. */
#include "check.h"

static int events, timers, connections;

static void run_the_loop(struct herd_worker *worker)
{
    CHECK_CODE(herd_run_once(worker, 0), HERD_EREENTERED);
    CHECK_CODE(herd_run_once(worker, -1), HERD_EREENTERED);
    CHECK_CODE(herd_run(worker), HERD_EREENTERED);
    CHECK_CODE(herd_trylock(worker), HERD_EREENTERED);
    CHECK_CODE(herd_process_events(worker, 0, 0), HERD_EREENTERED);
    CHECK_CODE(herd_process_events(worker, -1, HERD_POST_EVENTS), HERD_EREENTERED);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_ACCEPT), HERD_EREENTERED);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_EVENTS), HERD_EREENTERED);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_NEXT), HERD_EREENTERED);
    CHECK_CODE(herd_process_timers(worker), HERD_EREENTERED);
    CHECK_CODE(herd_worker_destroy(worker), HERD_EREENTERED);
    /* What does not run the loop may be called. */
    CHECK_EQ(herd_worker_slot(worker), 0);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_NEXT), 0);
    CHECK(herd_unlock(worker) >= 0);
}

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    char byte;
    CHECK(ready & HERD_READ);
    CHECK_EQ(read(event->fd, &byte, 1), 1);
    run_the_loop(worker);
    events++;
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)timer;
    run_the_loop(worker);
    timers++;
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *accept_data)
{
    (void)peer;
    (void)peer_length;
    (void)accept_data;
    run_the_loop(worker);
    close(fd);
    CHECK_EQ(herd_conn_closed(worker), 0);
    connections++;
}

int main(void)
{
    test_begin(30);
    /* Two slots, so that there is a right to be given up. */
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    int listener = new_listener(herd, on_accept, NULL);
    struct herd_worker *worker = new_worker(herd);
    struct herd_event event;
    struct herd_timer timer;
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_CODE(herd_timer_init(&timer, on_timer, NULL), 0);
    CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
    for (int round = 1; round <= 3; round++) {
        int client = connect_to(address_of(herd, listener));
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_CODE(herd_timer_start(worker, &timer, 0), 0);
        for (int turn = 0; turn < 20 && (events < round || timers < round || connections < round);
             turn++) {
            CHECK(herd_run_once(worker, 1000) >= 0);
        }
        CHECK_EQ(events, round);
        CHECK_EQ(timers, round);
        CHECK_EQ(connections, round);
        close(client);
    }

    /* The same from the parts of a turn written by hand. */
    int client = connect_to(address_of(herd, listener));
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_CODE(herd_timer_start(worker, &timer, 0), 0);
    CHECK_EQ(herd_trylock(worker), 1);
    CHECK_CODE(herd_process_events(worker, 1000, HERD_POST_EVENTS), 2);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_ACCEPT), 1);
    CHECK_EQ(herd_unlock(worker), 1);
    CHECK_CODE(herd_process_timers(worker), 2);
    CHECK_CODE(herd_process_posted(worker, HERD_POSTED_EVENTS), 1);
    CHECK_EQ(events, 4);
    CHECK_EQ(timers, 4);
    CHECK_EQ(connections, 4);
    close(client);
    close(ends[0]);
    close(ends[1]);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
