/* Starts this program again as a service manager does: with descriptors from 3 on and the variables
 * that announce them. Includes check.h. */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "check.h"

#define ACTIVATION_FIRST_FD 3

/* A listener on a free port of 127.0.0.1, blocking and inheritable, as service managers pass them. */
CHECK_HELPER int activation_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK_EQ(listen(fd, 16), 0); /* binds it: ip(7) */
    return fd;
}

/* Runs this program with the argument `activated` in a child whose descriptors 3 and so on are
 * `fds`, which are closed here. Returns its exit code. `names` may be NULL. */
CHECK_HELPER int activation_run(const int *fds, int count, const char *names)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        int high[16];
        char text[32];
        for (int i = 0; i < count; i++) { /* out of the way of each other's numbers */
            high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
            CHECK(high[i] >= 0);
        }
        for (int i = 0; i < count; i++) {
            CHECK_EQ(dup2(high[i], ACTIVATION_FIRST_FD + i), ACTIVATION_FIRST_FD + i);
        }
        for (int fd = ACTIVATION_FIRST_FD + count; fd < 100; fd++) {
            close(fd);
        }
        snprintf(text, sizeof text, "%d", (int)getpid());
        setenv("LISTEN_PID", text, 1);
        snprintf(text, sizeof text, "%d", count);
        setenv("LISTEN_FDS", text, 1);
        if (names != NULL) {
            setenv("LISTEN_FDNAMES", names, 1);
        } else {
            unsetenv("LISTEN_FDNAMES");
        }
        execl("/proc/self/exe", "activated", "activated", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
    return test_join(pid);
}

CHECK_HELPER int is_close_on_exec(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    CHECK(flags >= 0);
    return (flags & FD_CLOEXEC) != 0;
}

#endif
