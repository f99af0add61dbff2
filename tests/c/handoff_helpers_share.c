/* What a stopped worker has not taken is shared out among those who are idle: with handlers that take long, none
 * of them takes it all and serves one client after the other. */
#include "serve.h"

enum { workers = 4, stopped = 0, waiting = 24, handler_ms = 20, most_of_one = 16 };

static void be_slow(struct herd_worker *worker, int slot)
{
    (void)worker, (void)slot;
    sleep_ms(handler_ms);
}

static void on_handoff(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length,
                       const void *tag, size_t tag_bytes, void *data)
{
    (void)tag, (void)tag_bytes;
    serve_on_accept(worker, fd, peer, length, data);
}

/* Returns how many the one has served that served most. */
static int largest_share(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[waiting], served[workers] = {0}, most = 0;
    config.mode = HERD_MODE_HANDOFF;
    config.accept_delay_ms = 50; /* for those who are named */
    serve_prepare(&config, workers);
    CHECK_CODE(herd_on_handoff(serve.herd, on_handoff, NULL), 0);
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    kill(serve.pids[stopped], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[stopped]) == 'T', 10000);
    int64_t began = now_ms();
    for (int i = 0; i < waiting; i++) {
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        CHECK_CODE(herd_handoff_send(serve.herd, stopped, ends[0], NULL, 0), stopped);
        clients[i] = ends[1];
    }
    for (int i = 0; i < waiting; i++) {
        int slot = serve_greeting(clients[i], 20000);
        CHECK(slot > stopped && slot < workers);
        served[slot]++;
        close(clients[i]);
    }
    printf("%d, %d, %d in %d ms\n", served[1], served[2], served[3], (int)(now_ms() - began));
    for (int slot = 1; slot < workers; slot++) {
        most = served[slot] > most ? served[slot] : most;
    }
    kill(serve.pids[stopped], SIGCONT);
    serve_end();
    return most;
}

int main(void)
{
    int most;
    test_begin(50);
    serve.on_accept = be_slow;
    CHECK_IN_SOME_TRY(most = largest_share(), most <= most_of_one);
    test_exit(0);
}
