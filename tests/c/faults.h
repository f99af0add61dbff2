/*
 * What preload_faults.so and the tests that use it share: the symbol `faults` is one of these. The script
 * lies in memory that the test shares with its workers.
 */
#ifndef FAULTS_H
#define FAULTS_H

#define FAULT_ERRNOS_MAX 32

/* Every system call that the library makes, by what it asks for where that differs. */
enum fault_number {
    FAULT_ACCEPT4,
    FAULT_BIND,
    FAULT_BPF,
    FAULT_FCHMOD,
    FAULT_FCHMODAT,
    FAULT_CLOSE,
    FAULT_CONNECT,
    FAULT_DUP3,
    FAULT_EPOLL_ADD,
    FAULT_EPOLL_CREATE1,
    FAULT_EPOLL_DEL,
    FAULT_EPOLL_MOD,
    FAULT_EPOLL_WAIT,
    FAULT_EVENTFD,
    FAULT_FALLOCATE,
    FAULT_FCNTL_DUP,
    FAULT_FCNTL_FLAGS,
    FAULT_FCNTL_GETLK,
    FAULT_FCNTL_SEALS,
    FAULT_FCNTL_SETLK,
    FAULT_FCNTL_UNLCK,
    FAULT_FLOCK,
    FAULT_FSTAT,
    FAULT_GETCWD,
    FAULT_GETPEERNAME,
    FAULT_GETRLIMIT,
    FAULT_GETSOCKNAME,
    FAULT_GETSOCKOPT,
    FAULT_IOCTL,
    FAULT_LISTEN,
    FAULT_LSTAT,
    FAULT_MADVISE,
    FAULT_MEMFD_CREATE,
    FAULT_MMAP,
    FAULT_MUNMAP,
    FAULT_OPEN,
    FAULT_POLL,
    FAULT_PREAD,
    FAULT_READ,
    FAULT_RECV,
    FAULT_RECVMSG,
    FAULT_SENDMMSG,
    FAULT_SETSOCKOPT,
    FAULT_SOCKET,
    FAULT_SOCKETPAIR,
    FAULT_STATX,
    FAULT_TIMERFD_CREATE,
    FAULT_TIMERFD_SETTIME,
    FAULT_UNLINK,
    FAULT_WRITE,
    FAULT_CALLS
};

struct fault_call {
    const char *name;
    /* Those of its man page, up to the first 0. */
    int errnos[FAULT_ERRNOS_MAX];
};

struct fault_script {
    /* Which call fails, and with what; FAULT_CALLS: none does. */
    int call;
    int error;
    /* Calls of it from now on: those that succeed before, and those that fail then. */
    int before;
    int failing;
    /* Those that failed. */
    int hits;
    /* All that the library made. */
    long long made[FAULT_CALLS];
    /* The last syscall(2) of the library that is none of the above; 0: there was none. */
    long unknown;
};

struct faults {
    struct fault_script *script;
    const struct fault_call *calls;
    /* Blocks of memory that the library has in this process. */
    long blocks;
    /* What failed last in this process, and with what: the script can be another by the time that it is seen. */
    int last_call, last_error;
};

#endif
