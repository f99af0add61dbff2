/* Events posted by other threads wake a worker that waits for ever; each post is followed by a run,
   and one that was deleted never runs. */
#include "check.h"

#include <pthread.h>
#include <sys/eventfd.h>

#define THREADS 4
#define EACH 50
#define ROUNDS 200

static struct herd_worker *worker;
static struct herd_event events[THREADS][EACH];
static int posts[THREADS][EACH], runs[THREADS][EACH];
static int shared_posts, shared_runs, seen_posts, never_runs, finished;
static struct herd_event shared, done;

static void on_event(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    CHECK(of == worker);
    CHECK_EQ(ready, 0);
    SHARED_ADD(*(int *)event->data, 1);
}

static void on_shared(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)event;
    (void)ready;
    /* What was posted before the handler began is covered by this run. */
    seen_posts = SHARED_GET(shared_posts);
    shared_runs++;
}

static void on_done(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)event;
    (void)ready;
    SHARED_ADD(finished, 1);
}

static void on_never(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)event;
    (void)ready;
    never_runs++;
}

/* Posts each of its events anew once it has run; the shared one as fast as it can. */
static void *post_all(void *arg)
{
    int thread = (int)(intptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            WAIT_UNTIL(SHARED_GET(runs[thread][i]) == posts[thread][i], 20000);
            posts[thread][i]++;
            CHECK_EQ(herd_post_remote(worker, &events[thread][i]), 1);
            SHARED_ADD(shared_posts, 1);
            int posted = herd_post_remote(worker, &shared);
            CHECK(posted == 0 || posted == 1);
        }
    }
    while (herd_post_remote(worker, &done) == 0) {
        sleep_ms(1);
    }
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[THREADS];
    CHECK_CODE(herd_event_init(&shared, on_shared, NULL), 0);
    CHECK_CODE(herd_event_init(&done, on_done, NULL), 0);
    for (int thread = 0; thread < THREADS; thread++) {
        for (int i = 0; i < EACH; i++) {
            CHECK_CODE(herd_event_init(&events[thread][i], on_event, &runs[thread][i]), 0);
        }
    }
    for (int thread = 0; thread < THREADS; thread++) {
        CHECK_EQ(pthread_create(&threads[thread], NULL, post_all, (void *)(intptr_t)thread), 0);
    }
    while (SHARED_GET(finished) < THREADS) {
        CHECK(herd_run_once(worker, -1) >= 0);
    }
    for (int thread = 0; thread < THREADS; thread++) {
        CHECK_EQ(pthread_join(threads[thread], NULL), 0);
    }
    for (int turn = 0; turn < 3; turn++) {
        CHECK(herd_run_once(worker, 0) >= 0);
    }
    for (int thread = 0; thread < THREADS; thread++) {
        for (int i = 0; i < EACH; i++) {
            CHECK_EQ(posts[thread][i], ROUNDS);
            CHECK_EQ(runs[thread][i], ROUNDS);
        }
    }
    CHECK_EQ(shared_posts, THREADS * EACH * ROUNDS);
    CHECK_EQ(seen_posts, shared_posts);
    CHECK(shared_runs > 0 && shared_runs <= shared_posts);
}

/* A single thread posts a single event to a worker that sleeps: nobody else would wake it. */
static void *post_one_by_one(void *arg)
{
    static int count;
    (void)arg;
    CHECK_CODE(herd_event_init(&shared, on_event, &count), 0);
    for (int i = 1; i <= 100; i++) {
        CHECK_EQ(herd_post_remote(worker, &shared), 1);
        WAIT_UNTIL(SHARED_GET(count) == i, 10000);
    }
    CHECK_EQ(herd_post_remote(worker, &done), 1);
    return NULL;
}

static void wake_ups(void)
{
    pthread_t thread;
    CHECK_CODE(herd_event_init(&done, on_done, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, post_one_by_one, NULL), 0);
    while (SHARED_GET(finished) == 0) {
        CHECK(herd_run_once(worker, -1) >= 0);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    finished = 0;
}

/* Several posts before the handler runs are one. */
static void coalescing(void)
{
    int count = 0;
    struct herd_event event;
    CHECK_CODE(herd_event_init(&event, on_event, &count), 0);
    CHECK_EQ(herd_post_remote(worker, &event), 1);
    CHECK_EQ(herd_post_remote(worker, &event), 0);
    CHECK_EQ(herd_post_remote(worker, &event), 0);
    CHECK_CODE(herd_run_once(worker, -1), 1);
    CHECK_CODE(herd_run_once(worker, 0), 0);
    CHECK_EQ(count, 1);
    /* With a post of the worker's own thread as well. */
    CHECK_EQ(herd_post_remote(worker, &event), 1);
    CHECK_EQ(herd_post(worker, &event, HERD_POSTED_EVENTS), 1);
    CHECK(herd_run_once(worker, -1) >= 1);
    CHECK(herd_run_once(worker, 0) >= 0);
    CHECK(count >= 2);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_EVENTS), 0);
}

static void deleted(void)
{
    struct herd_event event, other;
    int count = 0;
    CHECK_CODE(herd_event_init(&event, on_never, NULL), 0);
    CHECK_CODE(herd_event_init(&other, on_event, &count), 0);
    CHECK_EQ(herd_post_remote(worker, &event), 1);
    CHECK_EQ(herd_post_remote(worker, &other), 1);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    memset(&event, 0xdb, sizeof event);
    CHECK_CODE(herd_run_once(worker, -1), 1);
    CHECK_EQ(count, 1);

    CHECK_CODE(herd_event_init(&event, on_never, NULL), 0);
    CHECK_EQ(herd_post_remote(worker, &other), 1);
    CHECK_EQ(herd_post_remote(worker, &event), 1);
    CHECK_EQ(herd_unpost(worker, &event), 1);
    CHECK_EQ(herd_unpost(worker, &event), 0);
    memset(&event, 0xdb, sizeof event);
    CHECK_CODE(herd_run_once(worker, -1), 1);
    CHECK_EQ(count, 2);

    /* One that is added as well goes altogether. */
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(fd >= 0);
    CHECK_CODE(herd_event_init(&event, on_never, NULL), 0);
    CHECK_CODE(herd_event_add(worker, &event, fd, HERD_READ), 0);
    CHECK_EQ(herd_post_remote(worker, &event), 1);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    memset(&event, 0xdb, sizeof event);
    CHECK_CODE(herd_run_once(worker, 0), 0);
    close(fd);
    CHECK_EQ(never_runs, 0);
}

int main(void)
{
    test_begin(50);
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    worker = new_worker(herd);
    coalescing();
    deleted();
    wake_ups();
    many_threads();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
