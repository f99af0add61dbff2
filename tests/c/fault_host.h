/*
 * The host in fault_life.h: two workers that serve connections, the second one maybe by a loop of the
 * host's own, and clients, all in one process. It knows what a call may say while a fault is armed. Includes
 * fault_step.h. C99.
 */
#ifndef FAULT_HOST_H
#define FAULT_HOST_H

#include "fault_step.h"

#include <sys/epoll.h>

enum { workers = 2, turn_calls_most = 2000, wait_most_ms = 20000 };

static struct herd *herd;
static struct herd_worker *worker[workers];
static int host_set = -1; /* the epoll set of worker 1's host */
static int sent_arrived;

/* --- Connections ----------------------------------------------------------------------------- */

/* herd_event_del removes the event in any case. */
CHECK_HELPER void check_deleted(int code)
{
    CHECK(code == 0 || (script->hits > 0 && is_told_by(code, FAULT_EPOLL_DEL, script->error)));
}

CHECK_HELPER int is_hosted(int number)
{
    return number == 1 && share->way != itself;
}

CHECK_HELPER void host_watches(int fd, struct connection *connection)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.ptr = connection;
    CHECK_EQ(epoll_ctl(host_set, EPOLL_CTL_ADD, fd, &event), 0);
}

CHECK_HELPER void end_connection(struct connection *connection)
{
    struct herd_worker *of = worker[connection->slot];
    if (is_hosted(connection->slot)) {
        CHECK_EQ(epoll_ctl(host_set, EPOLL_CTL_DEL, connection->fd, NULL), 0);
    } else {
        int code = herd_event_del(of, &connection->event);
        if (code == HERD_EPOISONED && script->call == FAULT_EPOLL_WAIT) {
            return; /* the new worker sees to it */
        }
        check_deleted(code);
    }
    close(connection->fd);
    connection->fd = -1;
    CHECK(herd_conn_closed(of) >= 0);
}

CHECK_HELPER void serve(struct connection *connection)
{
    char byte;
    ssize_t got = recv(connection->fd, &byte, 1, MSG_DONTWAIT);
    if (got == 1) {
        CHECK_EQ(send(connection->fd, &byte, 1, MSG_NOSIGNAL), 1);
    } else if (got == 0 || errno != EAGAIN) {
        end_connection(connection);
    }
}

CHECK_HELPER void on_ready(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)ready;
    serve((struct connection *)event->data);
}

CHECK_HELPER void watch(struct connection *connection)
{
    if (is_hosted(connection->slot)) {
        host_watches(connection->fd, connection);
        return;
    }
    CHECK_CODE(herd_event_init(&connection->event, on_ready, connection), 0);
    int code = herd_event_add(worker[connection->slot], &connection->event, connection->fd, HERD_READ);
    if (code == HERD_EPOISONED && script->call == FAULT_EPOLL_WAIT) {
        return;
    }
    if (code != 0) {
        CHECK(script->hits > 0 && code == -script->error);
        disarm();
        code = herd_event_add(worker[connection->slot], &connection->event, connection->fd, HERD_READ);
    }
    CHECK_CODE(code, 0);
}

CHECK_HELPER void on_sent(struct herd_worker *of, int fd, const struct sockaddr *peer, uint32_t peer_length,
                    const void *tag, size_t tag_bytes, void *data)
{
    CHECK(tag_bytes == 3 && memcmp(tag, "tag", 3) == 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    sent_arrived++;
    inject_on_accept(of, fd, peer, peer_length, data);
}

/* --- Turns ----------------------------------------------------------------------------------- */

/* Has a loop of the host's wait for worker 1. */
CHECK_HELPER void host_worker(void)
{
    host_set = epoll_create1(EPOLL_CLOEXEC);
    if (share->way == attached) {
        STEP(herd_attach_epoll(worker[1], host_set, 0));
    } else {
        STEP(herd_worker_fd(worker[1]));
        host_watches(herd_worker_fd(worker[1]), NULL);
    }
}

/* Returns what the library said; `*events` those that the host's wait found. */
CHECK_HELPER int hosted_turn(int timeout_ms, int *events)
{
    struct epoll_event ready[16];
    int code = herd_prepare(worker[1], timeout_ms);
    if (code < 0) {
        return code;
    }
    *events = epoll_wait(host_set, ready, 16, code);
    CHECK(*events >= 0);
    code = herd_check(worker[1]);
    /* What a worker that cannot be used any more has left the new one finds. */
    for (int i = 0; code >= 0 && i < *events; i++) {
        struct connection *connection = (struct connection *)ready[i].data.ptr;
        if (connection != NULL && connection->fd >= 0) {
            serve(connection);
        }
    }
    return code;
}

/* A worker that cannot be used any more, or has given a listener up: a new one begins afresh. */
CHECK_HELPER void make_worker_anew(int number)
{
    CHECK_CODE(herd_worker_destroy(worker[number]), 0);
    disarm();
    CHECK_CODE(herd_worker_create(herd, number, &worker[number]), 0);
    if (is_hosted(number)) {
        close(host_set);
        host_worker();
    }
    for (int i = 0; i < connections_most; i++) {
        if (connections[i].fd >= 0 && connections[i].slot == number) {
            CHECK(herd_conn_opened(worker[number]) >= 0);
            watch(&connections[i]);
        }
    }
}

CHECK_HELPER int is_fatal(int error)
{
    return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EOPNOTSUPP;
}

CHECK_HELPER void run_turn(int number, int timeout_ms)
{
    long long made = calls_made();
    int events, code = is_hosted(number) ? hosted_turn(timeout_ms, &events)
                                         : herd_run_once(worker[number], timeout_ms);
    CHECK(calls_made() - made < turn_calls_most);
    if (code >= 0) {
        return;
    }
    int of_wait = script->call == FAULT_EPOLL_WAIT;
    int of_listener = script->call == FAULT_ACCEPT4 && is_fatal(script->error);
    if (!(script->hits > 0 && (of_wait || of_listener))) {
        fprintf(stderr, "the turn said %s\n", herd_strerror(code));
        test_exit(1);
    }
    CHECK_EQ(code, -script->error);
    disarm();
    if (of_wait) {
        CHECK_CODE(is_hosted(number) ? hosted_turn(0, &events) : herd_run_once(worker[number], 0),
                   HERD_EPOISONED);
    }
    make_worker_anew(number);
}

/* After a turn: the host's set reports nothing. */
CHECK_HELPER int host_is_quiet(void)
{
    struct epoll_event ready;
    run_turn(1, 0);
    return epoll_wait(host_set, &ready, 1, 0) == 0;
}

/* --- Clients --------------------------------------------------------------------------------- */

/* Turns of all workers until `fd` has a byte to read. */
static char next_byte(int fd)
{
    int64_t deadline = now_ms() + wait_most_ms;
    for (int turn = 0; now_ms() < deadline; turn++) {
        char byte;
        ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 1) {
            return byte;
        }
        CHECK(got < 0 && errno == EAGAIN);
        run_turn(turn % workers, turn % 4 == 0);
    }
    fprintf(stderr, "the client is not served\n");
    test_exit(1);
}

CHECK_HELPER void expect_greeting(int fd)
{
    char slot = next_byte(fd);
    CHECK(slot >= 0 && slot < workers);
}

CHECK_HELPER int open_connections(void)
{
    int count = 0;
    for (int i = 0; i < connections_most; i++) {
        count += connections[i].fd >= 0;
    }
    return count;
}

/* It is served once, and ends. */
CHECK_HELPER void expect_service(int fd)
{
    char byte;
    expect_greeting(fd);
    CHECK_EQ(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    CHECK_EQ(next_byte(fd), 'x');
    CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) < 0);
    shutdown(fd, SHUT_WR);
    int64_t deadline = now_ms() + wait_most_ms;
    for (int turn = 0; open_connections() > 0; turn++) {
        CHECK(now_ms() < deadline);
        run_turn(turn % workers, 0);
    }
    CHECK_EQ(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

#endif
