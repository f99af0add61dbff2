/*
 * host_epoll: a classic prefork HTTP server with an epoll loop of its own, and libherd added to it.
 *
 * The loop and the watching of connections stay the server's; docs/adopting.md shows it before and after.
 */
#include "host.h"
#include <sys/epoll.h>

enum { EVENTS_PER_WAIT = 64 };

/* The user data of the library's events: no connection is at NULL. */
static const uint64_t herds_own = 0;

struct connection {
    LIST_ENTRY(connection) link;
    int fd;
    uint32_t interest;
    struct exchange exchange;
};
static LIST_HEAD(, connection) connections = LIST_HEAD_INITIALIZER(connections);
static int epfd;

static void close_connection(struct connection *connection)
{
    epoll_ctl(epfd, EPOLL_CTL_DEL, connection->fd, NULL);
    close(connection->fd);
    herd_conn_closed(worker);
    LIST_REMOVE(connection, link);
    end_exchange(&connection->exchange);
    free(connection);
}

static void add_connection(int fd)
{
    struct connection *connection = malloc(sizeof *connection);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    if (connection == NULL || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(connection);
        close(fd);
        herd_conn_closed(worker);
        return;
    }
    begin_exchange(&connection->exchange, worker);
    connection->fd = fd;
    connection->interest = EPOLLIN;
    LIST_INSERT_HEAD(&connections, connection, link);
}

static void on_ready(struct connection *connection, uint32_t ready)
{
    const enum next next = serve(&connection->exchange, connection->fd, (ready & ~(uint32_t)EPOLLOUT) != 0);
    struct epoll_event event = { .events = next == NEXT_WRITE ? EPOLLOUT : EPOLLIN, .data.ptr = connection };
    if (next == NEXT_CLOSE
        || (event.events != connection->interest && epoll_ctl(epfd, EPOLL_CTL_MOD, connection->fd, &event) != 0))
        close_connection(connection);
    else
        connection->interest = event.events;
}

/* Answers what has arrived on connections that wait for a request, and closes those where nothing has. */
static void leave_idle(void)
{
    for (struct connection *at = LIST_FIRST(&connections), *next; at != NULL; at = next) {
        next = LIST_NEXT(at, link);
        if (at->interest == EPOLLIN)
            on_ready(at, EPOLLIN);
    }
}

static int run_loop(void)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    struct herd_accepted accepted = HERD_ACCEPTED_INIT;
    int state, checked_in = 0;
    for (bool left_idle = false; (state = herd_worker_state(worker)) < HERD_WORKER_DRAINED;) {
        if (state == HERD_WORKER_DRAINING && !left_idle) {
            left_idle = true;
            leave_idle();
            continue;
        }
        const int timeout_ms = herd_prepare(worker, -1); /* takes the accept right, if it is free */
        if (timeout_ms < 0)
            return timeout_ms;
        const int count = epoll_wait(epfd, events, EVENTS_PER_WAIT, timeout_ms);
        if ((checked_in = herd_check(worker)) <= HERD_EFORKED) /* accepts, and gives the right up */
            return checked_in; /* an errno would be a listener's, which the log has and others go on without */
        while (herd_accept(worker, &accepted) == 0)
            add_connection(accepted.fd);
        for (int i = 0; i < count; i++)
            if (events[i].data.u64 != herds_own)
                on_ready(events[i].data.ptr, events[i].events);
    }
    return state < 0 ? state : 0;
}

static int run_worker(void)
{
    if ((epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        return -errno;
    int result = herd_attach_epoll(worker, epfd, herds_own);
    if (result == 0)
        result = run_loop();
    while (!LIST_EMPTY(&connections))
        close_connection(LIST_FIRST(&connections));
    return result;
}

int main(int argc, char **argv)
{
    return host_main(argc, argv, HERD_MODE_AUTO, NULL);
}
