/*
 * One step of the life in fault_life.h: a call of the host's that a fault may make fail, and what must hold
 * then. And how far a process has got with its share of all faults. Includes inject.h. C99.
 */
#ifndef FAULT_STEP_H
#define FAULT_STEP_H

#include "inject.h"

#include <sys/stat.h>

/* Who waits for worker 1: it does, or a loop of the host's, on the library's descriptors or on its set. */
enum way { itself, attached, nested, ways };
static const char *const way_names[] = {"itself", "attached", "nested"};

/* A process that takes a part of all faults, in memory that it shares with the test. */
struct share {
    struct fault_script script;
    enum way way;
    const char *step;
    long long rounds;
    long long hits_of[FAULT_CALLS];
};

static struct share *share;
static uint32_t mode;
/* The fault strikes more than once: what is to be removed may stay. */
static int is_lasting;
static char socket_path[64], herd_name[32], herd_path[96];

CHECK_HELPER void use_share(struct share *of)
{
    share = of;
    script = shim->script = &of->script;
}

CHECK_HELPER void say_where(void)
{
    fprintf(stderr, "mode %s, %s, %s, %d times failed: %s with %s\n", mode_name(mode), way_names[share->way],
            share->step, script->hits, armed_name(), strerror(script->error));
}

/* What a call of the host's says when `call` fails with `error`. */
CHECK_HELPER int is_told_by(int code, int call, int error)
{
    if (call == FAULT_FALLOCATE && error == ENOSPC) {
        return code == -ENOMEM;
    }
    if (call == FAULT_MADVISE && error == EINVAL) {
        return code == -ENOSYS; /* an old kernel */
    }
    if (call == FAULT_FCNTL_SETLK && (error == EAGAIN || error == EACCES)) {
        return code == -EBUSY || code == -EADDRINUSE; /* another has it */
    }
    /* The kernel's word for a number that leads to another file by now. */
    if (error == ENOENT && (call == FAULT_EPOLL_MOD || call == FAULT_EPOLL_DEL)) {
        return code == -EBADF;
    }
    if (call == FAULT_SENDMMSG && (error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM)) {
        return code == -EAGAIN;
    }
    /* The probe of a Unix socket's file: it seems to be in use. */
    if (code == -EADDRINUSE && (call == FAULT_CONNECT || call == FAULT_SOCKET || call == FAULT_STATX ||
                                call == FAULT_LSTAT || call == FAULT_UNLINK)) {
        return 1;
    }
    return code == -error;
}

/* Whether a call of the host's may go on as if nothing had failed. */
static const struct {
    int call;
    int error; /* 0: any */
    const char *why;
} forgiven[] = {
    {FAULT_BIND, EADDRINUSE, "the file of a server that crashed"},
    {FAULT_BPF, 0, "the kernel's hash places connections instead"},
    {FAULT_CLOSE, 0, "it has closed all the same"},
    {FAULT_CONNECT, ECONNREFUSED, "nobody listens at the file any more"},
    {FAULT_EPOLL_ADD, EINVAL, "a kernel without EPOLLEXCLUSIVE"},
    {FAULT_FLOCK, 0, "what crashed servers left is removed without a lock"},
    {FAULT_GETCWD, 0, "the path stays as it was given"},
    {FAULT_GETPEERNAME, 0, "a connection that has no peer's address"},
    {FAULT_LSTAT, ENOENT, "the herd's file was replaced meanwhile"},
    {FAULT_TIMERFD_SETTIME, 0, "the guard's next regular tick does"},
    {FAULT_WRITE, 0, "a bell that does not ring"},
};

CHECK_HELPER int is_forgiven(int call, int error)
{
    for (size_t i = 0; i < sizeof forgiven / sizeof forgiven[0]; i++) {
        if (forgiven[i].call == call && (forgiven[i].error == error || forgiven[i].error == 0)) {
            return 1;
        }
    }
    /* The folder of a Unix socket: it is not locked, or the other shares' locks are not waited for; or its path
     * stays as it was given. */
    if (strstr(share->step, "listen_unix") != NULL &&
        (call == FAULT_OPEN || call == FAULT_POLL || (call == FAULT_STATX && error == EACCES))) {
        return 1;
    }
    /* The memory that the program shares with the workers; and EINTR is never seen. */
    return (call == FAULT_MMAP && mode == HERD_MODE_REUSEPORT) || error == EINTR;
}

/* What lies under a path; 0: nothing. */
CHECK_HELPER ino_t file_at(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 ? found.st_ino : 0;
}

CHECK_HELPER void check_no_new_file(const char *path, ino_t before)
{
    ino_t after = file_at(path);
    CHECK(after == 0 || after == before || is_lasting);
}

/* A call of the host's. The fault may make it fail, once: then it says so, and has changed nothing. */
#define STEP(expression)                                                                        \
    do {                                                                                        \
        share->step = #expression;                                                              \
        int step_fds = open_fds(), step_call = script->call, step_error = script->error;        \
        long step_blocks = shim->blocks;                                                        \
        ino_t step_socket = file_at(socket_path), step_herd = file_at(herd_path);               \
        int step_hits = script->hits, step_code = (expression);                                 \
        if (step_code < 0) {                                                                    \
            if (script->hits == 0 || !is_told_by(step_code, step_call, step_error)) {           \
                fprintf(stderr, "it said %s\n", herd_strerror(step_code));                      \
                test_exit(1);                                                                   \
            }                                                                                   \
            CHECK_EQ(open_fds(), step_fds);                                                     \
            CHECK_EQ(shim->blocks, step_blocks);                                                \
            check_no_new_file(socket_path, step_socket);                                        \
            check_no_new_file(herd_path, step_herd);                                            \
            disarm();                                                                           \
            step_code = (expression);                                                           \
        } else {                                                                                \
            CHECK(script->hits == step_hits || is_forgiven(step_call, step_error));             \
        }                                                                                       \
        if (step_code < 0) {                                                                    \
            fprintf(stderr, "made again it said %s\n", herd_strerror(step_code));               \
            test_exit(1);                                                                       \
        }                                                                                       \
    } while (0)

#endif
