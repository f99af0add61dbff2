/*
 * host_libev: a prefork HTTP server on libev, and libherd added to it.
 *
 * The loop polls herd_worker_fd. A prepare watcher runs before every wait; a check watcher of the highest priority runs
 * after it and before all others, so that no handler of the server's runs while its worker has the accept right.
 */
#include "host.h"
#include <ev.h>

struct connection {
    struct ev_io watcher; /* first: the pointer to it is one to the connection */
    LIST_ENTRY(connection) link;
    struct exchange exchange;
};
static LIST_HEAD(, connection) connections = LIST_HEAD_INITIALIZER(connections);
static struct ev_loop *loop;
static int failure; /* what ended the loop */

static void close_connection(struct connection *connection)
{
    ev_io_stop(loop, &connection->watcher);
    close(connection->watcher.fd);
    herd_conn_closed(worker);
    LIST_REMOVE(connection, link);
    end_exchange(&connection->exchange);
    free(connection);
}

static void on_ready(EV_P_ struct ev_io *watcher, int ready)
{
    struct connection *connection = (struct connection *)watcher;
    const enum next next = serve(&connection->exchange, watcher->fd, (ready & EV_READ) != 0);
    const int interest = next == NEXT_WRITE ? EV_WRITE : EV_READ;
    if (next == NEXT_CLOSE) {
        close_connection(connection);
    } else if (interest != (watcher->events & (EV_READ | EV_WRITE))) {
        ev_io_stop(EV_A_ watcher);
        ev_io_set(watcher, watcher->fd, interest);
        ev_io_start(EV_A_ watcher);
    }
}

static void on_accept(struct herd_worker *herd_worker, int fd, const struct sockaddr *peer, uint32_t peer_length,
                      void *data)
{
    struct connection *connection = malloc(sizeof *connection);
    (void)peer, (void)peer_length, (void)data;
    if (connection == NULL) {
        close(fd);
        herd_conn_closed(herd_worker);
        return;
    }
    begin_exchange(&connection->exchange, worker);
    ev_io_init(&connection->watcher, on_ready, fd, EV_READ);
    ev_io_start(loop, &connection->watcher);
    LIST_INSERT_HEAD(&connections, connection, link);
}

/* Answers what has arrived on connections that wait for a request, and closes those where nothing has. */
static void leave_idle(void)
{
    for (struct connection *at = LIST_FIRST(&connections), *next; at != NULL; at = next) {
        next = LIST_NEXT(at, link);
        if (at->watcher.events & EV_READ)
            on_ready(EV_A_ &at->watcher, EV_READ);
    }
}

/* ---- libherd and the loop ---- */

static struct ev_io herd_ready;      /* only ends the wait: herd_check finds out what for */
static struct ev_timer herd_timeout; /* likewise */
static struct ev_prepare before_wait;
static struct ev_check after_wait;

static void on_herd_ready(EV_P_ struct ev_io *watcher, int ready) { (void)loop, (void)watcher, (void)ready; }
static void on_herd_timeout(EV_P_ struct ev_timer *watcher, int ready) { (void)loop, (void)watcher, (void)ready; }

static void end_loop(int code)
{
    failure = code < 0 ? code : 0;
    ev_break(EV_A_ EVBREAK_ALL);
}

static void on_before_wait(EV_P_ struct ev_prepare *watcher, int ready)
{
    static bool left_idle;
    int state = herd_worker_state(worker);
    (void)watcher, (void)ready;
    if (state == HERD_WORKER_DRAINING && !left_idle) {
        left_idle = true;
        leave_idle();
        state = herd_worker_state(worker);
    }
    const int timeout_ms = state < HERD_WORKER_DRAINED ? herd_prepare(worker, -1) : state;
    ev_timer_stop(EV_A_ &herd_timeout);
    if (state >= HERD_WORKER_DRAINED || timeout_ms < 0) {
        end_loop(state < 0 ? state : timeout_ms); /* before the wait */
    } else if (timeout_ms < INT32_MAX) {
        ev_now_update(EV_A); /* the timer counts from the loop's idea of now */
        ev_timer_set(&herd_timeout, timeout_ms / 1000., 0.);
        ev_timer_start(EV_A_ &herd_timeout);
    }
}

static void on_after_wait(EV_P_ struct ev_check *watcher, int ready)
{
    (void)loop, (void)watcher, (void)ready;
    const int result = herd_check(worker); /* accepts, gives the right up, calls on_accept */
    if (result <= HERD_EFORKED)
        end_loop(result); /* an errno would be a listener's, which the log has and others go on without */
}

static int run_worker(void)
{
    const int fd = herd_worker_fd(worker); /* refused in HERD_MODE_EXCLUSIVE: all workers would wake */
    if (fd < 0)
        return fd;
    if ((loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV)) == NULL)
        return -ENOMEM;
    ev_io_init(&herd_ready, on_herd_ready, fd, EV_READ);
    ev_timer_init(&herd_timeout, on_herd_timeout, 0., 0.);
    ev_prepare_init(&before_wait, on_before_wait);
    ev_set_priority(&before_wait, EV_MINPRI); /* last, so that its try is fresh */
    ev_check_init(&after_wait, on_after_wait);
    ev_set_priority(&after_wait, EV_MAXPRI); /* before all handlers */
    ev_io_start(EV_A_ &herd_ready);
    ev_prepare_start(EV_A_ &before_wait);
    ev_check_start(EV_A_ &after_wait);
    ev_run(EV_A_ 0);
    while (!LIST_EMPTY(&connections))
        close_connection(LIST_FIRST(&connections));
    ev_loop_destroy(EV_A);
    return failure;
}

int main(int argc, char **argv)
{
    return host_main(argc, argv, HERD_MODE_MUTEX, on_accept);
}
