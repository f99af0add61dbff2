/* With 64 slots and 3 workers, none of them on slot 0, every connection is served, before the first
 * worker, while they end one after the other, and when others take other slots. */
#include "reuseport.h"

enum { slots = 64, connections = 200 };

static const int used[] = {5, 17, 63};

static void serve_all(int from_backlog)
{
    int clients[connections], slot;
    for (int i = 0; i < connections; i++) {
        clients[i] = connect_to(serve.address);
        if (!from_backlog) {
            slot = serve_greeting(clients[i], 10000);
            CHECK(slot >= 0 && serve.pids[slot] > 0);
        }
    }
    if (from_backlog) {
        WAIT_UNTIL(waiting_connections(serve.herd, 0) == connections, 10000);
        for (int i = 0; i < 3; i++) {
            serve_fork(used[i]);
        }
        for (int i = 0; i < connections; i++) {
            CHECK(serve_greeting(clients[i], 10000) >= 0);
        }
        serve_settle();
    }
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
}

static void few_workers(int steered)
{
    struct herd_config config = reuseport_config(steered, 30000); /* the safety net must not help */
    serve_prepare(&config, slots);
    CHECK_EQ(herd_is_steered(serve.herd), steered);
    serve_all(1);
    serve_all(0);
    for (int i = 0; i < 3; i++) {
        CHECK(SHARED_GET(serve.shared->accepted[used[i]]) > 0);
    }
    /* The next generation, as in a reload, while the old one ends. */
    serve_fork(30);
    serve_settle();
    for (int i = 0; i < 3; i++) {
        kill(serve.pids[used[i]], i == 1 ? SIGKILL : SIGTERM);
        CHECK_EQ(test_join(serve.pids[used[i]]), i == 1 ? 1000 + SIGKILL : 0);
        if (i == 1) {
            CHECK_CODE(herd_reap(serve.herd, serve.pids[used[i]]), 1);
        }
        serve.pids[used[i]] = 0;
        serve_all(0);
    }
    serve_end();
}

/* A worker that has begun, and then one that was made and never has a turn: what the hash sends to its
 * socket is served at once by the one that sleeps beside it. */
static void new_ones_are_known(int has_a_turn)
{
    enum { others = 12, each = 2 };
    struct herd_config config = reuseport_config(0, 30000); /* the safety net must not help */
    serve_prepare(&config, others + 1);
    serve_fork(0);
    serve_settle();
    for (int slot = 1; slot <= others; slot++) {
        int clients[each];
        pid_t pid;
        if (has_a_turn) {
            serve_fork(slot);
            serve_settle();
            pid = serve.pids[slot];
            serve.pids[slot] = 0;
            kill(pid, SIGSTOP);
            WAIT_UNTIL(process_state(pid) == 'T', 5000);
        } else if ((pid = test_fork()) == 0) {
            struct herd_worker *worker;
            CHECK_CODE(herd_worker_create(serve.herd, slot, &worker), 0);
            SHARED_SET(serve.shared->ready[slot], getpid());
            for (;;) {
                pause();
            }
        }
        WAIT_UNTIL(SHARED_GET(serve.shared->ready[slot]) == pid, 5000);
        for (int i = 0; i < each; i++) {
            clients[i] = connect_to(serve.address);
            CHECK_EQ(serve_greeting(clients[i], 10000), 0);
        }
        kill(pid, SIGKILL);
        CHECK_EQ(test_join(pid), 1000 + SIGKILL);
        CHECK_EQ(herd_reap(serve.herd, pid), 1);
        for (int i = 0; i < each; i++) {
            close(clients[i]);
        }
        serve_settle();
    }
    serve_end();
}

int main(void)
{
    test_begin(55);
    new_ones_are_known(1);
    new_ones_are_known(0);
    for (int steered = 0; steered <= reuseport_can_steer(); steered++) {
        few_workers(steered);
    }
    test_exit(0);
}
