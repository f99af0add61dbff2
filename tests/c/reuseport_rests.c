/* What waits at the socket of a worker that rests (draining, out of descriptors, full, gone for good)
 * is served by the others at once, although the kernel's hash goes on sending clients there. */
#include "reuseport.h"

enum { workers = 3, connections = 60, capacity = 64 };

static int clients[connections];

/* Connections that stay, none of which may go to `not_to`. */
static void connect_all(int not_to)
{
    int64_t began_ms = now_ms();
    for (int i = 0; i < connections; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        CHECK(slot != not_to);
    }
    CHECK(now_ms() - began_ms < 10000); /* accept_delay is 30 s */
}

static void close_all(int left)
{
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == (uint64_t)left, 10000);
}

static void rest(int steered)
{
    struct herd_config config = reuseport_config(steered, 30000); /* the safety net must not help */
    int slot, draining;
    config.worker_connections = capacity;
    serve_start(&config, workers);

    int kept = serve_connect(&draining);
    kill(serve.pids[draining], SIGTERM);
    WAIT_UNTIL(serve_stats(draining).handovers > 0, 5000);
    connect_all(draining);
    serve_echo(kept);
    close_all(1);
    /* And when it has ended. */
    close(kept);
    CHECK_EQ(test_join(serve.pids[draining]), 0);
    serve.pids[draining] = 0;
    connect_all(draining);
    close_all(0);

    /* One of the other two cannot have descriptors: it learns that by its first connection. */
    int without = (draining + 1) % workers;
    process_limit_fds(serve.pids[without], 3);
    do {
        close(serve_connect(&slot));
    } while (serve_stats(without).backoffs == 0);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    connect_all(without);
    CHECK_EQ(serve_stats(without).backoffs, 1);
    close_all(0);
    serve_crash(without);
    serve_end();
}

/* Together they have room for all, and each gets what it has room for. */
static void fill(int steered)
{
    enum { room = 20 };
    struct herd_config config = reuseport_config(steered, 30000);
    config.worker_connections = room;
    serve_start(&config, workers);
    connect_all(-1);
    for (int slot = 0; slot < workers; slot++) {
        CHECK_EQ(serve_stats(slot).connections_open, room);
    }
    /* One more waits for the first that has room, wherever the hash has put it. */
    int waiting = connect_to(serve.address);
    CHECK_EQ(serve_greeting(waiting, 100), -1);
    close(clients[0]);
    CHECK(serve_greeting(waiting, 10000) >= 0);
    clients[0] = waiting;
    close_all(0);
    serve_end();
}

int main(void)
{
    test_begin(55);
    for (int steered = 0; steered <= reuseport_can_steer(); steered++) {
        rest(steered);
        fill(steered);
    }
    test_exit(0);
}
