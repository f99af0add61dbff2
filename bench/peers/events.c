/*
 * events FDS TURNS: so many eventfds that stay readable, watched for it, and so many turns of the loop, in each of
 * which every one of them is an event: what a library adds to epoll. A program for each contender (FOR_...), since the
 * libraries' names clash. Prints: name, ns an event.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#if defined FOR_HERD
#include <herd.h>
#elif defined FOR_LIBEVENT
#include <event2/event.h>
#include <event2/event_struct.h>
#elif defined FOR_LIBUV
#include <uv.h>
#elif defined FOR_LIBEV
#pragma GCC diagnostic ignored "-Wstrict-aliasing"
#include <ev.h>
#endif

enum { FDS_MAX = 1024 };
static long handled;

static void fail(const char *what)
{
    fprintf(stderr, "events: %s\n", what);
    exit(EXIT_FAILURE);
}

static int readable_fd(void)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        fail("eventfd");
    return fd;
}

#if defined FOR_RAW
static const char name[] = "raw";
static int epoll_fd;
struct watched {
    int fd;
    void (*handler)(struct watched *watched);
} watched[FDS_MAX];

static void on_ready(struct watched *of)
{
    (void)of;
    handled++;
}

static void watch(int fds)
{
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < fds; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &watched[i] };
        watched[i] = (struct watched){ readable_fd(), on_ready };
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watched[i].fd, &event) != 0)
            fail("epoll_ctl");
    }
}

static void turn(void)
{
    struct epoll_event events[FDS_MAX];
    const int count = epoll_wait(epoll_fd, events, FDS_MAX, 0);
    for (int i = 0; i < count; i++) {
        struct watched *ready = events[i].data.ptr;
        ready->handler(ready);
    }
}
#elif defined FOR_HERD
static const char name[] = "herd";
static struct herd_worker *worker;
static struct herd_event watched[FDS_MAX];

static void on_ready(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of, (void)event, (void)ready;
    handled++;
}

static void watch(int fds)
{
    struct herd *herd;
    if (herd_create(NULL, &herd) < 0 || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0)
        fail("no herd");
    for (int i = 0; i < fds; i++) {
        herd_event_init(&watched[i], on_ready, NULL);
        if (herd_event_add(worker, &watched[i], readable_fd(), HERD_READ) < 0)
            fail("herd_event_add");
    }
}

static void turn(void)
{
    herd_run_once(worker, 0);
}
#elif defined FOR_LIBEVENT
static const char name[] = "libevent";
static struct event_base *base;
static struct event watched[FDS_MAX];

static void on_ready(evutil_socket_t fd, short ready, void *data)
{
    (void)fd, (void)ready, (void)data;
    handled++;
}

static void watch(int fds)
{
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base = event_base_new_with_config(config);
    for (int i = 0; i < fds; i++) {
        event_assign(&watched[i], base, readable_fd(), EV_READ | EV_PERSIST, on_ready, NULL);
        if (event_add(&watched[i], NULL) != 0)
            fail("event_add");
    }
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK); /* without ONCE it goes on as long as events come */
}
#elif defined FOR_LIBUV
static const char name[] = "libuv";
static uv_loop_t loop;
static uv_poll_t watched[FDS_MAX];

static void on_ready(uv_poll_t *poll, int status, int ready)
{
    (void)poll, (void)status, (void)ready;
    handled++;
}

static void watch(int fds)
{
    uv_loop_init(&loop);
    for (int i = 0; i < fds; i++)
        if (uv_poll_init(&loop, &watched[i], readable_fd()) != 0
            || uv_poll_start(&watched[i], UV_READABLE, on_ready) != 0)
            fail("uv_poll");
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}
#elif defined FOR_LIBEV
static const char name[] = "libev";
static struct ev_loop *loop;
static ev_io watched[FDS_MAX];

static void on_ready(struct ev_loop *of, ev_io *io, int ready)
{
    (void)of, (void)io, (void)ready;
    handled++;
}

static void watch(int fds)
{
    loop = ev_loop_new(EVBACKEND_EPOLL);
    for (int i = 0; i < fds; i++) {
        ev_io_init(&watched[i], on_ready, readable_fd(), EV_READ);
        ev_io_start(loop, &watched[i]);
    }
}

static void turn(void)
{
    ev_run(loop, EVRUN_NOWAIT);
}
#endif

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    const int fds = argc > 1 ? atoi(argv[1]) : 1;
    const long turns = argc > 2 ? atol(argv[2]) : 1000000;
    if (fds < 1 || fds > FDS_MAX || turns < 1)
        fail("FDS or TURNS");
    watch(fds);
    const double begin = now_ns();
    for (long i = 0; i < turns; i++)
        turn();
    printf("%s %.1f\n", name, (now_ns() - begin) / (double)handled);
    if (handled < turns * fds * 9 / 10) /* libuv polls again within a turn */
        fail("events were missed");
    return EXIT_SUCCESS;
}
