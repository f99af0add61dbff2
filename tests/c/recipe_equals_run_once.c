/* A turn written by hand from the parts does exactly what herd_run_once does: the same callbacks in
   the same order, the same counters. */
#include "check.h"

#include <poll.h>

#define TURNS 14
#define CLIENTS 4

static char *trace;

static void note(char letter)
{
    size_t length = strlen(trace);
    CHECK(length + 1 < 1024);
    trace[length] = letter;
    trace[length + 1] = '\0';
}

struct connection {
    struct herd_event event;
    int fd;
    char letter;
};

static struct connection connections[3 * CLIENTS];
static int used;

static void on_request(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    struct connection *connection = (struct connection *)event->data;
    CHECK(ready & HERD_READ);
    note(connection->letter);
    CHECK_CODE(herd_event_del(worker, event), 0);
    close(connection->fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

static void serve(struct herd_worker *worker, int fd, char letter)
{
    CHECK(used < 3 * CLIENTS);
    struct connection *connection = &connections[used++];
    /* The request is here, so that it is ready in the next turn for sure. */
    struct pollfd polled;
    polled.fd = fd;
    polled.events = POLLIN;
    CHECK_EQ(poll(&polled, 1, 10000), 1);
    connection->fd = fd;
    connection->letter = letter;
    CHECK_CODE(herd_event_init(&connection->event, on_request, connection), 0);
    CHECK_CODE(herd_event_add(worker, &connection->event, fd, HERD_READ), 0);
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *accept_data)
{
    char letter = *(const char *)accept_data;
    (void)peer;
    (void)peer_length;
    note(letter);
    serve(worker, fd, (char)(letter - 'A' + 'a'));
}

/* Posted by the test: to this turn or the next, and once more to the other queue. */
static void on_posted(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    CHECK_EQ(ready, 0);
    note(*(const char *)event->data);
    if (*(const char *)event->data == 'n') {
        event->data = (void *)"o";
        CHECK_EQ(herd_post(worker, event, HERD_POSTED_NEXT), 1);
    } else if (*(const char *)event->data == 'p') {
        event->data = (void *)"q";
        CHECK_EQ(herd_post(worker, event, HERD_POSTED_EVENTS), 1);
    }
}

static void on_pipe(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    char byte;
    (void)worker;
    CHECK_EQ(ready, HERD_READ);
    CHECK_EQ(read(event->fd, &byte, 1), 1);
    note(*(const char *)event->data);
}

static int restarts;

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    note(*(const char *)timer->data);
    if (restarts-- > 0) {
        CHECK_CODE(herd_timer_start(worker, timer, 0), 0);
    }
}

/* Returns what herd_run_once would. */
static int turn_by_hand(struct herd_worker *worker)
{
    CHECK(herd_trylock(worker) >= 0);
    CHECK(herd_process_events(worker, 0, HERD_POST_EVENTS) >= 0);
    CHECK(herd_process_posted(worker, HERD_POSTED_ACCEPT) >= 0);
    CHECK(herd_unlock(worker) >= 0);
    int timers = herd_process_timers(worker);
    int events = herd_process_posted(worker, HERD_POSTED_EVENTS);
    CHECK(timers >= 0 && events >= 0);
    return timers + events;
}

static struct herd_stats play(uint32_t mode, uint32_t slots, int by_hand)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    config.mode = mode;
    config.max_workers = slots;
    config.accept_batch = 2;
    config.worker_connections = 16;
    config.accept_delay_ms = 60000; /* no tick of the guard in between */
    CHECK_CODE(herd_create(&config, &herd), 0);
    int listeners[3];
    listeners[0] = new_listener(herd, on_accept, (void *)"A");
    listeners[1] = new_listener(herd, on_accept, (void *)"B");
    listeners[2] = new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd);
    struct herd_worker *other = slots > 1 ? new_worker(herd) : NULL;

    int clients[3 * CLIENTS], pipes[2][2];
    used = 0;
    restarts = 3;
    for (int i = 0; i < 3 * CLIENTS; i++) {
        clients[i] = connect_to(address_of(herd, listeners[i % 3]));
        CHECK_EQ(write(clients[i], "x", 1), 1);
    }
    for (int i = 0; i < 3; i++) {
        WAIT_UNTIL(waiting_connections(herd, listeners[i]) == CLIENTS, 10000);
    }
    static const char *const names[] = {"x", "y"};
    struct herd_event ready[2], next, now;
    struct herd_timer timers[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pipe2(pipes[i], O_CLOEXEC | O_NONBLOCK), 0);
        CHECK_CODE(herd_event_init(&ready[i], on_pipe, (void *)names[i]), 0);
        CHECK_CODE(herd_event_add(worker, &ready[i], pipes[i][0], HERD_READ), 0);
        CHECK_CODE(herd_timer_init(&timers[i], on_timer, i == 0 ? (void *)"t" : (void *)"u"), 0);
        CHECK_CODE(herd_timer_start(worker, &timers[i], 0), 0);
    }
    CHECK_CODE(herd_event_init(&next, on_posted, (void *)"n"), 0);
    CHECK_CODE(herd_event_init(&now, on_posted, (void *)"p"), 0);
    CHECK_EQ(herd_post(worker, &next, HERD_POSTED_NEXT), 1);
    CHECK_EQ(herd_post(worker, &now, HERD_POSTED_EVENTS), 1);

    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 3 != 2) {
            CHECK_EQ(write(pipes[turn % 2][1], "x", 1), 1);
        }
        /* Another holds the right for two turns. */
        if (other != NULL && turn == 2) {
            CHECK_EQ(herd_trylock(other), 1);
        }
        int handled = by_hand ? turn_by_hand(worker) : herd_run_once(worker, 0);
        CHECK(handled >= 0);
        struct herd_accepted accepted;
        memset(&accepted, 0, sizeof accepted);
        accepted.size = sizeof accepted;
        while (herd_accept(worker, &accepted) == 0) {
            CHECK_EQ(accepted.listener, listeners[2]);
            note('C');
            serve(worker, accepted.fd, 'c');
        }
        if (other != NULL && turn == 3) {
            CHECK(herd_unlock(other) >= 0);
        }
        note((char)('0' + handled));
        note(' ');
    }
    CHECK_EQ(used, 3 * CLIENTS);
    struct herd_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    CHECK_CODE(herd_stats_worker(herd, herd_worker_slot(worker), &stats), 0);
    for (int i = 0; i < 3 * CLIENTS; i++) {
        close(clients[i]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(herd_event_del(worker, &ready[i]), 0);
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK(other == NULL || herd_worker_destroy(other) == 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return stats;
}

static void compare(uint32_t mode, uint32_t slots)
{
    static char library[1024], hand[1024];
    library[0] = hand[0] = '\0';
    trace = library;
    struct herd_stats by_library = play(mode, slots, 0);
    trace = hand;
    struct herd_stats by_hand = play(mode, slots, 1);
    printf("mode %u, %u slots: %s\n", mode, slots, library);
    if (strcmp(library, hand) != 0) {
        fprintf(stderr, "by hand: %s\n", hand);
        test_exit(1);
    }
#define SAME(counter) CHECK_EQ(by_hand.counter, by_library.counter)
    SAME(connections_open);
    SAME(accepted);
    SAME(closed);
    SAME(turns);
    SAME(wakeups);
    SAME(wasted_wakeups);
    SAME(accept_eagain);
    SAME(accept_retries);
    SAME(backoffs);
    SAME(acquisitions);
    SAME(failed_tries);
    SAME(handovers);
    SAME(reorders);
    SAME(guard_useful);
    SAME(blind_accepts);
    SAME(guard_ticks);
    SAME(thefts);
    SAME(stale_events);
    CHECK_EQ(by_library.accepted, 3 * CLIENTS);
    CHECK_EQ(by_library.turns, TURNS);
    CHECK(strchr(library, 'A') && strchr(library, 'B') && strchr(library, 'C'));
    CHECK(strchr(library, 'a') && strchr(library, 'b') && strchr(library, 'c'));
    CHECK(strchr(library, 'o') && strchr(library, 'q') && strchr(library, 'u'));
    CHECK(mode != HERD_MODE_MUTEX || slots == 1 || by_library.failed_tries == 2);
}

int main(void)
{
    test_begin(50);
    compare(HERD_MODE_MUTEX, 2);
    compare(HERD_MODE_MUTEX, 1);
    compare(HERD_MODE_SHARED, 2);
    compare(HERD_MODE_EXCLUSIVE, 2);
    compare(HERD_MODE_HANDOFF, 1);
    /* With more slots the hash decides which of two connections comes first. */
    compare(HERD_MODE_REUSEPORT, 1);
    return 0;
}
