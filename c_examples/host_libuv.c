/*
 * host_libuv: a prefork HTTP server on libuv, and libherd added to it.
 *
 * libuv has no place right after its wait: the callbacks of its descriptors run within. So an epoll set of the server's
 * waits, with the loop's descriptor (uv_backend_fd) and the library's in it, and the loop then runs what is ready
 * without waiting. The accept right is given up before, and all modes work, since the set is waited on directly.
 */
#include "host.h"
#include <sys/epoll.h>
#include <uv.h>

struct connection {
    uv_tcp_t tcp; /* first: the pointer to it is one to the connection */
    uv_write_t write;
    LIST_ENTRY(connection) link;
    bool writes; /* an answer waits for the peer to read */
    struct exchange exchange;
};
static LIST_HEAD(, connection) connections = LIST_HEAD_INITIALIZER(connections);
static uv_loop_t loop;

static void serve_stream(struct connection *connection);

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = (struct connection *)handle;
    herd_conn_closed(worker);
    LIST_REMOVE(connection, link);
    end_exchange(&connection->exchange);
    free(connection);
}

static void close_connection(struct connection *connection)
{
    if (!uv_is_closing((uv_handle_t *)&connection->tcp))
        uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static void on_buffer(uv_handle_t *handle, size_t suggested_bytes, uv_buf_t *buffer)
{
    struct exchange *exchange = &((struct connection *)handle)->exchange;
    (void)suggested_bytes;
    *buffer = uv_buf_init(exchange->in + exchange->in_bytes, HEAD_MAX_BYTES - (unsigned)exchange->in_bytes);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct connection *connection = (struct connection *)stream;
    (void)buffer;
    if (got < 0 || !take_in(&connection->exchange, (size_t)got))
        close_connection(connection);
    else
        serve_stream(connection);
}

static void on_written(uv_write_t *write, int status)
{
    struct connection *connection = write->data;
    connection->writes = false;
    if (status < 0 || uv_read_start(write->handle, on_buffer, on_read) != 0)
        close_connection(connection);
    else
        serve_stream(connection);
}

/* Answers what is complete. While an answer waits for the peer to read, nothing more is read. */
static void serve_stream(struct connection *connection)
{
    struct exchange *exchange = &connection->exchange;
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
    while (!exchange->closing && answer_next(exchange)) {
        uv_buf_t rest = uv_buf_init(exchange->out, (unsigned)exchange->out_bytes);
        int sent = uv_try_write(stream, &rest, 1);
        if (sent < 0 && sent != UV_EAGAIN) {
            close_connection(connection);
            return;
        }
        if (sent < (int)rest.len) {
            rest = uv_buf_init(rest.base + (sent > 0 ? sent : 0), (unsigned)rest.len - (sent > 0 ? (unsigned)sent : 0));
            connection->write.data = connection;
            connection->writes = true;
            uv_read_stop(stream);
            if (uv_write(&connection->write, stream, &rest, 1, on_written) != 0)
                close_connection(connection);
            return;
        }
    }
    uv_os_fd_t fd;
    if (has_ended(exchange))
        close_connection(connection);
    else if (exchange->lingering && uv_fileno((uv_handle_t *)stream, &fd) == 0)
        shutdown(fd, SHUT_WR);
}

static void on_accept(struct herd_worker *herd_worker, int fd, const struct sockaddr *peer, uint32_t peer_length,
                      void *data)
{
    struct connection *connection = malloc(sizeof *connection);
    (void)peer, (void)peer_length, (void)data;
    if (connection == NULL || uv_tcp_init(&loop, &connection->tcp) != 0) {
        free(connection);
        close(fd);
        herd_conn_closed(herd_worker);
        return;
    }
    begin_exchange(&connection->exchange, worker);
    connection->writes = false;
    LIST_INSERT_HEAD(&connections, connection, link);
    if (uv_tcp_open(&connection->tcp, fd) != 0) {
        close(fd);
        close_connection(connection);
    } else if (uv_read_start((uv_stream_t *)&connection->tcp, on_buffer, on_read) != 0) {
        close_connection(connection);
    }
}

/* What had arrived before the worker was to leave has been read by now. */
static void leave_idle(void)
{
    struct connection *connection;
    LIST_FOREACH(connection, &connections, link)
        if (!connection->writes && has_idled_out(&connection->exchange))
            close_connection(connection);
}

/* ---- libherd and the loop ---- */

/* A loop without handles would not wait, but the worker does. */
static int loop_timeout_ms(void)
{
    uv_update_time(&loop); /* from which the timeout counts */
    return uv_loop_alive(&loop) ? uv_backend_timeout(&loop) : -1;
}

static int run_loop(int epfd)
{
    int state;
    while ((state = herd_worker_state(worker)) < HERD_WORKER_DRAINED) {
        struct epoll_event any; /* of which side does not matter: both look for themselves */
        const int timeout_ms = herd_prepare(worker, loop_timeout_ms()); /* takes the accept right, if it is free */
        if (timeout_ms < 0)
            return timeout_ms;
        epoll_wait(epfd, &any, 1, timeout_ms);
        const int result = herd_check(worker); /* accepts, gives the right up, calls on_accept */
        if (result <= HERD_EFORKED)
            return result; /* an errno would be a listener's, which the log has and others go on without */
        uv_run(&loop, UV_RUN_NOWAIT);
        if (state == HERD_WORKER_DRAINING)
            leave_idle();
    }
    return state < 0 ? state : 0;
}

static int run_worker(void)
{
    const int epfd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event backend = { .events = EPOLLIN };
    int result = uv_loop_init(&loop); /* a negated errno, as libherd's codes are */
    if (epfd < 0 || result != 0)
        return epfd < 0 ? -errno : result;
    if (epoll_ctl(epfd, EPOLL_CTL_ADD, uv_backend_fd(&loop), &backend) != 0)
        result = -errno;
    else if ((result = herd_attach_epoll(worker, epfd, 0)) == 0)
        result = run_loop(epfd);
    struct connection *connection;
    LIST_FOREACH(connection, &connections, link)
        close_connection(connection);
    uv_run(&loop, UV_RUN_DEFAULT); /* their on_closed */
    uv_loop_close(&loop);
    return result;
}

int main(int argc, char **argv)
{
    return host_main(argc, argv, HERD_MODE_AUTO, on_accept);
}
