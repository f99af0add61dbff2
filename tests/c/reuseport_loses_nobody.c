/* R22: 4 workers that do not accept, 40 connected clients. One worker stops, one is killed, both are
 * replaced, and a second start with the same address is tried beside them: no client is reset, and
 * all 40 are served. */
#include "reuseport.h"

enum { workers = 4, connections = 40 };

/* The test's word to its workers. */
enum { NOTHING_YET, FIRST_LEAVES, GO };

/* A worker that has its listeners armed and does nothing until it is told to. */
static void idle_run(int slot)
{
    CHECK_CODE(herd_worker_create(serve.herd, slot, &serve_worker), 0);
    CHECK_CODE(herd_run_once(serve_worker, 0), 0);
    SHARED_SET(serve.shared->ready[slot], getpid());
    int word;
    while ((word = SHARED_GET(serve.shared->knob)) != GO) {
        if (word == FIRST_LEAVES && slot == 0) {
            CHECK_CODE(herd_worker_destroy(serve_worker), 0);
            CHECK_CODE(herd_destroy(serve.herd), 0);
            test_exit(0);
        }
        sleep_ms(1);
    }
    CHECK_CODE(herd_run(serve_worker), 0);
    test_exit(0);
}

static void fork_idle(int slot)
{
    SHARED_SET(serve.shared->ready[slot], 0);
    serve.pids[slot] = test_fork();
    if (serve.pids[slot] == 0) {
        idle_run(slot);
    }
    WAIT_UNTIL(SHARED_GET(serve.shared->ready[slot]) == serve.pids[slot], 10000);
}

/* What a server does that checks its configuration, as `nginx -t`. */
static void check_only_start(const char *address)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd *second = new_herd(HERD_MODE_REUSEPORT, workers);
        CHECK_CODE(herd_listen(second, address, NULL, NULL, NULL), -EADDRINUSE);
        CHECK_CODE(herd_destroy(second), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
}

static void lose_nobody(int steered)
{
    struct herd_config config = reuseport_config(steered, 0);
    int clients[connections], by_slot[workers] = {0};
    serve_prepare(&config, workers);
    CHECK_EQ(herd_is_steered(serve.herd), steered);
    for (int slot = 0; slot < workers; slot++) {
        fork_idle(slot);
    }
    for (int i = 0; i < connections; i++) {
        clients[i] = connect_to(serve.address);
    }
    WAIT_UNTIL(waiting_connections(serve.herd, 0) == connections, 5000);
    for (int slot = 0; slot < workers; slot++) {
        by_slot[slot] = waiting_at(herd_slot_listener_fd(serve.herd, 0, slot));
    }
    printf("%s: waiting: %d %d %d %d\n", reuseport_names[steered], by_slot[0], by_slot[1],
           by_slot[2], by_slot[3]);
    CHECK(by_slot[0] > 0 && by_slot[1] > 0); /* else nothing can be lost */

    SHARED_SET(serve.shared->knob, FIRST_LEAVES);
    CHECK_EQ(test_join(serve.pids[0]), 0);
    serve_report(1, serve_crash(1));
    check_only_start(serve.address);
    SHARED_SET(serve.shared->knob, GO);
    serve_fork(0);
    serve_fork(1);
    int served[SERVE_MAX_WORKERS] = {0};
    for (int i = 0; i < connections; i++) {
        int slot = serve_greeting(clients[i], 10000);
        CHECK(slot >= 0);
        served[slot]++;
        serve_echo(clients[i]);
    }
    printf("%s: served: %d %d %d %d\n", reuseport_names[steered], served[0], served[1], served[2],
           served[3]);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    for (int slot = 0; slot < workers; slot++) {
        serve_crash(slot);
    }
    CHECK_CODE(herd_destroy(serve.herd), 0);
}

int main(void)
{
    test_begin(50);
    lose_nobody(0);
    if (reuseport_can_steer()) {
        lose_nobody(1);
    }
    test_exit(0);
}
