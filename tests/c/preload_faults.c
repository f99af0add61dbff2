/*
 * Makes the library's system calls fail as the test says, and counts them. The library's are those that
 * are made from its text: the test's own, in the same process, go through. tests/sh/faults.sh looks that
 * the library has no others.
 */
#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* accept(2): what has happened to the new connection. */
#define OF_A_CONNECTION                                                                            \
    ECONNABORTED, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH,           \
        ENETUNREACH, ENOSR, ESOCKTNOSUPPORT, EPROTONOSUPPORT, ETIMEDOUT
#define OF_A_PATH EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOMEM, ENOTDIR

/* The call, and the errors of its man page. */
static const struct fault_call calls[FAULT_CALLS] = {
    [FAULT_ACCEPT4] = {"accept4", {EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EMFILE, ENFILE, ENOBUFS,
                                   ENOMEM, ENOTSOCK, EOPNOTSUPP, OF_A_CONNECTION}},
    [FAULT_BIND] = {"bind", {EADDRINUSE, EBADF, EINVAL, ENOTSOCK, EADDRNOTAVAIL, EFAULT, EROFS,
                             OF_A_PATH}},
    [FAULT_BPF] = {"bpf", {E2BIG, EACCES, EAGAIN, EBADF, EFAULT, EINVAL, ENOENT, ENOMEM, ENOSYS, EPERM}},
    [FAULT_FCHMOD] = {"fchmod", {EBADF, EIO, EPERM, EROFS}},
    [FAULT_FCHMODAT] = {"fchmodat", {EBADF, EFAULT, EINVAL, EIO, ENOTSUP, EPERM, EROFS, OF_A_PATH}},
    [FAULT_CLOSE] = {"close", {EBADF, EINTR, EIO, ENOSPC, EDQUOT}},
    [FAULT_CONNECT] = {"connect", {EACCES, EPERM, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN,
                                   EALREADY, EBADF, ECONNREFUSED, EFAULT, EINPROGRESS, EINTR, EISCONN,
                                   ENETUNREACH, ENOTSOCK, EPROTOTYPE, ETIMEDOUT}},
    [FAULT_DUP3] = {"dup3", {EBADF, EBUSY, EINTR, EINVAL, EMFILE}},
    [FAULT_EPOLL_ADD] = {"epoll_ctl ADD", {EBADF, EEXIST, EINVAL, ELOOP, ENOMEM, ENOSPC, EPERM}},
    [FAULT_EPOLL_CREATE1] = {"epoll_create1", {EINVAL, EMFILE, ENFILE, ENOMEM}},
    [FAULT_EPOLL_DEL] = {"epoll_ctl DEL", {EBADF, EINVAL, ENOENT, ENOMEM, EPERM}},
    [FAULT_EPOLL_MOD] = {"epoll_ctl MOD", {EBADF, EINVAL, ENOENT, ENOMEM, EPERM}},
    [FAULT_EPOLL_WAIT] = {"epoll_wait", {EBADF, EFAULT, EINTR, EINVAL}},
    [FAULT_EVENTFD] = {"eventfd", {EINVAL, EMFILE, ENFILE, ENODEV, ENOMEM}},
    [FAULT_FALLOCATE] = {"fallocate", {EBADF, EFBIG, EINTR, EINVAL, EIO, ENODEV, ENOSPC, ENOSYS,
                                       EOPNOTSUPP, EPERM, ESPIPE, ETXTBSY}},
    [FAULT_FCNTL_DUP] = {"fcntl F_DUPFD_CLOEXEC", {EBADF, EINVAL, EMFILE}},
    [FAULT_FCNTL_FLAGS] = {"fcntl F_GETFD, F_SETFD, F_GETFL, F_SETFL", {EACCES, EAGAIN, EBADF, EINVAL,
                                                                       EPERM}},
    [FAULT_FCNTL_GETLK] = {"fcntl F_GETLK, F_OFD_GETLK", {EBADF, EFAULT, EINTR, EINVAL, ENOLCK,
                                                          EOVERFLOW}},
    [FAULT_FCNTL_SEALS] = {"fcntl F_ADD_SEALS", {EBADF, EBUSY, EINVAL, EPERM}},
    [FAULT_FCNTL_SETLK] = {"fcntl F_SETLK, F_OFD_SETLK", {EACCES, EAGAIN, EBADF, EDEADLK, EFAULT, EINTR,
                                                          EINVAL, ENOLCK}},
    [FAULT_FCNTL_UNLCK] = {"fcntl F_UNLCK", {EBADF, EFAULT, EINTR, EINVAL, ENOLCK}},
    [FAULT_FLOCK] = {"flock", {EBADF, EINTR, EINVAL, ENOLCK, EWOULDBLOCK}},
    [FAULT_FSTAT] = {"fstat", {EBADF, EFAULT, ENOMEM, EOVERFLOW}},
    [FAULT_GETCWD] = {"getcwd", {EACCES, EINVAL, ENAMETOOLONG, ENOENT, ENOMEM, ERANGE}},
    [FAULT_GETPEERNAME] = {"getpeername", {EBADF, EFAULT, EINVAL, ENOBUFS, ENOTCONN, ENOTSOCK}},
    [FAULT_GETRLIMIT] = {"getrlimit", {EFAULT, EINVAL}},
    [FAULT_GETSOCKNAME] = {"getsockname", {EBADF, EFAULT, EINVAL, ENOBUFS, ENOTSOCK}},
    [FAULT_GETSOCKOPT] = {"getsockopt", {EBADF, EFAULT, EINVAL, ENOPROTOOPT, ENOTSOCK}},
    [FAULT_IOCTL] = {"ioctl FIONREAD", {EBADF, EFAULT, EINVAL, ENOTTY}},
    [FAULT_LISTEN] = {"listen", {EADDRINUSE, EBADF, ENOTSOCK, EOPNOTSUPP}},
    [FAULT_LSTAT] = {"lstat", {EBADF, EFAULT, EOVERFLOW, OF_A_PATH}},
    [FAULT_MADVISE] = {"madvise", {EACCES, EAGAIN, EBADF, EBUSY, EFAULT, EINTR, EINVAL, EIO, ENOMEM,
                                   EPERM}},
    [FAULT_MEMFD_CREATE] = {"memfd_create", {EFAULT, EINVAL, EMFILE, ENFILE, ENOMEM}},
    [FAULT_MMAP] = {"mmap", {EACCES, EAGAIN, EBADF, EINVAL, ENFILE, ENODEV, ENOMEM, EOVERFLOW, EPERM,
                             ETXTBSY}},
    [FAULT_MUNMAP] = {"munmap", {EINVAL, ENOMEM}},
    [FAULT_OPEN] = {"open", {EBUSY, EDQUOT, EEXIST, EFAULT, EFBIG, EINTR, EINVAL, EISDIR, EMFILE, ENFILE,
                             ENODEV, ENOSPC, ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, EROFS, ETXTBSY,
                             EWOULDBLOCK, OF_A_PATH}},
    [FAULT_POLL] = {"poll", {EFAULT, EINTR, EINVAL, ENOMEM}},
    [FAULT_PREAD] = {"pread", {EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EIO, EISDIR, ENXIO, EOVERFLOW,
                               ESPIPE}},
    [FAULT_READ] = {"read", {EAGAIN, EBADF, ECANCELED, EFAULT, EINTR, EINVAL, EIO, EISDIR}},
    [FAULT_RECV] = {"recv", {EAGAIN, EBADF, ECONNREFUSED, EFAULT, EINTR, EINVAL, ENOMEM, ENOTCONN,
                             ENOTSOCK}},
    [FAULT_RECVMSG] = {"recvmsg", {EAGAIN, EBADF, ECONNREFUSED, EFAULT, EINTR, EINVAL, ENOMEM, ENOTCONN,
                                   ENOTSOCK}},
    [FAULT_SENDMMSG] = {"sendmmsg", {EACCES, EAGAIN, EALREADY, EBADF, ECONNRESET, EDESTADDRREQ, EFAULT,
                                     EINTR, EINVAL, EISCONN, EMSGSIZE, ENOBUFS, ENOMEM, ENOTCONN,
                                     ENOTSOCK, EOPNOTSUPP, EPIPE, ETOOMANYREFS}},
    [FAULT_SETSOCKOPT] = {"setsockopt", {EBADF, EFAULT, EINVAL, ENOMEM, ENOPROTOOPT, ENOTSOCK, EPERM}},
    [FAULT_SOCKET] = {"socket", {EACCES, EAFNOSUPPORT, EINVAL, EMFILE, ENFILE, ENOBUFS, ENOMEM,
                                 EPROTONOSUPPORT}},
    [FAULT_SOCKETPAIR] = {"socketpair", {EAFNOSUPPORT, EFAULT, EMFILE, ENFILE, EOPNOTSUPP,
                                         EPROTONOSUPPORT}},
    [FAULT_STATX] = {"statx", {EBADF, EFAULT, EINVAL, OF_A_PATH}},
    [FAULT_TIMERFD_CREATE] = {"timerfd_create", {EINVAL, EMFILE, ENFILE, ENODEV, ENOMEM, EPERM}},
    [FAULT_TIMERFD_SETTIME] = {"timerfd_settime", {EBADF, ECANCELED, EFAULT, EINVAL}},
    [FAULT_UNLINK] = {"unlink", {EBUSY, EFAULT, EIO, EISDIR, EPERM, EROFS, OF_A_PATH}},
    [FAULT_WRITE] = {"write", {EAGAIN, EBADF, EDESTADDRREQ, EDQUOT, EFAULT, EFBIG, EINTR, EINVAL, EIO,
                               ENOSPC, EPERM, EPIPE}},
};

struct faults faults = {0, calls, 0, 0, 0};

/* --- Whose call it is ------------------------------------------------------------------------ */

static uintptr_t text_begin, text_end;

static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    const char *name = strrchr(info->dlpi_name, '/');
    if (name == 0 || strncmp(name, "/libherd.so", strlen("/libherd.so")) != 0) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
            text_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            text_end = text_begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void find_library(void)
{
    dl_iterate_phdr(find_text, 0);
}

static int is_librarys(const void *caller)
{
    return (uintptr_t)caller >= text_begin && (uintptr_t)caller < text_end;
}

/* --- Counting and failing -------------------------------------------------------------------- */

static int fails(enum fault_number call, const void *caller)
{
    struct fault_script *script = faults.script;
    if (script == 0 || !is_librarys(caller)) {
        return 0;
    }
    __atomic_add_fetch(&script->made[call], 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&script->call, __ATOMIC_SEQ_CST) != (int)call ||
        __atomic_sub_fetch(&script->before, 1, __ATOMIC_SEQ_CST) >= 0 ||
        __atomic_sub_fetch(&script->failing, 1, __ATOMIC_SEQ_CST) < 0) {
        return 0;
    }
    faults.last_call = call;
    faults.last_error = script->error;
    __atomic_add_fetch(&script->hits, 1, __ATOMIC_SEQ_CST);
    errno = faults.last_error;
    return 1;
}

/* ISO C has no conversion from a data pointer to a function pointer. */
static void find_real(const char *name, void *function)
{
    void *symbol = 0;
    if (memcmp(function, &symbol, sizeof symbol) == 0) {
        symbol = dlsym(RTLD_NEXT, name);
        memcpy(function, &symbol, sizeof symbol);
    }
}

#define CALLER __builtin_return_address(0)

#define CALL(call, type, name, parameters, arguments)                                              \
    type name parameters;                                                                          \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        find_real(#name, &real);                                                                   \
        return fails(call, CALLER) ? (type)-1 : real arguments;                                    \
    }

/* One that has done its work when it says that it failed. */
#define CALL_AND_FAIL(call, type, name, parameters, arguments)                                     \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        find_real(#name, &real);                                                                   \
        type result = real arguments;                                                              \
        return fails(call, CALLER) ? (type)-1 : result;                                            \
    }

/* --- The calls ------------------------------------------------------------------------------- */

/* <sys/socket.h> declares some of them with types of glibc's own. */
struct sockaddr;
struct msghdr;
struct mmsghdr;
struct pollfd;
struct rlimit;
struct itimerspec;
struct statx;

CALL(FAULT_ACCEPT4, int, accept4, (int fd, struct sockaddr *peer, unsigned *length, int flags),
     (fd, peer, length, flags))
CALL(FAULT_BIND, int, bind, (int fd, const struct sockaddr *name, unsigned length), (fd, name, length))
CALL(FAULT_FCHMOD, int, fchmod, (int fd, mode_t mode), (fd, mode))
CALL(FAULT_FCHMODAT, int, fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags))
CALL_AND_FAIL(FAULT_CLOSE, int, close, (int fd), (fd))
CALL(FAULT_CONNECT, int, connect, (int fd, const struct sockaddr *name, unsigned length),
     (fd, name, length))
CALL(FAULT_DUP3, int, dup3, (int from, int to, int flags), (from, to, flags))
CALL(FAULT_EPOLL_CREATE1, int, epoll_create1, (int flags), (flags))
CALL(FAULT_EPOLL_WAIT, int, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout_ms),
     (fd, events, most, timeout_ms))
CALL(FAULT_EVENTFD, int, eventfd, (unsigned value, int flags), (value, flags))
CALL(FAULT_FALLOCATE, int, fallocate, (int fd, int mode, off_t from, off_t length),
     (fd, mode, from, length))
CALL(FAULT_FALLOCATE, int, fallocate64, (int fd, int mode, off64_t from, off64_t length),
     (fd, mode, from, length))
CALL(FAULT_FLOCK, int, flock, (int fd, int operation), (fd, operation))
CALL(FAULT_FSTAT, int, fstat, (int fd, struct stat *found), (fd, found))
CALL(FAULT_FSTAT, int, fstat64, (int fd, struct stat64 *found), (fd, found))
CALL(FAULT_GETPEERNAME, int, getpeername, (int fd, struct sockaddr *name, unsigned *length),
     (fd, name, length))
CALL(FAULT_GETRLIMIT, int, getrlimit, (int resource, struct rlimit *limit), (resource, limit))
CALL(FAULT_GETRLIMIT, int, getrlimit64, (int resource, struct rlimit *limit), (resource, limit))
CALL(FAULT_GETSOCKNAME, int, getsockname, (int fd, struct sockaddr *name, unsigned *length),
     (fd, name, length))
CALL(FAULT_GETSOCKOPT, int, getsockopt, (int fd, int level, int option, void *value, unsigned *length),
     (fd, level, option, value, length))
CALL(FAULT_LISTEN, int, listen, (int fd, int backlog), (fd, backlog))
CALL(FAULT_LSTAT, int, lstat, (const char *path, struct stat *found), (path, found))
CALL(FAULT_LSTAT, int, lstat64, (const char *path, struct stat64 *found), (path, found))
CALL(FAULT_MADVISE, int, madvise, (void *start, size_t bytes, int advice), (start, bytes, advice))
CALL(FAULT_MEMFD_CREATE, int, memfd_create, (const char *name, unsigned flags), (name, flags))
CALL(FAULT_MMAP, void *, mmap, (void *at, size_t bytes, int access, int flags, int fd, off_t from),
     (at, bytes, access, flags, fd, from))
CALL(FAULT_MMAP, void *, mmap64, (void *at, size_t bytes, int access, int flags, int fd, off64_t from),
     (at, bytes, access, flags, fd, from))
CALL_AND_FAIL(FAULT_MUNMAP, int, munmap, (void *start, size_t bytes), (start, bytes))
CALL(FAULT_POLL, int, poll, (struct pollfd *polled, unsigned long count, int timeout_ms),
     (polled, count, timeout_ms))
CALL(FAULT_PREAD, ssize_t, pread, (int fd, void *bytes, size_t length, off_t from),
     (fd, bytes, length, from))
CALL(FAULT_PREAD, ssize_t, pread64, (int fd, void *bytes, size_t length, off64_t from),
     (fd, bytes, length, from))
CALL(FAULT_READ, ssize_t, read, (int fd, void *bytes, size_t length), (fd, bytes, length))
CALL(FAULT_RECV, ssize_t, recv, (int fd, void *bytes, size_t length, int flags),
     (fd, bytes, length, flags))
CALL(FAULT_RECVMSG, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
CALL(FAULT_SENDMMSG, int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),
     (fd, messages, count, flags))
CALL(FAULT_SETSOCKOPT, int, setsockopt,
     (int fd, int level, int option, const void *value, unsigned length),
     (fd, level, option, value, length))
CALL(FAULT_SOCKET, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
CALL(FAULT_SOCKETPAIR, int, socketpair, (int domain, int type, int protocol, int ends[2]),
     (domain, type, protocol, ends))
CALL(FAULT_STATX, int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *found),
     (folder, path, flags, mask, found))
CALL(FAULT_TIMERFD_CREATE, int, timerfd_create, (int clock, int flags), (clock, flags))
CALL(FAULT_TIMERFD_SETTIME, int, timerfd_settime,
     (int fd, int flags, const struct itimerspec *wanted, struct itimerspec *former),
     (fd, flags, wanted, former))
CALL(FAULT_UNLINK, int, unlink, (const char *path), (path))
CALL(FAULT_WRITE, ssize_t, write, (int fd, const void *bytes, size_t length), (fd, bytes, length))

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
    static int (*real)(int, int, int, struct epoll_event *);
    find_real("epoll_ctl", &real);
    enum fault_number call = operation == EPOLL_CTL_ADD   ? FAULT_EPOLL_ADD
                             : operation == EPOLL_CTL_MOD ? FAULT_EPOLL_MOD
                                                          : FAULT_EPOLL_DEL;
    return fails(call, CALLER) ? -1 : real(set, operation, fd, event);
}

char *getcwd(char *path, size_t room)
{
    static char *(*real)(char *, size_t);
    find_real("getcwd", &real);
    return fails(FAULT_GETCWD, CALLER) ? 0 : real(path, room);
}

static enum fault_number fcntl_call(int command, const void *argument)
{
    switch (command) {
    case F_DUPFD_CLOEXEC:
        return FAULT_FCNTL_DUP;
    case F_ADD_SEALS:
        return FAULT_FCNTL_SEALS;
    case F_SETLK:
    case F_OFD_SETLK:
        return ((const struct flock *)argument)->l_type == F_UNLCK ? FAULT_FCNTL_UNLCK
                                                                   : FAULT_FCNTL_SETLK;
    case F_GETLK:
    case F_OFD_GETLK:
        return FAULT_FCNTL_GETLK;
    default:
        return FAULT_FCNTL_FLAGS;
    }
}

int fcntl(int fd, int command, ...)
{
    static int (*real)(int, int, ...);
    find_real("fcntl", &real);
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fails(fcntl_call(command, argument), CALLER) ? -1 : real(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...);
int ioctl(int fd, unsigned long request, ...)
{
    static int (*real)(int, unsigned long, ...);
    find_real("ioctl", &real);
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fails(FAULT_IOCTL, CALLER) ? -1 : real(fd, request, argument);
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        static int (*real)(const char *, int, ...);                                                \
        find_real(#name, &real);                                                                   \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        unsigned mode = va_arg(list, unsigned);                                                    \
        va_end(list);                                                                              \
        return fails(FAULT_OPEN, CALLER) ? -1 : real(path, flags, mode);                           \
    }
OPEN(open)
OPEN(open64)

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    find_real("syscall", &real);
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        arguments[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_bpf) {
        if (fails(FAULT_BPF, CALLER)) {
            return -1;
        }
    } else if (faults.script != 0 && is_librarys(CALLER)) {
        faults.script->unknown = number;
    }
    return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                arguments[5]);
}

/* --- Memory ---------------------------------------------------------------------------------- */

/* glibc's own names for them: dlsym could ask for memory itself. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static void count_blocks(long more, const void *caller)
{
    if (is_librarys(caller)) {
        __atomic_add_fetch(&faults.blocks, more, __ATOMIC_RELAXED);
    }
}

void *malloc(size_t bytes)
{
    void *block = __libc_malloc(bytes);
    count_blocks(block != 0, CALLER);
    return block;
}

void *calloc(size_t count, size_t bytes)
{
    void *block = __libc_calloc(count, bytes);
    count_blocks(block != 0, CALLER);
    return block;
}

void *realloc(void *block, size_t bytes)
{
    void *larger = __libc_realloc(block, bytes);
    count_blocks(block == 0 && larger != 0, CALLER);
    return larger;
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    *block = __libc_memalign(alignment, bytes);
    count_blocks(*block != 0, CALLER);
    return *block != 0 ? 0 : ENOMEM;
}

void free(void *block)
{
    count_blocks(block != 0 ? -1 : 0, CALLER);
    __libc_free(block);
}
