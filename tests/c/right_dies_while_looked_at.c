/* A worker that takes the right and dies while somebody looks who is dead leaves nothing behind: the right is
 * nobody's when its slot is free. The look's own system call, fcntl(2), is what lets the worker go on and die. */
#include "check.h"

#include <stdarg.h>
#include <sys/syscall.h>

static pid_t doomed;
static int *may_go_on;

static void go_on_and_die(void)
{
    pid_t pid = doomed;
    doomed = 0;
    SHARED_SET(*may_go_on, 1);
    CHECK_EQ(test_join(pid), 1000 + SIGKILL);
}

/* In place of libc's, for the library too. */
int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (command == F_GETLK && doomed != 0) {
        go_on_and_die();
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    config.balance = HERD_BALANCE_PACK;
    test_begin(30);
    may_go_on = (int *)shared_memory(2 * sizeof *may_go_on);
    int *is_there = may_go_on + 1;
    CHECK_CODE(herd_create(&config, &herd), 0);
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *worker = new_worker(herd);
        SHARED_SET(*is_there, 1);
        WAIT_UNTIL(SHARED_GET(*may_go_on), 10000);
        CHECK_CODE(herd_trylock(worker), 1);
        kill(getpid(), SIGKILL);
    }
    WAIT_UNTIL(SHARED_GET(*is_there), 10000);
    doomed = pid;
    CHECK_CODE(herd_free_slots(herd), 2);
    CHECK_EQ(total_stats(herd).acquisitions, 1);
    CHECK_EQ(total_stats(herd).holder, -1);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
