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
#include <sys/resource.h>
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
    size_t bytes = 65536 * sizeof *check_connected;
    void *ports = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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

/* Limits a process's descriptors to `most`, or to as many as it may have, from outside: a worker is not woken by it. */
CHECK_HELPER void process_limit_fds(pid_t pid, rlim_t most)
{
    struct rlimit limit;
    CHECK_EQ(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    CHECK_EQ(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* Leaves it room for `count` more. The lowest numbers are taken first: a limit at the first free one leaves none. */
CHECK_HELPER void process_leave_free(pid_t pid, int count)
{
    char path[64], target[8];
    int number = 0, free_found = 0;
    for (; free_found <= count; number++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, number);
        free_found += readlink(path, target, sizeof target) < 0 && errno == ENOENT;
    }
    process_limit_fds(pid, (rlim_t)number - 1);
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

/* The state of a thread, and its sleeps so far (voluntary context switches). 0: there is no such thread. */
CHECK_HELPER char thread_state(pid_t pid, pid_t tid, long long *sleeps)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    FILE *status = fopen(path, "re");
    if (status == NULL) {
        return 0;
    }
    *sleeps = 0;
    while (fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "State: %c", &state) != 1) {
            sscanf(line, "voluntary_ctxt_switches: %lld", sleeps);
        }
    }
    fclose(status);
    return state;
}

/* Sleeps of a process so far, summed over its threads. */
CHECK_HELPER long long voluntary_switches(pid_t pid)
{
    char path[64];
    long long sum = 0, sleeps;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && thread_state(pid, atoi(entry->d_name), &sleeps) != 0) {
            sum += sleeps;
        }
    }
    closedir(dir);
    return sum;
}

#include "clients.h"

#endif
