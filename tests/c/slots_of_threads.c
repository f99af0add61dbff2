/* Threads of one process that make and destroy workers as fast as they can each keep the slot they
   got: none is taken for dead. */
#include "check.h"

#include <pthread.h>

#define THREADS 4
#define LIVES 20000

static struct herd *herd;

static void *live_and_die(void *unused)
{
    (void)unused;
    for (int i = 0; i < LIVES; i++) {
        struct herd_worker *worker = NULL;
        int code = herd_worker_create(herd, HERD_ANY_SLOT, &worker);
        if (code == HERD_ENOSLOT) {
            continue;
        }
        CHECK_CODE(code, 0);
        CHECK(herd_run_once(worker, 0) >= 0);
        CHECK_CODE(herd_worker_destroy(worker), 0);
    }
    return NULL;
}

int main(void)
{
    test_begin(60);
    herd = new_herd(HERD_MODE_MUTEX, THREADS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, live_and_die, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    struct herd_stats stats = total_stats(herd);
    CHECK_EQ(stats.reaps, 0);
    CHECK_EQ(stats.workers, 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
