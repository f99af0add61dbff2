/* Files that must not outlive a test, however it ends. Include check.h before. */
#ifndef LEFTOVERS_H
#define LEFTOVERS_H

static pid_t leftovers_pid;
static int leftovers_fd = -1;

CHECK_HELPER void leftovers_end(void)
{
    close(leftovers_fd);
    waitpid(leftovers_pid, NULL, 0);
}

/* Has `remove_all` called when this process and the children that it makes from now on have ended, also by
 * SIGKILL: by a process outside of the group that the runner kills, which sees the pipe close. */
CHECK_HELPER void remove_at_end(void (*remove_all)(pid_t test))
{
    int ends[2];
    char nothing;
    pid_t test = getpid();
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    leftovers_pid = fork();
    CHECK(leftovers_pid >= 0);
    if (leftovers_pid == 0) {
        setsid();
        close(ends[1]);
        while (read(ends[0], &nothing, 1) < 0 && errno == EINTR) {
        }
        remove_all(test);
        _exit(0);
    }
    close(ends[0]);
    leftovers_fd = ends[1];
    atexit(leftovers_end);
}

#endif
