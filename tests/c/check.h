/*
 * What the test programs share: checks, bounded waits, children that never outlive the test, and
 * clients. Include it first. Knows the public header only. C99 and C++17.
 */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <herd.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK_HELPER __attribute__((unused)) static
#define CHECK_MAX_CHILDREN 256

/* The children that test_fork made and nobody has reaped yet; 0: a free entry. */
static volatile pid_t check_children[CHECK_MAX_CHILDREN];
static volatile sig_atomic_t check_in_child;
/* Connections that clients of this test and its children made to each TCP port, in shared memory. */
static unsigned *check_connected;

/* How many times as long as usual things may take here: HERD_TEST_SCALE, which scripts that run tests
 * under a checker set (tests/sh/lib/checker.sh). Waits are bounded accordingly. */
CHECK_HELPER int test_scale(void)
{
    static int scale;
    if (scale == 0) {
        const char *given = getenv("HERD_TEST_SCALE");
        scale = given != NULL && atoi(given) > 1 ? atoi(given) : 1;
    }
    return scale;
}

/* --- The end of a test ------------------------------------------------------------------- */

/* Kills and reaps all children. For signal handlers too. A child leaves its siblings alone. */
CHECK_HELPER void test_kill_children(void)
{
    int saved_errno = errno;
    if (!check_in_child) {
        for (int i = 0; i < CHECK_MAX_CHILDREN; i++) {
            pid_t pid = check_children[i];
            if (pid > 0) {
                check_children[i] = 0;
                kill(pid, SIGKILL);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
                }
            }
        }
    }
    errno = saved_errno;
}

/* Ends the test, or a child without the exit handlers of its parent. */
__attribute__((noreturn)) CHECK_HELPER void test_exit(int code)
{
    fflush(stdout);
    fflush(stderr);
    if (check_in_child) {
        _exit(code);
    }
    test_kill_children();
    exit(code);
}

__attribute__((noreturn)) CHECK_HELPER void test_skip(const char *why)
{
    printf("%s\n", why);
    test_exit(77);
}

CHECK_HELPER void check_on_alarm(int signal_number)
{
    static const char message[] = "the test's own time limit has passed\n";
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    (void)signal_number;
    test_kill_children();
    _exit(1);
}

/* First call of main: at the latest after `seconds` the test fails. */
CHECK_HELPER void test_begin(unsigned seconds)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, check_on_alarm);
    atexit(test_kill_children);
    alarm(seconds * (unsigned)test_scale());
    void *ports = mmap(NULL, 65536 * sizeof *check_connected, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check_connected = ports == MAP_FAILED ? NULL : (unsigned *)ports;
}

/* Whether the longer run was asked for (make check-slow). */
CHECK_HELPER int test_is_slow(void)
{
    const char *slow = getenv("HERD_TEST_SLOW");
    return slow != NULL && strcmp(slow, "1") == 0;
}

/* --- Checks ------------------------------------------------------------------------------ */

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);             \
            test_exit(1);                                                                       \
        }                                                                                       \
    } while (0)

/* What was got, then what was expected. */
#define CHECK_EQ(got, expected)                                                                 \
    do {                                                                                        \
        long long check_got = (long long)(got), check_expected = (long long)(expected);         \
        if (check_got != check_expected) {                                                      \
            fprintf(stderr, "%s:%d: %s is %lld, not %s = %lld\n", __FILE__, __LINE__, #got,     \
                    check_got, #expected, check_expected);                                      \
            test_exit(1);                                                                       \
        }                                                                                       \
    } while (0)

/* A call of the library, and the code that it must return. */
#define CHECK_CODE(call, code)                                                                  \
    do {                                                                                        \
        int check_code = (call), check_wanted = (code);                                         \
        if (check_code != check_wanted) {                                                       \
            fprintf(stderr, "%s:%d: %s returned %d (%s), not %s (%d)\n", __FILE__, __LINE__,    \
                    #call, check_code, herd_strerror(check_code), #code, check_wanted);         \
            test_exit(1);                                                                       \
        }                                                                                       \
    } while (0)

/* --- Time -------------------------------------------------------------------------------- */

CHECK_HELPER int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

CHECK_HELPER int64_t now_ms(void)
{
    return now_us() / 1000;
}

CHECK_HELPER void sleep_ms(int ms)
{
    struct timespec rest;
    rest.tv_sec = ms / 1000;
    rest.tv_nsec = (long)(ms % 1000) * 1000000;
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {
    }
}

/* Polls until `condition(arg)` is not 0, for at most `ms`. Returns whether it came true. */
CHECK_HELPER int wait_until(int (*condition)(void *), void *arg, int ms)
{
    int64_t deadline = now_ms() + (int64_t)ms * test_scale();
    for (;;) {
        if (condition(arg)) {
            return 1;
        }
        if (now_ms() > deadline) {
            return 0;
        }
        sleep_ms(1);
    }
}

/* The same for an expression; the test fails if it does not come true in time. */
#define WAIT_UNTIL(condition, ms)                                                               \
    do {                                                                                        \
        int64_t check_deadline = now_ms() + (int64_t)(ms) * test_scale();                       \
        while (!(condition)) {                                                                  \
            if (now_ms() > check_deadline) {                                                    \
                fprintf(stderr, "%s:%d: not within %d ms: %s\n", __FILE__, __LINE__, (int)(ms), \
                        #condition);                                                            \
                test_exit(1);                                                                   \
            }                                                                                   \
            sleep_ms(1);                                                                        \
        }                                                                                       \
    } while (0)

/* A figure that a busy machine can make worse and never better: `measure` is run again, a few times at
 * most, until `condition` holds. What is wrong with the library is so each time. */
#define CHECK_IN_SOME_TRY(measure, condition)                                                   \
    do {                                                                                        \
        int check_tries = 0;                                                                    \
        for (measure; !(condition); measure) {                                                  \
            if (++check_tries == 6) {                                                           \
                fprintf(stderr, "%s:%d: not so in %d tries: %s\n", __FILE__, __LINE__,          \
                        check_tries, #condition);                                               \
                test_exit(1);                                                                   \
            }                                                                                   \
        }                                                                                       \
    } while (0)

/* --- Children ---------------------------------------------------------------------------- */

/* fork(2) whose child dies with the test. The child ends with test_exit. */
CHECK_HELPER pid_t test_fork(void)
{
    pid_t parent = getpid();
    int entry = 0;
    while (entry < CHECK_MAX_CHILDREN && check_children[entry] != 0) {
        entry++;
    }
    CHECK(entry < CHECK_MAX_CHILDREN);
    fflush(stdout);
    fflush(stderr);
    /* No signal between fork and the note of the child's pid: the alarm would miss the child. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        check_in_child = 1;
        for (int i = 0; i < CHECK_MAX_CHILDREN; i++) {
            check_children[i] = 0;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    } else if (pid > 0) {
        check_children[entry] = pid;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    CHECK(pid >= 0);
    return pid;
}

CHECK_HELPER void check_forget(pid_t pid)
{
    for (int i = 0; i < CHECK_MAX_CHILDREN; i++) {
        if (check_children[i] == pid) {
            check_children[i] = 0;
        }
    }
}

/* Waits for a child. Returns its exit code, or 1000 + the signal that killed it. */
CHECK_HELPER int test_join(pid_t pid)
{
    int status = 0;
    pid_t waited;
    do {
        waited = waitpid(pid, &status, 0);
    } while (waited < 0 && errno == EINTR);
    CHECK_EQ(waited, pid);
    check_forget(pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Whether a child has ended; it stays to be joined. */
CHECK_HELPER int test_ended(pid_t pid)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    int code = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return code == 0 && info.si_pid == pid;
}

/* SIGKILL and wait. */
CHECK_HELPER void test_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    test_join(pid);
}

/* Zeroed memory that children made from now on share. */
CHECK_HELPER void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* For counters in shared memory. */
#define SHARED_ADD(counter, number) __atomic_add_fetch(&(counter), (number), __ATOMIC_SEQ_CST)
#define SHARED_GET(counter) __atomic_load_n(&(counter), __ATOMIC_SEQ_CST)
#define SHARED_SET(counter, number) __atomic_store_n(&(counter), (number), __ATOMIC_SEQ_CST)

/* --- Herds ------------------------------------------------------------------------------- */

/* A herd with everything else at its default. */
CHECK_HELPER struct herd *new_herd(uint32_t mode, uint32_t max_workers)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    config.mode = mode;
    config.max_workers = max_workers;
    CHECK_CODE(herd_create(&config, &herd), 0);
    return herd;
}

CHECK_HELPER struct herd_worker *new_worker(struct herd *herd)
{
    struct herd_worker *worker = NULL;
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
    return worker;
}

/* A listener on a free port of 127.0.0.1. */
CHECK_HELPER int new_listener(struct herd *herd, herd_accept_fn accept, void *accept_data)
{
    int listener = herd_listen(herd, "127.0.0.1:0", NULL, accept, accept_data);
    if (listener < 0) {
        fprintf(stderr, "herd_listen: %s\n", herd_strerror(listener));
        test_exit(1);
    }
    return listener;
}

/* The herd's counters, summed over all slots. */
CHECK_HELPER struct herd_stats total_stats(const struct herd *herd)
{
    struct herd_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    CHECK_CODE(herd_stats_total(herd, &stats), 0);
    return stats;
}

/* Those of one slot. */
CHECK_HELPER struct herd_stats slot_stats(const struct herd *herd, int slot)
{
    struct herd_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    CHECK_CODE(herd_stats_worker(herd, slot, &stats), 0);
    return stats;
}

/* Whether a herd's figures add up: each connection that was opened is open, was closed, or ended with
 * its worker; and the slots' figures are the sums. So it is as soon as nobody is in the middle of
 * counting. */
CHECK_HELPER int counters_add_up(const struct herd *herd)
{
    struct herd_stats total, sum, one;
    memset(&total, 0, sizeof total);
    memset(&sum, 0, sizeof sum);
    memset(&one, 0, sizeof one);
    one.size = total.size = sizeof total;
    if (herd_stats_total(herd, &total) != 0) {
        return 0;
    }
    for (int slot = 0; slot < (int)total.slots; slot++) {
        if (herd_stats_worker(herd, slot, &one) != 0 ||
            one.opened - one.closed - one.lost != one.connections_open ||
            one.turns < one.wakeups) {
            return 0;
        }
        sum.accepted += one.accepted;
        sum.opened += one.opened;
        sum.connections_open += one.connections_open;
    }
    return sum.accepted == total.accepted && sum.opened == total.opened &&
           sum.connections_open == total.connections_open &&
           total.backoffs == total.backoffs_emfile + total.backoffs_enfile + total.backoffs_enobufs +
                                 total.backoffs_enomem + total.backoffs_other;
}

/* A herd of which its clients' connections cannot be counted: a listener was removed, or the test says so. */
static const struct herd *check_uncounted;

/* Connections in the backlog of a TCP socket. */
CHECK_HELPER int waiting_at(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_state == TCP_LISTEN ? (int)info.tcpi_unacked : 0;
}

/* Connections in the backlog of a TCP listener: those that accept4(2) would get now. */
CHECK_HELPER int waiting_connections(const struct herd *herd, int listener)
{
    int fd = herd_listener_fd(herd, listener), more;
    CHECK(fd >= 0);
    int waiting = waiting_at(fd);
    for (int slot = 1; (more = herd_slot_listener_fd(herd, listener, slot)) >= 0; slot++) {
        waiting += more != fd ? waiting_at(more) : 0;
    }
    return waiting;
}

/* The count of a listener's port; Unix sockets have that of port 0 together. */
CHECK_HELPER unsigned *check_port(const struct herd *herd, int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    CHECK_EQ(getsockname(herd_listener_fd(herd, listener), (struct sockaddr *)&address, &length), 0);
    return address.ss_family == AF_INET    ? &check_connected[ntohs(((struct sockaddr_in *)&address)->sin_port)]
           : address.ss_family == AF_INET6 ? &check_connected[ntohs(((struct sockaddr_in6 *)&address)->sin6_port)]
                                           : check_connected;
}

/* Whether all that clients connected was accepted or is still in the backlog. A worker that was killed
 * may have died between accepting and counting. */
CHECK_HELPER int clients_are_counted(const struct herd *herd)
{
    struct herd_stats total = total_stats(herd);
    uint64_t made = 0, seen = total.accepted + total.accept_retries;
    int has_unix = 0;
    if (herd_listener_fd(herd, 0) < 0) {
        return 1; /* none has connected, or it is looked at from outside */
    }
    for (int listener = 0; herd_listener_fd(herd, listener) >= 0; listener++) {
        const unsigned *port = check_port(herd, listener);
        if (port == check_connected) {
            has_unix = 1; /* it does not tell what waits there, and no test leaves connections there */
        } else {
            made += SHARED_GET(*port);
            seen += (unsigned)waiting_connections(herd, listener);
        }
    }
    made += has_unix ? SHARED_GET(*check_connected) : 0;
    return made == seen || total.reaps > 0;
}

/* Every test that gives a herd back checks that its figures add up. A child does so only for what is
 * its own: others may be using the herd still. */
CHECK_HELPER int check_destroy(struct herd *herd)
{
    enum { ports_most = 64 };
    unsigned *ports[ports_most];
    int count = 0;
    if (herd != NULL) {
        WAIT_UNTIL(counters_add_up(herd), 10000);
    }
    if (herd != NULL && !check_in_child && herd != check_uncounted && check_connected != NULL) {
        WAIT_UNTIL(clients_are_counted(herd), 10000);
        while (count < ports_most && herd_listener_fd(herd, count) >= 0) {
            ports[count] = check_port(herd, count);
            count++;
        }
    }
    int code = herd_destroy(herd);
    while (code == 0 && count > 0) {
        SHARED_SET(*ports[--count], 0u); /* another herd may take the listeners over */
    }
    return code;
}

/* Another herd may have listened there before. */
CHECK_HELPER int check_listen(struct herd *herd, const char *address, const struct herd_listen_options *options,
                              herd_accept_fn on_accept, void *accept_data)
{
    int listener = herd_listen(herd, address, options, on_accept, accept_data);
    if (listener >= 0 && check_connected != NULL) {
        SHARED_SET(*check_port(herd, listener), 0u);
    }
    return listener;
}

CHECK_HELPER int check_remove(struct herd *herd, int listener)
{
    check_uncounted = herd;
    return herd_remove_listener(herd, listener);
}

#define herd_destroy(herd) check_destroy(herd)
#define herd_remove_listener(herd, listener) check_remove(herd, listener)
#define herd_listen(herd, address, options, on_accept, accept_data) \
    check_listen(herd, address, options, on_accept, accept_data)

/* --- Clients ----------------------------------------------------------------------------- */

/* The listener's address, as connect_to takes it. Valid until 16 more were asked for. */
CHECK_HELPER const char *address_of(const struct herd *herd, int listener)
{
    static char buffers[16][160];
    static unsigned next;
    char *buffer = buffers[next++ % 16];
    int length = herd_listener_address(herd, listener, buffer, sizeof buffers[0]);
    if (length < 0) {
        fprintf(stderr, "herd_listener_address: %s\n", herd_strerror(length));
        test_exit(1);
    }
    return buffer;
}

CHECK_HELPER void check_count(const struct sockaddr_storage *address)
{
    uint16_t port = address->ss_family == AF_INET    ? ((const struct sockaddr_in *)address)->sin_port
                    : address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                     : 0;
    if (check_connected != NULL) {
        SHARED_ADD(check_connected[ntohs(port)], 1u);
    }
}

/* A blocking client, whose reads and writes fail after 10 s, or a negated errno. */
CHECK_HELPER int connect_try(const char *address)
{
    struct sockaddr_storage storage;
    socklen_t length = 0;
    memset(&storage, 0, sizeof storage);
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un *local = (struct sockaddr_un *)&storage;
        size_t bytes = strlen(address + 5);
        CHECK(bytes > 0 && bytes < sizeof local->sun_path);
        local->sun_family = AF_UNIX;
        memcpy(local->sun_path, address + 5, bytes);
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
        if (address[5] == '@') {
            local->sun_path[0] = '\0';
            length--;
        }
    } else {
        char host[64];
        const char *colon = strrchr(address, ':');
        CHECK(colon != NULL);
        int v6 = address[0] == '[';
        size_t bytes = (size_t)(colon - address) - (v6 ? 2 : 0);
        CHECK(bytes < sizeof host);
        memcpy(host, address + (v6 ? 1 : 0), bytes);
        host[bytes] = '\0';
        uint16_t port = htons((uint16_t)atoi(colon + 1));
        if (v6) {
            struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;
            in6->sin6_family = AF_INET6;
            in6->sin6_port = port;
            CHECK_EQ(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
            length = sizeof *in6;
        } else {
            struct sockaddr_in *in = (struct sockaddr_in *)&storage;
            in->sin_family = AF_INET;
            in->sin_port = port;
            CHECK_EQ(inet_pton(AF_INET, host, &in->sin_addr), 1);
            length = sizeof *in;
        }
    }
    int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    struct timeval limit;
    limit.tv_sec = 10 * test_scale();
    limit.tv_usec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&storage, length) < 0) {
        int code = -errno;
        close(fd);
        return code;
    }
    check_count(&storage);
    return fd;
}

/* The same, and the test fails if it cannot connect. */
CHECK_HELPER int connect_to(const char *address)
{
    int fd = connect_try(address);
    if (fd < 0) {
        fprintf(stderr, "connect to %s: %s\n", address, strerror(-fd));
        test_exit(1);
    }
    return fd;
}

/* --- What a process uses ----------------------------------------------------------------- */

/* Open descriptors of this process. */
CHECK_HELPER int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int count = -1; /* the directory's own */
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            count++;
        }
    }
    closedir(dir);
    return count;
}

/* The state of a process (proc(5)): S waits, T is stopped. */
CHECK_HELPER char process_state(pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "re");
    CHECK(stat != NULL);
    char *read = fgets(line, sizeof line, stat);
    fclose(stat);
    CHECK(read != NULL);
    char *name_end = strrchr(line, ')');
    CHECK(name_end != NULL && name_end[1] == ' ');
    return name_end[2];
}

/* Sleeps of a process so far: voluntary context switches, summed over its threads. */
CHECK_HELPER long long voluntary_switches(pid_t pid)
{
    char path[320], line[256];
    long long sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", (int)pid, entry->d_name);
        FILE *status = fopen(path, "re");
        if (status == NULL) {
            continue; /* the thread has just ended */
        }
        while (fgets(line, sizeof line, status) != NULL) {
            long long switches;
            if (sscanf(line, "voluntary_ctxt_switches: %lld", &switches) == 1) {
                sum += switches;
            }
        }
        fclose(status);
    }
    closedir(dir);
    return sum;
}

#endif
