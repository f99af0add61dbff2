/*
 * arming LISTENERS [ROUNDS [TURNS]]: what it costs to take the accept right with that many listeners, arm them, give it
 * up and disarm them: herd_trylock, herd_unlock, herd_disable_accept in MUTEX mode; and nginx's way, one epoll_ctl for
 * each listener, ADD and DEL. Rounds take turns. Prints: herd NS CALLS, each NS CALLS (median ns a turn, and calls of
 * epoll_ctl a turn, which this program counts by standing before libc's).
 */
#define _GNU_SOURCE
#include <herd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 99, LISTENERS_MAX = 4096 };
static long calls;
static int listeners[LISTENERS_MAX], listener_count, epoll_fd;
static struct herd_worker *worker;

int epoll_ctl(int epfd, int operation, int fd, struct epoll_event *event)
{
    calls++;
    return (int)syscall(SYS_epoll_ctl, epfd, operation, fd, event);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void on_accept(struct herd_worker *w, int fd, const struct sockaddr *peer, uint32_t length, void *data)
{
    (void)w, (void)fd, (void)peer, (void)length, (void)data;
}

static int herd_turn(void)
{
    return (herd_trylock(worker) != 1) + (herd_unlock(worker) != 1) + (herd_disable_accept(worker) != 0);
}

static int each_turn(void)
{
    int failures = 0;
    for (int i = 0; i < listener_count; i++) {
        struct epoll_event event = { .events = EPOLLIN };
        failures += epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listeners[i], &event) != 0;
    }
    for (int i = 0; i < listener_count; i++)
        failures += epoll_ctl(epoll_fd, EPOLL_CTL_DEL, listeners[i], NULL) != 0;
    return failures;
}

int main(int argc, char **argv)
{
    static int (*const turn[2])(void) = { herd_turn, each_turn };
    static double ns[2][ROUNDS_MAX];
    long counted[2] = { 0, 0 };
    listener_count = argc > 1 ? atoi(argv[1]) : 1;
    const int rounds = argc > 2 ? atoi(argv[2]) : 11;
    const int turns = argc > 3 ? atoi(argv[3]) : 2000;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    if (listener_count < 1 || listener_count > LISTENERS_MAX || rounds < 1 || rounds > ROUNDS_MAX
        || herd_create(&config, &herd) < 0) {
        fputs("arming: no herd\n", stderr);
        return EXIT_FAILURE;
    }
    for (int i = 0; i < listener_count; i++) {
        const int number = herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL);
        if (number < 0) {
            fprintf(stderr, "arming: listener %d: %s\n", i, herd_strerror(number));
            return EXIT_FAILURE;
        }
        listeners[i] = herd_listener_fd(herd, number);
    }
    if (herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0 || (epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0) {
        fputs("arming: no worker\n", stderr);
        return EXIT_FAILURE;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 2; i++) {
            const int these = i == 0 ? turns : turns / listener_count + 1;
            const long calls_before = calls;
            const double begin = now_ns();
            for (int n = 0; n < these; n++)
                if (turn[i]() != 0) {
                    fputs("arming: a call failed\n", stderr);
                    return EXIT_FAILURE;
                }
            ns[i][round] = (now_ns() - begin) / these;
            counted[i] = (calls - calls_before) / these;
        }
    for (int i = 0; i < 2; i++) {
        qsort(ns[i], (size_t)rounds, sizeof ns[i][0], compare);
        printf("%s %.0f %ld\n", i == 0 ? "herd" : "each", ns[i][rounds / 2], counted[i]);
    }
    return EXIT_SUCCESS;
}
