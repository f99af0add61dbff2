/* A worker that is blocked in a handler keeps no new client from being accepted while another one is
 * idle: in the accept callback, in an event, and in the host's own work after herd_unlock, whether
 * the library delivers connections or the host takes them with herd_accept. */
#include "right.h"

enum { workers = 4, block_ms = 200, most_ms = 100, far_ms = 30000, connections = 400, every = 100,
       rounds = 5 };

static void block(struct herd_worker *worker)
{
    (void)worker;
    sleep_ms(block_ms);
}

/* Not so often that all workers are blocked at a time. */
static void block_some(struct herd_worker *worker, int slot)
{
    (void)worker;
    (void)slot;
    if (SHARED_ADD(serve.shared->knob, 1) % every == 0) {
        sleep_ms(block_ms);
    }
}

/* Whether a worker is on its way: it was woken, and the busy machine has not run it yet. */
static int any_runs(void)
{
    int runs = 0;
    for (int slot = 0; slot < workers; slot++) {
        runs = runs || process_state(serve.pids[slot]) == 'R';
    }
    return runs;
}

/* How long a new connection waits in the backlog, in ms. Fails if it is long and nobody comes. */
static double accept_wait_ms(int *client)
{
    uint64_t wanted = serve_total().accepted + 1;
    int64_t began_us = now_us(), waited_us = 0;
    *client = connect_to(serve.address);
    while (serve_total().accepted < wanted) {
        waited_us = now_us() - began_us;
        CHECK(waited_us < most_ms * 1000 || any_runs());
        sleep_ms(1);
    }
    return (double)waited_us / 1000;
}

/* Every 100th accept callback blocks its worker; then an event does so for each in turn. */
static void callbacks_block(const struct right_case *c)
{
    struct herd_config config = right_config(c, far_ms);
    int clients[connections];
    double worst_ms = 0, worst_event_ms = 0;
    serve.on_accept = block_some;
    serve.on_request = block;
    serve_start(&config, workers);
    for (int i = 0; i < connections; i++) {
        double waited_ms = accept_wait_ms(&clients[i]);
        worst_ms = waited_ms > worst_ms ? waited_ms : worst_ms;
    }
    for (int i = 0; i < connections; i++) {
        CHECK(serve_greeting(clients[i], 20000) >= 0);
    }
    serve.on_accept = NULL;
    for (int round = 0; round < rounds; round++) {
        int next, slot;
        CHECK_EQ(send(clients[round], "x", 1, MSG_NOSIGNAL), 1);
        for (int i = 0; i < 5; i++) {
            double waited_ms = accept_wait_ms(&next);
            worst_event_ms = waited_ms > worst_event_ms ? waited_ms : worst_event_ms;
            slot = serve_greeting(next, 20000);
            CHECK(slot >= 0);
            close(next);
        }
        char byte;
        CHECK_EQ(recv(clients[round], &byte, 1, 0), 1);
    }
    printf("%s: worst wait behind accept callbacks %.1f ms, behind events %.1f ms\n", c->name,
           worst_ms, worst_event_ms);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    serve_end();
    serve.on_accept = NULL;
    serve.on_request = NULL;
}

/* --- the host takes connections and works on them itself ------------------------------------ */

/* A worker by the hand-written recipe, without callbacks: it blocks on each connection. */
static void pull_run(int slot)
{
    struct herd_worker *worker;
    CHECK_CODE(herd_worker_create(serve.herd, slot, &worker), 0);
    SHARED_SET(serve.shared->ready[slot], getpid());
    for (;;) {
        struct herd_accepted accepted;
        accepted.size = sizeof accepted;
        CHECK(herd_trylock(worker) >= 0);
        CHECK(herd_process_events(worker, -1, HERD_POST_EVENTS) >= 0);
        int code = herd_accept(worker, &accepted);
        CHECK(code == 0 || code == -EAGAIN);
        CHECK(herd_unlock(worker) >= 0);
        if (code == 0) {
            sleep_ms(block_ms);
            close(accepted.fd);
            CHECK(herd_conn_closed(worker) >= 0);
        }
        CHECK(herd_process_posted(worker, HERD_POSTED_EVENTS) >= 0);
    }
}

static void host_blocks(const struct right_case *c)
{
    struct herd_config config = right_config(c, far_ms);
    double worst_ms = 0;
    int clients[workers];
    serve_prepare(&config, workers);
    CHECK_CODE(herd_remove_listener(serve.herd, 0), 0);
    serve.address = address_of(serve.herd, new_listener(serve.herd, NULL, NULL));
    for (int slot = 0; slot < workers; slot++) {
        serve.pids[slot] = test_fork();
        if (serve.pids[slot] == 0) {
            pull_run(slot);
        }
    }
    for (int round = 0; round < rounds; round++) {
        serve_settle();
        /* One fewer than workers: one is always idle. */
        for (int i = 0; i < workers - 1; i++) {
            double waited_ms = accept_wait_ms(&clients[i]);
            worst_ms = waited_ms > worst_ms ? waited_ms : worst_ms;
        }
        for (int i = 0; i < workers - 1; i++) {
            char byte;
            CHECK_EQ(recv(clients[i], &byte, 1, 0), 0);
            close(clients[i]);
        }
    }
    printf("%s: worst wait behind the host's own work %.1f ms\n", c->name, worst_ms);
    for (int slot = 0; slot < workers; slot++) {
        serve_crash(slot);
    }
    serve_end();
}

int main(void)
{
    test_begin(55);
    for (int i = 0; i < right_case_count; i++) {
        callbacks_block(&right_cases[i]);
    }
    for (int i = 0; i < right_case_count; i++) {
        host_blocks(&right_cases[i]);
    }
    test_exit(0);
}
