/* Two processes with four worker threads each: kill -9 of one takes its threads along, the other
 * serves all, with the death reported or not; a new process takes the slots of the dead. */
#include "threads.h"

enum { processes = 2, count = 4, connections = 100, connections_most = 600 };

static void kill_one(uint32_t mode, int reported)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[connections_most], slot;
    config.mode = mode;
    config.accept_delay_ms = 300;
    threads_start(&config, processes, count);
    int made = threads_connect_to_all(clients, connections, connections_most);
    pid_t dead = serve.pids[0];
    for (slot = 0; slot < count; slot++) {
        serve.pids[slot] = 0;
        SHARED_SET(threads_shared->tids[slot], 0);
    }
    test_kill(dead);
    if (reported) {
        int freed = herd_reap(serve.herd, dead); /* another worker may have found some before */
        CHECK(freed >= 0 && freed <= count);
        CHECK_EQ(serve_total().workers, count);
    }
    for (int i = 0; i < connections; i++) {
        int fd = serve_connect(&slot);
        CHECK(slot >= count);
        close(fd);
    }
    for (int i = 0; i < made; i++) {
        close(clients[i]);
    }
    CHECK_EQ(herd_free_slots(serve.herd), count);
    CHECK_EQ(serve_total().workers, count);
    WAIT_UNTIL(serve_total().reaps == (uint64_t)count, 10000); /* counted once they are free */
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);

    threads_fork(0, count);
    WAIT_UNTIL(serve_total().workers == processes * count, 10000);
    threads_settle();
    made = threads_connect_to_all(clients, connections, connections_most);
    for (int i = 0; i < made; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    threads_end();
}

int main(void)
{
    test_begin(55);
    for (int reported = 0; reported < 2; reported++) {
        kill_one(HERD_MODE_EXCLUSIVE, reported);
        kill_one(HERD_MODE_MUTEX, reported);
        kill_one(HERD_MODE_REUSEPORT, reported);
    }
    test_exit(0);
}
