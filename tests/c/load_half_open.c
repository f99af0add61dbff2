/* timeout: 120
 * Clients that vanish without a word, and such as say that they will send nothing, do not hold a worker up:
 * the host's timers end the former, the latter get what they wait for, and nothing is left of either.
 * HERD_TEST_SLOW=1: more of them. */
#include "load.h"

enum { workers = 3 };

struct timed {
    struct herd_event event;
    struct herd_timer timer;
};

static void end_timed(struct herd_worker *worker, struct timed *timed)
{
    int fd = timed->event.fd;
    CHECK(herd_timer_stop(worker, &timed->timer) >= 0);
    CHECK_CODE(herd_event_del(worker, &timed->event), 0);
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
    free(timed);
}

static void on_idle(struct herd_worker *worker, struct herd_timer *timer)
{
    end_timed(worker, (struct timed *)timer->data);
}

static void on_ready(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    struct timed *timed = (struct timed *)event->data;
    char byte;
    (void)ready;
    ssize_t got = recv(event->fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got != 1 || send(event->fd, &byte, 1, MSG_NOSIGNAL) != 1) {
        end_timed(worker, timed);
        return;
    }
    CHECK_CODE(herd_timer_start(worker, &timed->timer, (uint64_t)SHARED_GET(serve.shared->knob)), 0);
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    struct timed *timed = (struct timed *)malloc(sizeof *timed);
    char greeting = (char)herd_worker_slot(worker);
    (void)peer;
    (void)peer_length;
    (void)data;
    CHECK(timed != NULL);
    SHARED_ADD(serve.shared->accepted[(int)greeting], 1u);
    CHECK_CODE(herd_event_init(&timed->event, on_ready, timed), 0);
    CHECK_CODE(herd_timer_init(&timed->timer, on_idle, timed), 0);
    CHECK_CODE(herd_event_add(worker, &timed->event, fd, HERD_READ), 0);
    CHECK_CODE(herd_timer_start(worker, &timed->timer, (uint64_t)SHARED_GET(serve.shared->knob)), 0);
    ssize_t sent = send(fd, &greeting, 1, MSG_NOSIGNAL);
    (void)sent;
}

/* Closes a socket without a segment to its peer (TCP_REPAIR, for root). */
static int vanish(int fd)
{
    int one = 1;
    int vanished = setsockopt(fd, IPPROTO_TCP, 19 /* TCP_REPAIR */, &one, sizeof one) == 0;
    close(fd);
    return vanished;
}

static void half_open(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int count = test_is_slow() ? 2000 : 60, vanished = 0, slot;
    config.mode = mode;
    serve_prepare(&config, workers);
    SHARED_SET(serve.shared->knob, 300); /* how long a connection may be idle, in ms */
    CHECK_CODE(herd_remove_listener(serve.herd, 0), 0);
    serve.address = address_of(serve.herd, new_listener(serve.herd, on_accept, NULL));
    for (int i = 0; i < workers; i++) {
        serve_fork(i);
    }
    serve_settle();
    load_note_fds();
    int64_t began_ms = now_ms();
    for (int i = 0; i < count; i++) {
        int gone_early = connect_to(serve.address);
        vanished += vanish(gone_early);
        int gone_late = serve_connect(&slot);
        vanished += vanish(gone_late);
        int half_closed = connect_to(serve.address);
        shutdown(half_closed, SHUT_WR);
        CHECK(serve_greeting(half_closed, 10000) >= 0);
        CHECK_EQ(serve_greeting(half_closed, 10000), -2);
        close(half_closed);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 20000);
    printf("%s: %d vanished, gone after %d ms\n", mode_name(mode), vanished,
           (int)(now_ms() - began_ms));
    SHARED_SET(serve.shared->knob, 60000);
    load_is_over();
    serve_end();
}

int main(void)
{
    test_begin(110);
    load_in_all_modes(half_open);
}
