/* A child makes a worker and uses it, whatever calls of the library other threads of its parent were in
   when it was forked. timeout: 120 */
#include "check.h"
#include "modes.h"

#include <pthread.h>

enum { children = 40, slots = 8, bound_s = 20 };

static struct herd *herd;
static uint32_t mode;
static unsigned ends;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t peer_length, void *data)
{
    (void)worker;
    (void)peer;
    (void)peer_length;
    ++*(int *)data;
    close(fd);
}

static void on_handoff(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t peer_length,
                       const void *tag, size_t tag_bytes, void *data)
{
    (void)tag;
    (void)tag_bytes;
    on_accept(worker, fd, peer, peer_length, data);
}

/* --- What the threads of the parent call -------------------------------------------------- */

static int accepted; /* the process's own */

/* A change of the listeners by one process keeps the others from making workers. */
static int shares_listeners(void)
{
    return mode == HERD_MODE_MUTEX || mode == HERD_MODE_HANDOFF;
}

static void look(void)
{
    char address[64];
    CHECK(herd_listener_address(herd, 0, address, sizeof address) > 0);
    CHECK(herd_listener_fd(herd, 0) >= 0);
    CHECK(herd_slot_listener_fd(herd, 1, slots - 1) >= 0);
    CHECK(total_stats(herd).slots == slots);
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)worker;
    (void)timer;
}

/* Memory that a worker has for its timers grows and moves. */
static void make(void)
{
    enum { timer_count = 500 };
    static __thread struct herd_timer timers[timer_count];
    struct herd_worker *worker = new_worker(herd);
    CHECK(herd_run_once(worker, 0) >= 0);
    for (int i = 0; i < timer_count; i++) {
        CHECK_CODE(herd_timer_init(&timers[i], on_timer, NULL), 0);
        CHECK_CODE(herd_timer_start(worker, &timers[i], 1000), 0);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
}

/* In MUTEX and HANDOFF not while a child has a worker. */
static void change(void)
{
    int listener = herd_listen(herd, "127.0.0.1:0", NULL, on_accept, &accepted);
    CHECK(listener >= 0 || listener == -EBUSY);
    while (listener >= 0 && herd_remove_listener(herd, listener) != 0) {
        CHECK(!SHARED_GET(ends));
        sleep_ms(1);
    }
    if (mode == HERD_MODE_HANDOFF) {
        CHECK_CODE(herd_on_handoff(herd, on_handoff, &accepted), 0);
    }
}

static void *run(void *call)
{
    while (!SHARED_GET(ends)) {
        (*(void (**)(void))call)();
    }
    return NULL;
}

/* --- What a child does -------------------------------------------------------------------- */

/* 0: it did all. 2: it was told that the listeners were changed meanwhile. */
static int use(int has_others)
{
    struct herd_worker *worker = NULL;
    int code = herd_worker_create(herd, HERD_ANY_SLOT, &worker);
    if (code == -ESTALE) {
        /* It may know numbers of descriptors that it does not have. They are its own now. */
        int own[8];
        for (int i = 0; i < 8; i++) {
            CHECK((own[i] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0);
        }
        CHECK_CODE(herd_destroy(herd), 0);
        for (int i = 0; i < 8; i++) {
            CHECK(fcntl(own[i], F_GETFD) >= 0);
        }
        return 2;
    }
    CHECK_CODE(code, 0);
    int client = has_others ? -1 : connect_to(address_of(herd, 0));
    do {
        CHECK(herd_run_once(worker, has_others ? 0 : 100) >= 0);
    } while (!has_others && accepted == 0);
    look();
    close(client);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    if (!shares_listeners()) {
        int listener = new_listener(herd, NULL, NULL);
        CHECK_CODE(herd_remove_listener(herd, listener), 0);
    }
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}

static void fork_while(void (*first)(void), void (*second)(void), int may_be_stale)
{
    void (*calls[])(void) = {first, second, second};
    enum { threads = sizeof calls / sizeof calls[0] };
    pthread_t ids[threads];
    SHARED_SET(ends, 0u);
    for (int i = 0; i < threads; i++) {
        CHECK_EQ(pthread_create(&ids[i], NULL, run, &calls[i]), 0);
    }
    for (int i = 0; i <= children; i++) {
        if (i == children) { /* once more, when nobody calls anything */
            SHARED_SET(ends, 1u);
            for (int j = 0; j < threads; j++) {
                CHECK_EQ(pthread_join(ids[j], NULL), 0);
            }
            may_be_stale = 0;
        }
        pid_t child = test_fork();
        if (child == 0) {
            alarm(bound_s * (unsigned)test_scale());
            test_exit(use(second == make));
        }
        int code = test_join(child);
        CHECK(code == 0 || (code == 2 && may_be_stale));
    }
}

int main(void)
{
    test_begin(100);
    for (int i = 0; i < mode_count; i++) {
        mode = all_modes[i];
        int64_t begin_ms = now_ms();
        herd = new_herd(mode, slots);
        new_listener(herd, on_accept, &accepted);
        new_listener(herd, on_accept, &accepted);
        fork_while(look, look, 0);
        fork_while(look, make, 0);
        fork_while(look, change, 1);
        CHECK_EQ(total_stats(herd).workers, 0);
        CHECK_CODE(herd_destroy(herd), 0);
        printf("%s: %lld ms\n", mode_name(mode), (long long)(now_ms() - begin_ms));
    }
    return 0;
}
