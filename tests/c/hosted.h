/*
 * The worker of serve.h in a loop of the host's: an epoll loop of its own that either has the
 * library's descriptors in its set, or polls herd_worker_fd. Includes serve.h. C99 and C++17.
 */
#ifndef HOSTED_H
#define HOSTED_H

#include "serve.h"

#include <sys/epoll.h>

enum hosted_way { HOSTED_ATTACHED, HOSTED_NESTED };

/* No descriptor has this number. */
static const uint64_t hosted_mark = UINT64_MAX;

CHECK_HELPER void hosted_watch(int epfd, int fd, uint64_t data)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.u64 = data;
    CHECK_EQ(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
}

/* Makes an epoll set of the host's that waits for the worker. */
CHECK_HELPER int hosted_epoll(struct herd_worker *worker, enum hosted_way way)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(epfd >= 0);
    if (way == HOSTED_ATTACHED) {
        CHECK_CODE(herd_attach_epoll(worker, epfd, hosted_mark), 0);
    } else {
        int fd = herd_worker_fd(worker);
        CHECK(fd >= 0);
        hosted_watch(epfd, fd, hosted_mark);
    }
    return epfd;
}

CHECK_HELPER void hosted_greet(int epfd, int fd, int slot)
{
    hosted_watch(epfd, fd, (uint64_t)fd);
    SHARED_ADD(serve.shared->accepted[slot], 1u);
    if (serve.on_accept != NULL) {
        serve.on_accept(serve_worker, slot);
    }
    char greeting = (char)slot;
    ssize_t sent = send(fd, &greeting, 1, MSG_NOSIGNAL);
    (void)sent; /* a client that has gone is seen in the next read */
}

CHECK_HELPER void hosted_echo(int fd)
{
    char bytes[512];
    ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0 && serve.on_request != NULL) {
        serve.on_request(serve_worker);
    }
    if (got <= 0 || send(fd, bytes, (size_t)got, MSG_NOSIGNAL) != got) {
        close(fd);
        CHECK(herd_conn_closed(serve_worker) >= 0);
    }
}

/* A worker that greets, echoes and closes as the one of serve.h does. */
__attribute__((noreturn)) CHECK_HELPER void hosted_run(int slot, enum hosted_way way)
{
    struct herd_accepted accepted = HERD_ACCEPTED_INIT;
    struct epoll_event events[16];
    CHECK_CODE(herd_worker_create(serve.herd, slot, &serve_worker), 0);
    signal(SIGTERM, serve_drain_on_signal);
    signal(SIGINT, serve_stop_on_signal);
    int epfd = hosted_epoll(serve_worker, way);
    SHARED_SET(serve.shared->ready[slot], getpid());
    while (herd_worker_state(serve_worker) < HERD_WORKER_DRAINED) {
        int timeout_ms = herd_prepare(serve_worker, -1);
        CHECK(timeout_ms >= 0);
        int count = epoll_wait(epfd, events, 16, timeout_ms);
        CHECK(herd_check(serve_worker) >= 0);
        while (herd_accept(serve_worker, &accepted) == 0) {
            hosted_greet(epfd, accepted.fd, slot);
        }
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 != hosted_mark) {
                hosted_echo((int)events[i].data.u64);
            }
        }
    }
    CHECK_CODE(herd_worker_destroy(serve_worker), 0);
    test_exit(0);
}

CHECK_HELPER void hosted_start(const struct herd_config *config, int workers, enum hosted_way way)
{
    serve_prepare(config, workers);
    CHECK_CODE(herd_remove_listener(serve.herd, 0), 0);
    serve.address = address_of(serve.herd, new_listener(serve.herd, NULL, NULL));
    for (int slot = 0; slot < workers; slot++) {
        serve.pids[slot] = test_fork();
        if (serve.pids[slot] == 0) {
            hosted_run(slot, way);
        }
    }
    serve_settle();
}

#endif
