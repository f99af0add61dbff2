/*
 * raw_server: the peer that libherd is compared with, written by hand on epoll as its users would write it.
 *
 * It accepts one connection a turn, and shares accepting in one of these ways:
 *   shared     every worker has the listener in its epoll: the herd
 *   exclusive  the same with EPOLLEXCLUSIVE
 *   rotate     nginx 1.21.6 and newer: EPOLLEXCLUSIVE, and the listener is added anew after every 16 accepts
 *   mutex      nginx's accept_mutex: who has a lock in shared memory has the listener in its epoll, losers take it
 *              out and try again after at most 500 ms; accepts before the unlock, other events after it
 *   reuseport, pass: see prefork.h
 */
#define _GNU_SOURCE
#include "http.h"
#include "prefork.h"
#include "socket.h"
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>

enum { EVENTS_PER_WAIT = 64, ACCEPTS_PER_ROTATION = 16, MUTEX_DELAY_MS = 500 };
enum { SHARED, EXCLUSIVE, ROTATE, MUTEX };
static const char *const ways[] = { "shared", "exclusive", "rotate", "mutex", "reuseport", "pass", NULL };

static int epoll_fd;

/* ---- the ways to share ---- */

static _Atomic int *lock_owner; /* in shared memory: the pid of who may accept, or 0 */
static bool armed;

static void arm(void)
{
    struct epoll_event event = { .events = way == EXCLUSIVE || way == ROTATE ? EPOLLIN | EPOLLEXCLUSIVE : EPOLLIN };
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) != 0)
        die("epoll_ctl");
    armed = true;
}

static void disarm(void)
{
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, listener, &(struct epoll_event){ 0 });
    armed = false;
}

/* Returns the timeout of the wait. */
static int try_lock(bool *held)
{
    int free = 0;
    *held = atomic_compare_exchange_strong(lock_owner, &free, own_pid);
    if (*held && !armed)
        arm();
    if (!*held && armed)
        disarm();
    return *held ? -1 : MUTEX_DELAY_MS;
}

static void unlock_for(pid_t pid)
{
    int owner = pid;
    atomic_compare_exchange_strong(lock_owner, &owner, 0);
}

static void after_accept(void)
{
    static unsigned accepts;
    if (way == ROTATE && ++accepts % ACCEPTS_PER_ROTATION == 0) {
        disarm();
        arm();
    }
}

/* ---- connections ---- */

struct connection {
    int fd;
    uint32_t interest;
    struct exchange exchange;
};

static void on_ready(struct connection *connection, uint32_t ready)
{
    const enum progress progress =
        serve(connection->fd, &connection->exchange, ready & (EPOLLIN | EPOLLHUP | EPOLLERR));
    const uint32_t interest = progress == IDLE ? EPOLLIN : EPOLLOUT;
    if (progress == GONE) {
        /* Where nobody else has the file it leaves the set by itself. Where a forked helper does, its events go on. */
        if (removes)
            epoll_ctl(epoll_fd, EPOLL_CTL_DEL, connection->fd, &(struct epoll_event){ 0 });
        close(connection->fd);
        free(connection);
    } else if (interest != connection->interest) {
        struct epoll_event event = { .events = interest, .data.ptr = connection };
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
        connection->interest = interest;
    }
}

static void add_connection(int fd)
{
    struct connection *connection = malloc(sizeof *connection);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    if (connection == NULL)
        die("malloc");
    memset(connection, 0, offsetof(struct connection, exchange.in));
    connection->fd = fd;
    connection->interest = EPOLLIN;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
}

/* ---- a worker ---- */

static void run_worker(void)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    if ((epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        die("epoll_create1");
    if (way != MUTEX)
        arm();
    for (;;) {
        bool held = false;
        int accepted = -1;
        const int timeout_ms = way == MUTEX ? try_lock(&held) : -1;
        const int count = epoll_wait(epoll_fd, events, EVENTS_PER_WAIT, timeout_ms);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr == NULL && (accepted = next_connection()) >= 0)
                after_accept();
        if (held)
            unlock_for(own_pid);
        if (accepted >= 0)
            add_connection(accepted);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr != NULL)
                on_ready(events[i].data.ptr, events[i].events);
    }
}

int main(int argc, char **argv)
{
    /* on_death: ngx_unlock_mutexes */
    static const struct peer raw = { "raw_server", ways, run_worker, unlock_for };
    lock_owner = mmap(NULL, sizeof *lock_owner, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lock_owner == MAP_FAILED) {
        perror("raw_server: mmap");
        return EXIT_FAILURE;
    }
    return prefork(&raw, argc, argv);
}
