/*
 * timers [COUNT]: that many timers started and stopped again, due at scattered times within 1000 s. A program for
 * each contender (FOR_...), since the libraries' names clash. Prints: name, ns to start one, ns to stop one.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

static long count;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Scattered, and the same for every contender. */
static uint32_t due_ms(long i)
{
    return 1 + (uint32_t)((uint64_t)i * 2654435761u % 1000000);
}

static void fail(const char *what)
{
    fprintf(stderr, "timers: %s\n", what);
    exit(EXIT_FAILURE);
}

static void *array_of(size_t bytes)
{
    void *array = calloc((size_t)count, bytes);
    if (array == NULL)
        fail("no memory");
    return array;
}

static void report(const char *name, double begin, double started, double stopped)
{
    printf("%s %.1f %.1f\n", name, (started - begin) / (double)count, (stopped - started) / (double)count);
}

#if defined FOR_HERD
static void on_herd_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    (void)worker, (void)timer;
}

static void measure(void)
{
    struct herd_timer *timers = array_of(sizeof *timers);
    struct herd *herd;
    struct herd_worker *worker;
    if (herd_create(NULL, &herd) < 0 || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0)
        fail("no herd");
    for (long i = 0; i < count; i++)
        herd_timer_init(&timers[i], on_herd_timer, NULL);
    const double begin = now_ns();
    for (long i = 0; i < count; i++)
        if (herd_timer_start(worker, &timers[i], due_ms(i)) < 0)
            fail("herd_timer_start");
    const double started = now_ns();
    for (long i = 0; i < count; i++)
        herd_timer_stop(worker, &timers[i]);
    report("herd", begin, started, now_ns());
    herd_worker_destroy(worker);
    herd_destroy(herd);
    free(timers);
}

#elif defined FOR_LIBEVENT
static void on_libevent_timer(evutil_socket_t fd, short what, void *data)
{
    (void)fd, (void)what, (void)data;
}

static void measure(void)
{
    struct event *timers = array_of(sizeof *timers);
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    for (long i = 0; i < count; i++)
        evtimer_assign(&timers[i], base, on_libevent_timer, NULL);
    const double begin = now_ns();
    for (long i = 0; i < count; i++) {
        const struct timeval due = { due_ms(i) / 1000, due_ms(i) % 1000 * 1000 };
        if (evtimer_add(&timers[i], &due) != 0)
            fail("evtimer_add");
    }
    const double started = now_ns();
    for (long i = 0; i < count; i++)
        evtimer_del(&timers[i]);
    report("libevent", begin, started, now_ns());
    event_base_free(base);
    free(timers);
}
#elif defined FOR_LIBUV
static void on_libuv_timer(uv_timer_t *timer)
{
    (void)timer;
}

static void measure(void)
{
    uv_timer_t *timers = array_of(sizeof *timers);
    uv_loop_t loop;
    uv_loop_init(&loop);
    for (long i = 0; i < count; i++)
        uv_timer_init(&loop, &timers[i]);
    const double begin = now_ns();
    for (long i = 0; i < count; i++)
        uv_timer_start(&timers[i], on_libuv_timer, due_ms(i), 0);
    const double started = now_ns();
    for (long i = 0; i < count; i++)
        uv_timer_stop(&timers[i]);
    report("libuv", begin, started, now_ns()); /* loop and timers stay: the process ends soon */
}
#elif defined FOR_LIBEV
static void on_libev_timer(struct ev_loop *loop, ev_timer *timer, int what)
{
    (void)loop, (void)timer, (void)what;
}

static void measure(void)
{
    ev_timer *timers = array_of(sizeof *timers);
    struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL);
    for (long i = 0; i < count; i++)
        ev_timer_init(&timers[i], on_libev_timer, due_ms(i) / 1000.0, 0);
    const double begin = now_ns();
    for (long i = 0; i < count; i++)
        ev_timer_start(loop, &timers[i]);
    const double started = now_ns();
    for (long i = 0; i < count; i++)
        ev_timer_stop(loop, &timers[i]);
    report("libev", begin, started, now_ns());
    ev_loop_destroy(loop);
    free(timers);
}
#endif

int main(int argc, char **argv)
{
    count = argc > 1 ? atol(argv[1]) : 1000000;
    if (count < 1)
        fail("count");
    measure();
    return EXIT_SUCCESS;
}
