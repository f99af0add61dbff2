/*
 * serve.h's server with several worker threads in a process: slots first to first + count - 1 are its
 * threads. SIGUSR1 makes it obey `drain`, SIGINT ends it. Includes serve.h.
 */
#ifndef THREADS_H
#define THREADS_H

#include "serve.h"

#include <pthread.h>
#include <sys/syscall.h>

static struct threads_shared {
    pid_t tids[SERVE_MAX_WORKERS]; /* 0: there is no such thread now */
    unsigned drain[SERVE_MAX_WORKERS];   /* 1: to be drained; 2: it was told */
    unsigned drained[SERVE_MAX_WORKERS]; /* herd_run has returned */
} *threads_shared;

static struct herd_worker *threads_workers[SERVE_MAX_WORKERS];

CHECK_HELPER void *threads_run(void *data)
{
    int slot = (int)(intptr_t)data;
    SHARED_SET(threads_shared->tids[slot], (pid_t)syscall(SYS_gettid));
    CHECK_CODE(herd_run(threads_workers[slot]), 0);
    SHARED_SET(threads_shared->drained[slot], 1u);
    return NULL;
}

__attribute__((noreturn)) CHECK_HELPER void threads_process(int first, int count, const sigset_t *signals)
{
    pthread_t threads[SERVE_MAX_WORKERS];
    for (int i = 0; i < count; i++) {
        CHECK_CODE(herd_worker_create(serve.herd, first + i, &threads_workers[first + i]), 0);
    }
    for (int i = 0; i < count; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, threads_run, (void *)(intptr_t)(first + i)), 0);
    }
    while (sigwaitinfo(signals, NULL) == SIGUSR1) {
        for (int slot = first; slot < first + count; slot++) {
            if (SHARED_GET(threads_shared->drain[slot]) == 1) {
                CHECK_CODE(herd_drain(threads_workers[slot]), 0);
                SHARED_SET(threads_shared->drain[slot], 2u);
            }
        }
    }
    for (int i = 0; i < count; i++) {
        CHECK_CODE(herd_stop(threads_workers[first + i]), 0);
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < count; i++) {
        CHECK_CODE(herd_worker_destroy(threads_workers[first + i]), 0);
    }
    test_exit(0);
}

/* Starts a process; serve.pids of all its slots is its pid. */
CHECK_HELPER void threads_fork(int first, int count)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t pid = test_fork(); /* the child has them blocked too */
    if (pid == 0) {
        threads_process(first, count, &signals);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (int slot = first; slot < first + count; slot++) {
        serve.pids[slot] = pid;
    }
}

/* Sleeps of all worker threads so far; -1: one does not sleep, or is not there yet. */
CHECK_HELPER long long threads_sleeps(void)
{
    long long sum = 0;
    for (int slot = 0; slot < serve.workers; slot++) {
        long long sleeps = 0;
        if (serve.pids[slot] == 0 || SHARED_GET(threads_shared->drained[slot])) {
            continue;
        }
        pid_t tid = SHARED_GET(threads_shared->tids[slot]);
        if (tid == 0 || thread_state(serve.pids[slot], tid, &sleeps) != 'S') {
            return -1;
        }
        sum += sleeps;
    }
    return sum;
}

/* Waits until all threads are in their wait and have nothing to do. Returns their sleeps. */
CHECK_HELPER long long threads_settle(void)
{
    int64_t deadline = now_ms() + 20000 * test_scale();
    for (;;) {
        long long sleeps = threads_sleeps();
        sleep_ms(5);
        if (sleeps >= 0 && threads_sleeps() == sleeps) {
            return sleeps;
        }
        CHECK(now_ms() < deadline);
    }
}

/* The herd without its threads. */
CHECK_HELPER void threads_prepare(const struct herd_config *config, int workers)
{
    serve_prepare(config, workers);
    if (threads_shared == NULL) {
        threads_shared = (struct threads_shared *)shared_memory(sizeof *threads_shared);
    }
    memset(threads_shared, 0, sizeof *threads_shared);
}

/* `processes` of `count` threads each. */
CHECK_HELPER void threads_start(const struct herd_config *config, int processes, int count)
{
    threads_prepare(config, processes * count);
    for (int process = 0; process < processes; process++) {
        threads_fork(process * count, count);
    }
    WAIT_UNTIL(serve_total().workers == (uint32_t)(processes * count), 20000);
    threads_settle();
}

CHECK_HELPER void threads_end(void)
{
    pid_t before = 0;
    for (int slot = 0; slot < serve.workers; slot++) {
        pid_t pid = serve.pids[slot];
        if (pid != 0 && pid != before) {
            kill(pid, SIGINT);
            CHECK_EQ(test_join(pid), 0);
        }
        before = pid;
        serve.pids[slot] = 0;
    }
    CHECK_EQ(serve_total().workers, 0);
    serve_workers_count();
    CHECK_CODE(herd_destroy(serve.herd), 0);
}

/* At least so many connections, and more until each thread has one. Returns their number. */
CHECK_HELPER int threads_connect_to_all(int *clients, int least, int most)
{
    int made = 0, slot = 0;
    while (made < least || slot < serve.workers) {
        CHECK(made < most);
        clients[made++] = serve_connect(&slot);
        for (slot = 0; slot < serve.workers && serve_stats(slot).connections_open > 0; slot++) {
        }
    }
    return made;
}

/* So many threads, of one process and of two, in each mode that coordinates them. */
CHECK_HELPER void threads_in_all_forms(void (*scenario)(void), int workers)
{
    static const struct {
        uint32_t mode;
        const char *name;
    } modes[] = {
        {HERD_MODE_EXCLUSIVE, "exclusive"},
        {HERD_MODE_MUTEX, "mutex"},
        {HERD_MODE_REUSEPORT, "reuseport"},
    };
    enum { mode_count = sizeof modes / sizeof modes[0] };
    for (int form = 0; form < 2 * mode_count; form++) {
        struct herd_config config = HERD_CONFIG_INIT;
        int processes = form < mode_count ? 1 : 2;
        config.mode = modes[form % mode_count].mode;
        threads_start(&config, processes, workers / processes);
        printf("%s, %d process(es) of %d threads\n", modes[form % mode_count].name, processes,
               workers / processes);
        scenario();
        threads_end();
    }
}

#endif
