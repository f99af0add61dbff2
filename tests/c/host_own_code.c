/* A worker whose wait is over, and whose host then runs code of its own before the next turn, keeps no
   new client from being accepted while another worker is idle: whoever wrote the turn, and whether the
   other began to wait before the wait ended or between it and the call that gives the right up. */
#include "hosted.h"
#include "right.h"

enum { busy_one, idle_one, workers, far_ms = 30000, most_ms = 5000 };

enum way { RUN_ONCE, BY_HAND, ATTACHED, NESTED, ATTACHED_UNLOCKS, NESTED_UNLOCKS, way_count };
static const char *const way_names[way_count] = { "herd_run_once",       "nginx's cycle",
                                                  "attached",            "nested",
                                                  "attached and unlock", "nested and unlock" };

/* The host's own code: nothing of the library's runs until a byte comes. */
static void run_own_code(const int *pipes)
{
    char byte;
    SHARED_ADD(serve.shared->knob, 2);
    CHECK_EQ(read(pipes[0], &byte, 1), 1);
}

static void first_half(struct herd_worker *worker, enum way way, int epfd, int timeout_ms)
{
    struct epoll_event events[4];
    if (way == BY_HAND) {
        CHECK(herd_trylock(worker) >= 0); /* 0: it stood still, and the other one has taken the right */
        CHECK(herd_process_events(worker, timeout_ms, HERD_POST_EVENTS) >= 0);
    } else {
        CHECK(herd_prepare(worker, timeout_ms) >= 0);
        CHECK(epoll_wait(epfd, events, 4, timeout_ms) >= 0);
    }
}

static void second_half(struct herd_worker *worker, enum way way)
{
    if (way == ATTACHED || way == NESTED) {
        CHECK(herd_check(worker) >= 0);
        return;
    }
    CHECK(herd_process_posted(worker, HERD_POSTED_ACCEPT) >= 0);
    CHECK(herd_unlock(worker) >= 0);
    CHECK(herd_process_timers(worker) >= 0);
    CHECK(herd_process_posted(worker, HERD_POSTED_EVENTS) >= 0);
}

static void work(enum way way, int comes_late, const int *pipes)
{
    int epfd = -1;
    CHECK_CODE(herd_worker_create(serve.herd, busy_one, &serve_worker), 0);
    if (way != RUN_ONCE && way != BY_HAND) {
        epfd = hosted_epoll(serve_worker,
                            way == ATTACHED || way == ATTACHED_UNLOCKS ? HOSTED_ATTACHED : HOSTED_NESTED);
    }
    SHARED_SET(serve.shared->ready[busy_one], getpid());
    if (comes_late) {
        first_half(serve_worker, way, epfd, 0);
        run_own_code(pipes);
        second_half(serve_worker, way);
    } else {
        /* Until the other sleeps while this one holds the right. */
        do {
            if (way == RUN_ONCE) {
                CHECK(herd_run_once(serve_worker, 50) >= 0);
            } else {
                first_half(serve_worker, way, epfd, 50);
                second_half(serve_worker, way);
            }
        } while (SHARED_GET(serve.shared->knob) == 0);
    }
    run_own_code(pipes);
    CHECK_CODE(herd_worker_destroy(serve_worker), 0);
    test_exit(0);
}

static int is_ready(void *slot)
{
    return SHARED_GET(serve.shared->ready[*(int *)slot]) != 0 && process_sleeps(serve.pids[*(int *)slot]);
}

static void own_code(const struct right_case *c, enum way way, int comes_late)
{
    struct herd_config config = right_config(c, far_ms);
    int pipes[2], busy = busy_one, idle = idle_one, slot;
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    serve_prepare(&config, workers);
    serve.pids[busy_one] = test_fork();
    if (serve.pids[busy_one] == 0) {
        work(way, comes_late, pipes);
    }
    CHECK(wait_until(is_ready, &busy, 10000));
    serve_fork(idle_one);
    CHECK(wait_until(is_ready, &idle, 10000));
    if (comes_late) {
        serve_settle();
        CHECK_EQ(SHARED_GET(serve.shared->knob), 2);
        CHECK_EQ(write(pipes[1], "x", 1), 1);
        WAIT_UNTIL(SHARED_GET(serve.shared->knob) == 4, 10000);
    } else {
        sleep_ms(100);
        SHARED_SET(serve.shared->knob, 1);
        WAIT_UNTIL(SHARED_GET(serve.shared->knob) == 3, 10000);
    }
    serve_settle();
    int client = connect_to(serve.address);
    int64_t began_us = now_us();
    slot = serve_greeting(client, most_ms);
    printf("%s, %s, the other waits %s: %.1f ms\n", c->name, way_names[way],
           comes_late ? "late" : "early", (double)(now_us() - began_us) / 1000);
    CHECK_EQ(slot, idle_one);
    close(client);
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    CHECK_EQ(test_join(serve.pids[busy_one]), 0);
    serve.pids[busy_one] = 0;
    serve_crash(idle_one);
    serve_end();
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    test_begin(55);
    for (int i = 0; i < right_case_count; i++) {
        const int nests = right_has_holder(&right_cases[i]);
        for (int way = 0; way < way_count; way++) {
            if (!nests && (way == NESTED || way == NESTED_UNLOCKS)) {
                continue;
            }
            own_code(&right_cases[i], (enum way)way, 0);
            if (way != RUN_ONCE) {
                own_code(&right_cases[i], (enum way)way, 1);
            }
        }
    }
    test_exit(0);
}
