/*
 * host_libevent: a prefork HTTP server on libevent 2.1, and libherd added to it.
 *
 * The loop polls herd_worker_fd. libevent 2.1 calls nobody between its wait and its first handler, so each handler of
 * the server begins with herd_check: in the first one after a wait it accepts and gives the accept right up, in the
 * others it does nothing. A higher priority for the library's event would not do instead: it is not there in waits
 * that bring the server's own events only, and while it stays ready it keeps these from running at all.
 */
#include "host.h"
#include <event2/event.h>

struct connection {
    struct event *event;
    LIST_ENTRY(connection) link;
    short interest;
    struct exchange exchange;
};
static LIST_HEAD(, connection) connections = LIST_HEAD_INITIALIZER(connections);
static struct event_base *base;

static void close_connection(struct connection *connection)
{
    const evutil_socket_t fd = event_get_fd(connection->event);
    event_free(connection->event);
    close(fd);
    herd_conn_closed(worker);
    LIST_REMOVE(connection, link);
    end_exchange(&connection->exchange);
    free(connection);
}

static void on_ready(evutil_socket_t fd, short ready, void *data)
{
    struct connection *connection = data;
    herd_check(worker); /* first of all: what follows can take long */
    const enum next next = serve(&connection->exchange, fd, (ready & EV_READ) != 0);
    const short interest = next == NEXT_WRITE ? EV_WRITE : EV_READ;
    if (next == NEXT_CLOSE) {
        close_connection(connection);
    } else if (interest != connection->interest) {
        connection->interest = interest;
        event_del(connection->event);
        event_assign(connection->event, base, fd, interest | EV_PERSIST, on_ready, connection);
        if (event_add(connection->event, NULL) != 0)
            close_connection(connection);
    }
}

static void on_accept(struct herd_worker *herd_worker, int fd, const struct sockaddr *peer, uint32_t peer_length,
                      void *data)
{
    struct connection *connection = malloc(sizeof *connection);
    struct event *event = event_new(base, fd, EV_READ | EV_PERSIST, on_ready, connection);
    (void)peer, (void)peer_length, (void)data;
    if (connection == NULL || event == NULL || event_add(event, NULL) != 0) {
        if (event != NULL)
            event_free(event);
        free(connection);
        close(fd);
        herd_conn_closed(herd_worker);
        return;
    }
    begin_exchange(&connection->exchange, worker);
    connection->event = event;
    connection->interest = EV_READ;
    LIST_INSERT_HEAD(&connections, connection, link);
}

/* Answers what has arrived on connections that wait for a request, and closes those where nothing has. */
static void leave_idle(void)
{
    for (struct connection *at = LIST_FIRST(&connections), *next; at != NULL; at = next) {
        next = LIST_NEXT(at, link);
        if (at->interest == EV_READ)
            on_ready(event_get_fd(at->event), EV_READ, at);
    }
}

/* ---- libherd and the loop ---- */

static void on_herd(evutil_socket_t fd, short ready, void *data) /* its descriptor is ready, or its time has come */
{
    (void)fd, (void)ready, (void)data;
    herd_check(worker); /* an error comes back from the next herd_prepare */
}

static int run_loop(struct event *herd_timeout)
{
    int state;
    for (bool left_idle = false; (state = herd_worker_state(worker)) < HERD_WORKER_DRAINED;) {
        if (state == HERD_WORKER_DRAINING && !left_idle) {
            left_idle = true;
            leave_idle();
            continue;
        }
        const int timeout_ms = herd_prepare(worker, -1); /* takes the accept right, if it is free */
        const struct timeval timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
        if (timeout_ms < 0)
            return timeout_ms;
        if (timeout_ms < INT32_MAX)
            evtimer_add(herd_timeout, &timeout);
        event_base_loop(base, EVLOOP_ONCE);
        evtimer_del(herd_timeout);
        herd_check(worker); /* after a wait that brought nothing */
    }
    return state < 0 ? state : 0;
}

static int run_worker(void)
{
    const int fd = herd_worker_fd(worker); /* refused in HERD_MODE_EXCLUSIVE: all workers would wake */
    int result = -ENOMEM;
    if (fd < 0)
        return fd;
    if ((base = event_base_new()) == NULL)
        return -ENOMEM;
    struct event *herd_ready = event_new(base, fd, EV_READ | EV_PERSIST, on_herd, NULL);
    struct event *herd_timeout = evtimer_new(base, on_herd, NULL);
    if (herd_ready != NULL && herd_timeout != NULL) {
        event_add(herd_ready, NULL);
        result = run_loop(herd_timeout);
    }
    while (!LIST_EMPTY(&connections))
        close_connection(LIST_FIRST(&connections));
    if (herd_timeout != NULL)
        event_free(herd_timeout);
    if (herd_ready != NULL)
        event_free(herd_ready);
    event_base_free(base);
    return result;
}

int main(int argc, char **argv)
{
    return host_main(argc, argv, HERD_MODE_MUTEX, on_accept);
}
