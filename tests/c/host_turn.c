/* A turn in a loop of the host's does what herd_run_once does: it accepts, and runs accept callbacks,
   timers and posted events, all without the accept right; and it waits no longer than these allow. */
#include "hosted.h"

static int other_fd = -1;
static struct herd *herd;
static char trace[64];

static void note(char letter)
{
    size_t length = strlen(trace);
    CHECK(length + 1 < sizeof trace);
    trace[length] = letter;
}

/* While a handler runs, another worker gets the right. */
static void check_right_is_free(struct herd_worker *self)
{
    struct herd_worker *other = NULL;
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &other), 0);
    CHECK_EQ(herd_trylock(other), 1);
    CHECK(herd_unlock(other) >= 0);
    CHECK_CODE(herd_worker_destroy(other), 0);
    CHECK_CODE(herd_prepare(self, 0), HERD_EREENTERED);
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length,
                      void *data)
{
    (void)peer;
    (void)length;
    (void)data;
    note('a');
    check_right_is_free(worker);
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)timer;
    note('t');
    check_right_is_free(worker);
}

static void on_posted(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)ready;
    note(*(const char *)event->data);
    check_right_is_free(worker);
}

/* One turn; returns what herd_check says. */
static int turn(struct herd_worker *worker, int epfd)
{
    struct epoll_event events[8];
    int timeout_ms = herd_prepare(worker, 10000);
    CHECK(timeout_ms >= 0 && timeout_ms <= 10000);
    int count = epoll_wait(epfd, events, 8, timeout_ms);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++) {
        CHECK(events[i].data.u64 == hosted_mark || (int)events[i].data.u64 == other_fd);
    }
    return herd_check(worker);
}

static void play(uint32_t mode, enum hosted_way way, uint32_t listeners)
{
    herd = new_herd(mode, 3);
    for (uint32_t i = 0; i < listeners; i++) {
        new_listener(herd, on_accept, NULL);
    }
    int push = new_listener(herd, on_accept, NULL), pull = new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd);
    struct herd_timer timer;
    struct herd_event posted, remote;
    struct herd_accepted accepted;
    int pipes[2], epfd = hosted_epoll(worker, way);
    memset(&accepted, 0, sizeof accepted);
    accepted.size = sizeof accepted;
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_CODE(herd_timer_init(&timer, on_timer, NULL), 0);
    CHECK_CODE(herd_event_init(&posted, on_posted, (void *)"p"), 0);
    CHECK_CODE(herd_event_init(&remote, on_posted, (void *)"r"), 0);

    /* No limit, and the host's own. */
    CHECK_EQ(herd_prepare(worker, -1), 0x7fffffff);
    CHECK_CODE(herd_check(worker), 0);
    CHECK_EQ(herd_prepare(worker, 70), 70);
    CHECK_CODE(herd_check(worker), 0);

    memset(trace, 0, sizeof trace);
    int client = connect_to(address_of(herd, push));
    CHECK_CODE(turn(worker, epfd), 1);
    CHECK_EQ(strcmp(trace, "a"), 0);
    close(client);

    client = connect_to(address_of(herd, pull));
    CHECK_CODE(turn(worker, epfd), 1);
    /* Not taken, the worker leaves accepting to others. */
    CHECK_EQ(herd_prepare(worker, 0), 0);
    CHECK_CODE(herd_check(worker), 1);
    CHECK_CODE(herd_accept(worker, &accepted), 0);
    CHECK_EQ(accepted.listener, pull);
    CHECK_CODE(herd_accept(worker, &accepted), -EAGAIN);
    close(accepted.fd);
    CHECK(herd_conn_closed(worker) >= 0);
    close(client);

    /* What is due ends the host's wait. */
    memset(trace, 0, sizeof trace);
    CHECK_CODE(herd_timer_start(worker, &timer, 30), 0);
    int64_t began_ms = now_ms();
    while (trace[0] == '\0') {
        CHECK(turn(worker, epfd) >= 0);
    }
    CHECK(now_ms() - began_ms >= 29 && now_ms() - began_ms < 9000);
    CHECK_EQ(herd_post(worker, &posted, HERD_POSTED_NEXT), 1);
    CHECK_EQ(herd_prepare(worker, 10000), 0);
    CHECK_CODE(herd_check(worker), 1);
    CHECK_CODE(herd_prepare(worker, 10000), 10000);
    CHECK_EQ(herd_post_remote(worker, &remote), 1); /* as another thread would: its bell rings */
    struct epoll_event event;
    CHECK_EQ(epoll_wait(epfd, &event, 1, 9000), 1);
    CHECK(event.data.u64 == hosted_mark);
    CHECK_CODE(herd_check(worker), 1);
    CHECK_EQ(strcmp(trace, "tpr"), 0);

    /* The host's own event wakes nothing of the library's. */
    other_fd = pipes[0];
    hosted_watch(epfd, other_fd, (uint64_t)other_fd);
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    CHECK_CODE(turn(worker, epfd), 0);
    other_fd = -1;

    /* Drained, it accepts no more; a client waits for the next worker. */
    CHECK_CODE(herd_drain(worker), 0);
    client = connect_to(address_of(herd, push));
    CHECK_CODE(herd_prepare(worker, 0), 0);
    CHECK_CODE(herd_check(worker), 0);
    CHECK_EQ(herd_worker_state(worker), HERD_WORKER_DRAINED);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_EQ(waiting_connections(herd, push), 1);
    close(client);
    CHECK_CODE(herd_destroy(herd), 0);
    close(epfd);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    test_begin(50);
    int fds = open_fds();
    for (uint32_t listeners = 0; listeners <= 100; listeners += 100) {
        play(HERD_MODE_EXCLUSIVE, HOSTED_ATTACHED, listeners);
        play(HERD_MODE_MUTEX, HOSTED_ATTACHED, listeners);
        play(HERD_MODE_MUTEX, HOSTED_NESTED, listeners);
        play(HERD_MODE_SHARED, HOSTED_ATTACHED, listeners);
        play(HERD_MODE_REUSEPORT, HOSTED_ATTACHED, listeners);
        play(HERD_MODE_HANDOFF, HOSTED_ATTACHED, listeners);
        play(HERD_MODE_HANDOFF, HOSTED_NESTED, listeners);
    }
    CHECK_EQ(open_fds(), fds);
    return 0;
}
