/* Workers can be threads of one process: the same wake-ups, all served, and nothing is left behind. */
#include "threads.h"

enum { workers = 4, connections = 40, gap_ms = 23, rounds = 2 };

struct thread {
    pthread_t thread;
    struct herd_worker *worker;
};

static struct thread threads[workers];

static void *run_worker(void *data)
{
    struct thread *thread = (struct thread *)data;
    CHECK_CODE(herd_worker_create(serve.herd, HERD_ANY_SLOT, &thread->worker), 0);
    SHARED_SET(threads_shared->tids[herd_worker_slot(thread->worker)], (pid_t)syscall(SYS_gettid));
    CHECK_CODE(herd_run(thread->worker), 0);
    return NULL;
}

/* Serves them one after the other. Returns the sleeps that it took, without those for the guard. */
static long long serve_all(void)
{
    int clients[connections], slot;
    long long sleeps = threads_settle();
    struct herd_stats before = serve_total();
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slot);
        sleep_ms(gap_ms);
    }
    sleeps = threads_settle() - sleeps;
    struct herd_stats after = serve_total();
    sleeps -= (long long)(after.guard_ticks - before.guard_ticks);
    printf("sleeps a connection: %.2f\n", (double)sleeps / connections);
    CHECK_EQ(after.accepted - before.accepted, connections);
    serve_check_waste(&before, &after);
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    return sleeps;
}

static void serve_with_threads(uint32_t mode, uint32_t balance)
{
    struct herd_config config = HERD_CONFIG_INIT;
    long long sleeps;
    config.mode = mode;
    config.balance = balance;
    threads_prepare(&config, workers);
    memset(threads, 0, sizeof threads);
    for (int i = 0; i < workers; i++) {
        serve.pids[i] = getpid();
        CHECK_EQ(pthread_create(&threads[i].thread, NULL, run_worker, &threads[i]), 0);
    }
    if (mode == HERD_MODE_MUTEX) {
        WAIT_UNTIL(serve_total().failed_tries >= workers - 1, 10000);
    }
    threads_settle();
    CHECK_EQ(serve_total().workers, workers);
    /* In HANDOFF the one that accepts wakes for it, and the one that serves. */
    int hop = mode == HERD_MODE_HANDOFF;
    CHECK_IN_SOME_TRY(sleeps = serve_all(),
                      sleeps * 2 >= connections && sleeps * 2 <= connections * (3 + 2 * hop));

    CHECK_CODE(herd_destroy(serve.herd), -EBUSY);
    /* Each hands over to the next, whichever has the right. */
    for (int i = 0; i < workers; i++) {
        int slot, client = serve_connect(&slot);
        close(client);
        WAIT_UNTIL(serve_total().connections_open == 0, 10000);
        CHECK_CODE((i % 2 ? herd_stop : herd_drain)(threads[i].worker), 0);
        CHECK_EQ(pthread_join(threads[i].thread, NULL), 0);
        CHECK_CODE(herd_worker_destroy(threads[i].worker), 0);
    }
    CHECK_EQ(serve_total().workers, 0);
    CHECK_CODE(herd_destroy(serve.herd), 0);
}

int main(void)
{
    test_begin(50);
    int fds = open_fds();
    for (int round = 0; round < rounds; round++) {
        serve_with_threads(HERD_MODE_MUTEX, HERD_BALANCE_PACK);
        serve_with_threads(HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD);
        serve_with_threads(HERD_MODE_HANDOFF, HERD_BALANCE_SPREAD);
        CHECK_EQ(open_fds(), fds);
    }
    test_exit(0);
}
