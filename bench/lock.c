/*
 * lock [ROUNDS [PAIRS]]: what a trylock and unlock costs, beside a bare compare-and-swap pair and a pthread mutex.
 *
 * The worker is one of a MUTEX herd of two, nobody else is there, and its listener stays armed. Rounds of the
 * contenders take turns. Prints one line a contender: name, median ns a pair, least, most.
 */
#define _GNU_SOURCE
#include "bare_lock.h"
#include <herd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROUNDS_MAX = 999 };
static struct shared {
    uint64_t word __attribute__((aligned(128)));
    pthread_mutex_t mutex __attribute__((aligned(128)));
} *shared;
static struct herd_worker *worker;
static long failures;

static void herd_pair(long pairs)
{
    for (long i = 0; i < pairs; i++)
        failures += (herd_trylock(worker) != 1) + (herd_unlock(worker) != 1);
}

static void bare_pair(long pairs)
{
    for (long i = 0; i < pairs; i++)
        failures += !bare_trylock(&shared->word, 1) + !bare_unlock(&shared->word, 1);
}

static void store_pair(long pairs)
{
    for (long i = 0; i < pairs; i++)
        failures += !bare_trylock(&shared->word, 1) + !bare_unlock_by_store(&shared->word);
}

static void mutex_pair(long pairs)
{
    for (long i = 0; i < pairs; i++)
        failures += (pthread_mutex_trylock(&shared->mutex) != 0) + (pthread_mutex_unlock(&shared->mutex) != 0);
}

static const struct contender {
    const char *name;
    void (*run)(long pairs);
} contenders[] = { { "herd", herd_pair }, { "bare", bare_pair }, { "store", store_pair }, { "pthread", mutex_pair } };
enum { CONTENDERS = sizeof contenders / sizeof contenders[0] };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void on_accept(struct herd_worker *w, int fd, const struct sockaddr *peer, uint32_t length, void *data)
{
    (void)w, (void)fd, (void)peer, (void)length, (void)data;
}

int main(int argc, char **argv)
{
    static double ns[CONTENDERS][ROUNDS_MAX];
    const int rounds = argc > 1 ? atoi(argv[1]) : 21;
    const long pairs = argc > 2 ? atol(argv[2]) : 500000;
    const char *const only = argc > 3 ? argv[3] : NULL; /* for counting instructions */
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    if (rounds < 1 || rounds > ROUNDS_MAX || herd_create(&config, &herd) < 0
        || herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL) < 0
        || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0) {
        fputs("lock: no herd\n", stderr);
        return EXIT_FAILURE;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &attributes);

    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < CONTENDERS; i++) {
            if (only != NULL && strcmp(only, contenders[i].name) != 0)
                continue;
            const double begin = now_ns();
            contenders[i].run(pairs);
            ns[i][round] = (now_ns() - begin) / (double)pairs;
        }
    for (int i = 0; i < CONTENDERS; i++) {
        qsort(ns[i], (size_t)rounds, sizeof ns[i][0], compare);
        printf("%s %.2f %.2f %.2f\n", contenders[i].name, ns[i][rounds / 2], ns[i][0], ns[i][rounds - 1]);
    }
    if (failures > 0)
        fprintf(stderr, "lock: %ld calls failed\n", failures);
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
