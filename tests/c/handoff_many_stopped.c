/* All workers but one are stopped with connections on their way, each by name: the one that is left has
 * all of them after one accept_delay, not a queue in each. Those found stuck are sent nothing more, by name
 * neither, until they go on. */
#include "serve.h"

enum { workers = 9, each = 30, accept_delay_ms = 1500 };

static void on_handoff(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                       uint32_t peer_length, const void *tag, size_t tag_bytes, void *data)
{
    (void)tag;
    (void)tag_bytes;
    serve_on_accept(worker, fd, peer, peer_length, data);
}

/* The other end of a connection that is sent to `slot`, or `code`. */
static int send_one(int slot, int code)
{
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_CODE(herd_handoff_send(serve.herd, slot, fds[0], NULL, 0), code);
    if (code < 0) {
        close(fds[0]);
    }
    return fds[1];
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    static int clients[workers * each];
    int count = 0;
    config.mode = HERD_MODE_HANDOFF;
    config.accept_delay_ms = accept_delay_ms;
    test_begin(50);
    serve_prepare(&config, workers);
    CHECK_CODE(herd_on_handoff(serve.herd, on_handoff, NULL), 0);
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    for (int slot = 1; slot < workers; slot++) {
        kill(serve.pids[slot], SIGSTOP);
        WAIT_UNTIL(process_state(serve.pids[slot]) == 'T', 10000);
    }
    int64_t began_ms = now_ms();
    for (int slot = 1; slot < workers; slot++) {
        for (int i = 0; i < each; i++) {
            clients[count++] = send_one(slot, slot);
        }
    }
    for (int i = 0; i < count; i++) {
        CHECK_EQ(serve_greeting(clients[i], 10000), 0);
    }
    printf("%d rerouted, the last after %d ms\n", count, (int)(now_ms() - began_ms));
    /* A queue in each would take eight. */
    CHECK(now_ms() - began_ms < 2 * accept_delay_ms + 1000);
    CHECK_EQ(serve_stats(0).handoff_rerouted, count);
    for (int slot = 1; slot < workers; slot++) {
        close(send_one(slot, -EAGAIN));
    }
    for (int slot = 1; slot < workers; slot++) {
        kill(serve.pids[slot], SIGCONT);
    }
    serve_settle();
    for (int slot = 1; slot < workers; slot++) {
        int client = send_one(slot, slot);
        CHECK_EQ(serve_greeting(client, 10000), slot);
        close(client);
    }
    for (int i = 0; i < count; i++) {
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    CHECK_EQ(serve_total().handoff_sent, serve_total().handoff_received);
    /* Not by serve_end: these were not connected to its listener. */
    for (int slot = 0; slot < workers; slot++) {
        test_kill(serve.pids[slot]);
    }
    CHECK_CODE(herd_destroy(serve.herd), 0);
    test_exit(0);
}
