/* Workers can be threads of one process: the same wake-ups, all served, and nothing is left behind. */
#include "serve.h"

#include <pthread.h>
#include <sys/syscall.h>

enum { workers = 4, connections = 40, gap_ms = 23, rounds = 2 };

struct thread {
    pthread_t thread;
    struct herd_worker *worker;
    pid_t tid;
};

static struct thread threads[workers];

static void *run_worker(void *data)
{
    struct thread *thread = (struct thread *)data;
    CHECK_CODE(herd_worker_create(serve.herd, HERD_ANY_SLOT, &thread->worker), 0);
    SHARED_SET(thread->tid, (pid_t)syscall(SYS_gettid));
    CHECK_CODE(herd_run(thread->worker), 0);
    return NULL;
}

static long long sleeps_of(pid_t tid)
{
    char path[64], line[256];
    long long sleeps = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)tid);
    FILE *status = fopen(path, "re");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "voluntary_ctxt_switches: %lld", &sleeps) == 1) {
            break;
        }
    }
    fclose(status);
    CHECK(sleeps >= 0);
    return sleeps;
}

static long long sleeps_of_all(void)
{
    long long sum = 0;
    for (int i = 0; i < workers; i++) {
        sum += sleeps_of(threads[i].tid);
    }
    return sum;
}

static void serve_with_threads(uint32_t mode, uint32_t balance)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[connections], slot;
    config.mode = mode;
    config.balance = balance;
    serve_prepare(&config, workers);
    memset(threads, 0, sizeof threads);
    for (int i = 0; i < workers; i++) {
        CHECK_EQ(pthread_create(&threads[i].thread, NULL, run_worker, &threads[i]), 0);
    }
    for (int i = 0; i < workers; i++) {
        WAIT_UNTIL(SHARED_GET(threads[i].tid) != 0, 10000);
    }
    if (mode == HERD_MODE_MUTEX) {
        WAIT_UNTIL(serve_total().failed_tries >= workers - 1, 10000);
    }
    sleep_ms(50);

    struct herd_stats before = serve_total();
    CHECK_EQ(before.workers, workers);
    long long sleeps = sleeps_of_all();
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slot);
        sleep_ms(gap_ms);
    }
    struct herd_stats after = serve_total();
    sleeps = sleeps_of_all() - sleeps - (long long)(after.guard_ticks - before.guard_ticks);
    printf("sleeps a connection: %.2f\n", (double)sleeps / connections);
    /* In HANDOFF the one that accepts wakes for it, and the one that serves. */
    int hop = mode == HERD_MODE_HANDOFF;
    CHECK(sleeps * 2 >= connections && sleeps * 2 <= connections * (3 + 2 * hop));
    CHECK_EQ(after.accepted, connections);
    serve_check_waste(&before, &after);
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);

    CHECK_CODE(herd_destroy(serve.herd), -EBUSY);
    /* Each hands over to the next, whichever has the right. */
    for (int i = 0; i < workers; i++) {
        int client = serve_connect(&slot);
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
