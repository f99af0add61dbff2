/* Where one worker accepts for all, listeners cannot be changed while workers run in any process; where each
 * accepts for itself they can. A child that was forked before a change is told so when it makes a worker. */
#include "check.h"

/* Word from and to a child. */
static int to_child[2], from_child[2];

static pid_t fork_with_word(void)
{
    CHECK_EQ(pipe2(to_child, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(from_child, O_CLOEXEC), 0);
    return test_fork();
}

static void say(int *pipes)
{
    CHECK_EQ(write(pipes[1], "x", 1), 1);
}

static void hear(int *pipes)
{
    char byte;
    CHECK_EQ(read(pipes[0], &byte, 1), 1);
}

/* Its exit code: what it was asked for. */
static int join(pid_t pid)
{
    say(to_child);
    for (int end = 0; end < 2; end++) {
        close(to_child[end]);
        close(from_child[end]);
    }
    return test_join(pid);
}

static void while_a_worker_runs(struct herd *herd, int shared)
{
    pid_t pid = fork_with_word();
    if (pid == 0) {
        struct herd_worker *worker = new_worker(herd);
        CHECK(herd_run_once(worker, 0) >= 0);
        say(from_child);
        hear(to_child);
        CHECK_CODE(herd_worker_destroy(worker), 0);
        test_exit(0);
    }
    hear(from_child);
    int fds = open_fds(), listener = herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL);
    CHECK_EQ(listener, shared ? -EBUSY : 1);
    CHECK_CODE(herd_remove_listener(herd, shared ? 0 : listener), shared ? -EBUSY : 0);
    CHECK_EQ(open_fds(), fds);
    CHECK_EQ(join(pid), 0);
}

static void behind_a_child(struct herd *herd, int shared)
{
    pid_t pid = fork_with_word();
    if (pid == 0) {
        struct herd_worker *worker = NULL;
        say(from_child);
        hear(to_child);
        CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), shared ? -ESTALE : 0);
        test_exit(0);
    }
    hear(from_child);
    new_listener(herd, NULL, NULL);
    CHECK_EQ(join(pid), 0);
}

static void change(uint32_t mode, int shared)
{
    struct herd *herd = new_herd(mode, 3);
    new_listener(herd, NULL, NULL);
    while_a_worker_runs(herd, shared);
    behind_a_child(herd, shared);
    CHECK_EQ(herd_is_alive(herd), 1);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(30);
    change(HERD_MODE_MUTEX, 1);
    change(HERD_MODE_HANDOFF, 1);
    change(HERD_MODE_EXCLUSIVE, 0);
    change(HERD_MODE_SHARED, 0);
    test_exit(0);
}
