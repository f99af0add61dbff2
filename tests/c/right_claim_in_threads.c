/* R09, for workers that are threads: while one thread makes and ends workers, reports of deaths by
 * another thread or process of the herd free none of them, and count none as dead. */
#include "right.h"

#include <pthread.h>

enum { seconds = 2 };

static int stop;

static void *report(void *data)
{
    struct herd *herd = (struct herd *)data;
    while (!SHARED_GET(stop)) {
        CHECK(herd_reap(herd, getpid()) >= 0);
        CHECK(herd_free_slots(herd) >= 0);
    }
    return NULL;
}

int main(void)
{
    test_begin(50);
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 4);
    pthread_t thread;
    pid_t child = test_fork();
    if (child == 0) {
        report(herd);
    }
    CHECK_EQ(pthread_create(&thread, NULL, report, herd), 0);
    int64_t end_ms = now_ms() + seconds * 1000;
    unsigned made = 0;
    while (now_ms() < end_ms) {
        struct herd_worker *worker = new_worker(herd);
        CHECK(herd_run_once(worker, 0) >= 0);
        CHECK_CODE(herd_worker_destroy(worker), 0);
        made++;
    }
    SHARED_SET(stop, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    printf("%u workers made, %llu counted as dead\n", made, (unsigned long long)total_stats(herd).reaps);
    CHECK_EQ(total_stats(herd).reaps, 0);
    test_kill(child);
    CHECK_CODE(herd_free_slots(herd), 4);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
