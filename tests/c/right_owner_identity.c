/* R09: who lives is not told by process ids. A dead worker's slot is found within accept_delay
 * without a master, whoever has its pid now; the pid of a live process frees nothing; workers in pid
 * namespaces of their own, all with pid 1, are told apart. */
#include "right.h"

#include <sched.h>
#include <sys/syscall.h>

static void dead_worker_is_found_by_the_guard(const struct right_case *c)
{
    enum { delay_ms = 200, slack_ms = 2000 };
    struct herd_config config = right_config(c, delay_ms);
    serve_start(&config, 3);
    for (int slot = 0; slot < 2; slot++) {
        int64_t died_ms = now_ms();
        serve_crash(slot);
        WAIT_UNTIL(serve_stats(slot).workers == 0, delay_ms + slack_ms);
        printf("%s: found dead after %d ms\n", c->name, (int)(now_ms() - died_ms));
        WAIT_UNTIL(serve_stats(slot).reaps == 1, 10000); /* counted once it is free */
    }
    CHECK_EQ(serve_total().workers, 1);
    int slot;
    close(serve_connect(&slot));
    CHECK_EQ(slot, 2);
    serve_end();
}

static void live_pid_frees_nothing(const struct right_case *c)
{
    struct herd_config config = right_config(c, 30000);
    serve_start(&config, 2);
    pid_t unrelated = test_fork();
    if (unrelated == 0) {
        for (;;) {
            pause();
        }
    }
    CHECK_CODE(herd_reap(serve.herd, unrelated), 0);
    CHECK_CODE(herd_reap(serve.herd, serve.pids[1]), 0);
    CHECK_CODE(herd_reap(serve.herd, getpid()), 0);
    CHECK_CODE(herd_free_slots(serve.herd), 0);
    CHECK_EQ(serve_total().workers, 2);
    test_kill(unrelated);
    CHECK_CODE(herd_reap(serve.herd, unrelated), 0);
    /* The other way round: a dead worker is found although the pid reported is another's. */
    pid_t dead = serve_crash(0);
    CHECK_CODE(herd_reap(serve.herd, getpid()), 1);
    CHECK_CODE(herd_reap(serve.herd, dead), 0);
    CHECK_EQ(serve_stats(0).workers, 0);
    int slot;
    close(serve_connect(&slot));
    CHECK_EQ(slot, 1);
    serve_end();
}

/* fork(2) into a new pid namespace. 0: not permitted. */
static pid_t fork_as_pid_1(int slot)
{
    int entry = 0;
    while (check_children[entry] != 0) {
        entry++;
    }
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0) {
        check_in_child = 1;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK_EQ(getpid(), 1);
        serve_run(slot);
    }
    if (pid > 0) {
        check_children[entry] = pid;
        return pid;
    }
    CHECK_EQ(errno, EPERM);
    return 0;
}

static int workers_are_all_pid_1(const struct right_case *c)
{
    struct herd_config config = right_config(c, 30000);
    int slot;
    serve_prepare(&config, 2);
    for (slot = 0; slot < 2; slot++) {
        serve.pids[slot] = fork_as_pid_1(slot);
        if (serve.pids[slot] == 0) {
            CHECK_EQ(slot, 0);
            return 0;
        }
        WAIT_UNTIL(SHARED_GET(serve.shared->ready[slot]) == 1, 10000);
    }
    CHECK_CODE(herd_reap(serve.herd, 1), 0);
    CHECK_CODE(herd_free_slots(serve.herd), 0);
    close(serve_connect(&slot));
    pid_t dead = serve_crash(0);
    CHECK_CODE(herd_reap(serve.herd, dead), 1);
    CHECK_EQ(serve_stats(0).workers, 0);
    CHECK_EQ(serve_stats(1).workers, 1);
    CHECK_CODE(herd_reap(serve.herd, 1), 0);
    for (int i = 0; i < 3; i++) {
        close(serve_connect(&slot));
        CHECK_EQ(slot, 1);
    }
    CHECK_CODE(herd_free_slots(serve.herd), 1);
    serve_crash(1);
    CHECK_CODE(herd_free_slots(serve.herd), 2);
    serve_end();
    return 1;
}

int main(void)
{
    int namespaces = 1;
    test_begin(50);
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance == HERD_BALANCE_SPREAD) {
            dead_worker_is_found_by_the_guard(&right_cases[i]);
            live_pid_frees_nothing(&right_cases[i]);
            namespaces = namespaces && workers_are_all_pid_1(&right_cases[i]);
        }
    }
    if (!namespaces) {
        test_skip("passed but for pid namespaces, which need a privilege");
    }
    test_exit(0);
}
