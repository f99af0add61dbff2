/* libev_server: the same job on libev 4, as its users would write it: one ev_io a socket. Ways: the one listener that
 * the parent opened, or SO_REUSEPORT. */
#define _GNU_SOURCE
#include "http.h"
#include "prefork.h"
#include "socket.h"
#include <stddef.h>
/* The watcher macros break strict aliasing by design, and libev says so. */
#pragma GCC diagnostic ignored "-Wstrict-aliasing"
#include <ev.h>

struct connection {
    ev_io io;
    struct exchange exchange;
};

static void on_ready(struct ev_loop *loop, ev_io *io, int ready)
{
    struct connection *connection = (struct connection *)io; /* its first member */
    const enum progress progress = serve(io->fd, &connection->exchange, ready & EV_READ);
    const int interest = progress == IDLE ? EV_READ : EV_WRITE;
    if (progress == GONE) {
        ev_io_stop(loop, io);
        close(io->fd);
        free(connection);
    } else if (interest != (io->events & (EV_READ | EV_WRITE))) {
        ev_io_stop(loop, io);
        ev_io_set(io, io->fd, interest);
        ev_io_start(loop, io);
    }
}

static void on_connection(struct ev_loop *loop, ev_io *io, int ready)
{
    (void)io, (void)ready;
    const int fd = next_connection();
    if (fd < 0)
        return;
    struct connection *connection = malloc(sizeof *connection);
    if (connection == NULL)
        die("malloc");
    memset(connection, 0, offsetof(struct connection, exchange.in));
    ev_io_init(&connection->io, on_ready, fd, EV_READ);
    ev_io_start(loop, &connection->io);
}

static void run_worker(void)
{
    static ev_io accepting;
    struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (loop == NULL)
        die("libev");
    ev_io_init(&accepting, on_connection, listener, EV_READ);
    ev_io_start(loop, &accepting);
    ev_run(loop, 0);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = { "shared", "reuseport", NULL };
    static const struct peer libev = { "libev_server", ways, run_worker, NULL };
    return prefork(&libev, argc, argv);
}
