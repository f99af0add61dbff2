/* libuv_server: the same job on libuv, as its users would write it: reads into the connection's own buffer, and
 * uv_try_write first, which saves a request object when the socket has room. Ways: the one listener that the parent
 * opened, or SO_REUSEPORT. */
#define _GNU_SOURCE
#include "http.h"
#include "prefork.h"
#include <stddef.h>
#include <uv.h>

struct connection {
    uv_tcp_t tcp;
    uv_write_t write;
    struct exchange exchange;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void leave(struct connection *connection)
{
    if (!uv_is_closing((uv_handle_t *)&connection->tcp))
        uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static void go_on(struct connection *connection);

static void on_written(uv_write_t *write, int status)
{
    struct connection *connection = write->data;
    connection->exchange.out_begin = connection->exchange.out_bytes = 0;
    if (status < 0 || connection->exchange.closing)
        leave(connection);
    else
        go_on(connection);
}

/* Answers what is complete, as long as the peer takes the answers. */
static void go_on(struct connection *connection)
{
    struct exchange *exchange = &connection->exchange;
    while (exchange->out_bytes == 0 && !exchange->closing && answer_next(exchange)) {
        uv_buf_t bytes = uv_buf_init(exchange->out, (unsigned)exchange->out_bytes);
        int sent = uv_try_write((uv_stream_t *)&connection->tcp, &bytes, 1);
        if (sent < 0 && sent != UV_EAGAIN) {
            leave(connection);
            return;
        }
        exchange->out_begin = sent > 0 ? (size_t)sent : 0;
        if (exchange->out_begin < exchange->out_bytes) {
            bytes = uv_buf_init(exchange->out + exchange->out_begin,
                                (unsigned)(exchange->out_bytes - exchange->out_begin));
            connection->write.data = connection;
            if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &bytes, 1, on_written) != 0)
                leave(connection);
            return;
        }
        exchange->out_bytes = 0;
    }
    if (exchange->closing)
        leave(connection);
}

static void on_room_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    struct exchange *exchange = &((struct connection *)handle->data)->exchange;
    (void)suggested;
    *room = uv_buf_init(exchange->in + exchange->in_bytes, (unsigned)(HEAD_MAX_BYTES - exchange->in_bytes));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    struct connection *connection = stream->data;
    (void)room;
    if (got < 0) {
        leave(connection);
        return;
    }
    connection->exchange.in_bytes += (size_t)got;
    go_on(connection);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct connection *connection = status < 0 ? NULL : malloc(sizeof *connection);
    if (connection == NULL)
        return;
    memset(connection, 0, offsetof(struct connection, exchange.in));
    uv_tcp_init(server->loop, &connection->tcp);
    connection->tcp.data = connection;
    if (uv_accept(server, (uv_stream_t *)&connection->tcp) != 0
        || uv_read_start((uv_stream_t *)&connection->tcp, on_room_wanted, on_read) != 0)
        leave(connection);
}

static void run_worker(void)
{
    uv_loop_t loop;
    uv_tcp_t server;
    signal(SIGPIPE, SIG_IGN); /* as libuv asks its users to */
    if (uv_loop_init(&loop) != 0 || uv_tcp_init(&loop, &server) != 0 || uv_tcp_open(&server, listener) != 0
        || uv_listen((uv_stream_t *)&server, BACKLOG, on_connection) != 0)
        die("libuv");
    uv_run(&loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = { "shared", "reuseport", NULL };
    static const struct peer libuv = { "libuv_server", ways, run_worker, NULL };
    return prefork(&libuv, argc, argv);
}
