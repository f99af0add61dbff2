/* libevent_server: the same job on libevent 2.1, as its users would write it: an evconnlistener a worker, and plain
 * events, which cost less than bufferevents. Ways: the one listener that the parent opened, or SO_REUSEPORT. */
#define _GNU_SOURCE
#include "http.h"
#include "prefork.h"
#include "socket.h"
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/listener.h>
#include <stddef.h>

static struct event_base *base;

struct connection {
    struct event event;
    short interest;
    struct exchange exchange;
};

static void on_ready(evutil_socket_t fd, short ready, void *data)
{
    struct connection *connection = data;
    const enum progress progress = serve(fd, &connection->exchange, ready & EV_READ);
    const short interest = progress == IDLE ? EV_READ : EV_WRITE;
    if (progress == GONE) {
        event_del(&connection->event);
        close(fd);
        free(connection);
    } else if (interest != connection->interest) {
        event_del(&connection->event);
        event_assign(&connection->event, base, fd, interest | EV_PERSIST, on_ready, connection);
        event_add(&connection->event, NULL);
        connection->interest = interest;
    }
}

static void on_accept(struct evconnlistener *source, evutil_socket_t fd, struct sockaddr *from, int bytes, void *data)
{
    (void)source, (void)from, (void)bytes, (void)data;
    struct connection *connection = malloc(sizeof *connection);
    if (connection == NULL)
        die("malloc");
    memset(connection, 0, offsetof(struct connection, exchange.in));
    connection->interest = EV_READ;
    event_assign(&connection->event, base, fd, EV_READ | EV_PERSIST, on_ready, connection);
    event_add(&connection->event, NULL);
}

static void run_worker(void)
{
    struct event_config *config = event_config_new();
    /* No locks, for one thread; and no list of changes, which costs more than it saves here. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base = event_base_new_with_config(config);
    event_config_free(config);
    /* Backlog 0: the socket listens already. */
    if (base == NULL || evconnlistener_new(base, on_accept, NULL, LEV_OPT_CLOSE_ON_EXEC, 0, listener) == NULL)
        die("libevent");
    event_base_dispatch(base);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = { "shared", "reuseport", NULL };
    static const struct peer libevent = { "libevent_server", ways, run_worker, NULL };
    return prefork(&libevent, argc, argv);
}
