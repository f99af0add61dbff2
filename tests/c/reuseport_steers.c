/* In REUSEPORT with steering a new connection goes to the least loaded worker: Jain's index of 2000
 * connections that stay is at least 0.99 with 4 workers. A load that the host sets counts, and a worker
 * that is busy or does not accept is left out. */
#include "reuseport.h"

enum { workers = 4, many = 2000, some = 120 };

static int clients[many], taken[workers];

static void open_clients(int count)
{
    memset(taken, 0, sizeof taken);
    for (int i = 0; i < count; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        taken[slot]++;
    }
    printf("taken: %d %d %d %d, %llu wasted wake-ups\n", taken[0], taken[1], taken[2], taken[3],
           (unsigned long long)serve_total().wasted_wakeups);
}

static void close_clients(int count)
{
    for (int i = 0; i < count; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 20000);
}

static void equal_loads(void)
{
    struct herd_config config = reuseport_config(1, 0);
    double squares = 0;
    serve_start(&config, workers);
    open_clients(many);
    for (int slot = 0; slot < workers; slot++) {
        squares += (double)taken[slot] * taken[slot];
    }
    double jain = (double)many * many / (workers * squares);
    printf("Jain's index %.5f\n", jain);
    CHECK(jain >= 0.99);
    CHECK(serve_total().wasted_wakeups <= many / 100);
    close_clients(many);
    serve_end();
}

static void count_triple(struct herd_worker *worker, int slot)
{
    if (slot == 1) {
        CHECK_CODE(herd_set_load(worker, 3 * (int64_t)SHARED_GET(serve.shared->accepted[1])), 0);
    }
}

/* Whether they are spread by the load that the host says. */
static int follow_hosts_load(void)
{
    struct herd_config config = reuseport_config(1, 0);
    serve.on_accept = count_triple;
    serve_start(&config, workers);
    open_clients(some);
    /* A tenth: a third of each of the others. */
    int follow = taken[1] >= some / 10 - 3 && taken[1] <= some / 10 + 3;
    for (int slot = 0; slot < workers; slot++) {
        follow &= slot == 1 || (taken[slot] >= some * 3 / 10 - 5 && taken[slot] <= some * 3 / 10 + 5);
    }
    close_clients(some);
    serve_end();
    serve.on_accept = NULL;
    return follow;
}

/* --- workers that are left out -------------------------------------------------------------- */

static void block(struct herd_worker *worker)
{
    (void)worker;
    SHARED_ADD(serve.shared->knob, 1);
    while (SHARED_GET(serve.shared->knob) == 1) {
        sleep_ms(1);
    }
}

/* A worker that is awake just when a connection is steered to it can lose it to one that sleeps beside it. Returns
 * how many were taken so; -1: the first two connections were. */
static int busy_and_resting(void)
{
    enum { few = 8 };
    struct herd_config config = reuseport_config(1, 30000); /* the safety net must not be what helps */
    int first, second, slot, others[few];
    serve.on_request = block;
    serve_start(&config, 3);
    int busy = serve_connect(&first), drained = serve_connect(&second);
    if (first == second) {
        close(busy);
        close(drained);
        serve_end();
        return -1;
    }
    CHECK_EQ(send(busy, "x", 1, MSG_NOSIGNAL), 1);
    WAIT_UNTIL(SHARED_GET(serve.shared->knob) == 1, 5000);
    kill(serve.pids[second], SIGTERM);
    WAIT_UNTIL(serve_stats(second).handovers > 0, 5000);
    uint64_t reorders = serve_total().reorders;
    int third = 3 - first - second;
    for (int i = 0; i < few; i++) {
        WAIT_UNTIL(process_sleeps(serve.pids[third]), 5000);
        others[i] = serve_connect(&slot);
        CHECK_EQ(slot, third);
    }
    /* Steered there, not taken out of the others' queues. */
    int others_took = (int)(serve_total().reorders - reorders);
    SHARED_SET(serve.shared->knob, 2);
    close(busy);
    close(drained);
    for (int i = 0; i < few; i++) {
        close(others[i]);
    }
    CHECK_EQ(test_join(serve.pids[second]), 0);
    serve.pids[second] = 0;
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_end();
    serve.on_request = NULL;
    return others_took;
}

int main(void)
{
    struct rlimit files;
    int follow, others_took;
    test_begin(55);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (!reuseport_can_steer()) {
        test_skip("bpf(2) is refused here");
    }
    equal_loads();
    CHECK_IN_SOME_TRY(follow = follow_hosts_load(), follow);
    CHECK_IN_SOME_TRY(others_took = busy_and_resting(), others_took == 0);
    test_exit(0);
}
