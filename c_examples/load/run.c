/*
 * Run: one thread, one epoll, one loop of: start what is due, fail what is overdue, wait. A connection is in one list at
 * a time (free, in flight, held), and that is its state. Knows the plan and not the modes, and no HTTP.
 */
#define _GNU_SOURCE
#include "run.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    EVENTS_PER_WAIT = 256,
    PAUSE_US = 1000,           /* after a failure, a full backlog, or no free local port */
    FAILURES_TO_GIVE_UP = 100, /* in a closed loop: so many more than clients, in a row */
    SWEEP_INTERVAL_US = 20000, /* how exact a timeout is */
    RESERVED_FDS = 32          /* stdio, epoll, /proc and what the caller left open */
};

struct connection_list {
    TAILQ_HEAD(, connection) head;
    size_t count;
};

static struct run {
    struct plan plan;
    struct target target;
    sigset_t unblocked;
    int epoll_fd;
    struct connection *connections;
    struct connection_list free, in_flight, held;
    uint64_t begin_us, started, next_sweep_us, paused_until_us, stay_until_us, failures_in_a_row;
    bool holding; /* all are open that stay */
    unsigned next_source;
} run;
static struct results results;

static volatile sig_atomic_t interrupted;
static void on_signal(int number) { interrupted = number; }

/* ---- one connection ---- */

static void move_to(struct connection_list *list, struct connection *connection)
{
    if (connection->list != NULL) {
        TAILQ_REMOVE(&connection->list->head, connection, link);
        connection->list->count--;
    }
    connection->list = list;
    list->count++;
    if (list == &run.free) /* the next one finds its memory in the cache */
        TAILQ_INSERT_HEAD(&list->head, connection, link);
    else
        TAILQ_INSERT_TAIL(&list->head, connection, link);
}

/* Close also ends the interest of epoll, as nobody else has the file; so an event can never meet another
 * connection in the same place. */
static void release(struct connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    move_to(&run.free, connection);
}

static void complete(struct connection *connection)
{
    results.completed++;
    if (connection->answer.slot < SLOTS_MAX)
        results.slots[connection->answer.slot]++;
    release(connection);
}

static void fail(struct connection *connection, int outcome)
{
    results.failed++;
    results.outcomes[outcome]++;
    release(connection);
    if (run.plan.is_open_loop)
        return;
    run.paused_until_us = now_us() + PAUSE_US; /* a server that refuses everything must not make us spin */
    if (++run.failures_in_a_row > run.plan.in_flight_max + FAILURES_TO_GIVE_UP)
        results.stopped = "gave_up";
}

static void settle(struct connection *connection, int outcome)
{
    if (outcome == UNDECIDED)
        return;
    if (outcome != ANSWERED) {
        fail(connection, outcome);
        return;
    }
    run.failures_in_a_row = 0;
    if (connection->request != &run.plan.slow_request)
        record(&results.latency, now_us() - connection->latency_from_us);
    if (connection->request->keep_alive)
        move_to(&run.held, connection);
    else
        complete(connection);
}

/* ---- what is due ---- */

/* A time that no answer can move. */
static uint64_t due_us(void) { return run.begin_us + (uint64_t)((double)run.started * run.plan.interval_us); }

static uint64_t last_start_us(void) { return run.plan.start_us == NEVER ? NEVER : run.begin_us + run.plan.start_us; }

static bool all_started(uint64_t now) { return run.started >= run.plan.total || now >= last_start_us(); }

/* When the next connect may start, or NEVER if only an answer can allow one. */
static uint64_t next_connect_us(uint64_t now)
{
    if (all_started(now) || run.free.count == 0 || run.in_flight.count >= run.plan.in_flight_max)
        return NEVER;
    return larger(due_us(), run.paused_until_us);
}

static void start_connection(uint64_t now)
{
    struct connection *connection = TAILQ_FIRST(&run.free.head);
    const uint64_t from_us = run.plan.is_open_loop ? due_us() : now, deadline_us = from_us + run.plan.timeout_us;
    int fd = now < deadline_us ? connect_to(&run.target, run.next_source++) : -ETIMEDOUT;
    /* A unix listener with a full backlog says EAGAIN (unix(7)); EADDRNOTAVAIL: all local ports in use (ip(7)). */
    if (fd == -EAGAIN || fd == -EADDRNOTAVAIL) {
        (*(fd == -EAGAIN ? &results.backlog_full : &results.ports_exhausted))++;
        run.paused_until_us = now + PAUSE_US; /* the same one is tried again */
        return;
    }
    run.started++;
    const bool slow = run.plan.slow_every != 0 && run.started % run.plan.slow_every == 0;
    connection->latency_from_us = from_us;
    connection->deadline_us = deadline_us;
    move_to(&run.in_flight, connection);
    settle(connection,
           begin_request(connection, fd, slow ? &run.plan.slow_request : &run.plan.request, run.epoll_fd));
}

static void fail_overdue(uint64_t now)
{
    for (struct connection *at = TAILQ_FIRST(&run.in_flight.head), *next; at != NULL; at = next) {
        next = TAILQ_NEXT(at, link);
        if (now >= at->deadline_us)
            fail(at, TIMED_OUT);
    }
    run.next_sweep_us = now + SWEEP_INTERVAL_US;
}

/* True when nothing is left to do; also goes from opening to holding. */
static bool is_finished(uint64_t now)
{
    if (results.stopped != NULL)
        return true;
    if (!all_started(now) || run.in_flight.count > 0)
        return false;
    if (!run.holding) {
        run.holding = true;
        results.opened_us = now - run.begin_us;
        run.stay_until_us = now + run.plan.stay_us;
    }
    return run.held.count == 0 || now >= run.stay_until_us;
}

/* epoll_wait's own timeout is in ms: a schedule kept to 1 ms would measure itself. The signals are unblocked only
 * here, so that none comes between a look at `interrupted` and the wait. */
static void wait_for_events(void)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    struct pollfd epoll = { .fd = run.epoll_fd, .events = POLLIN };
    uint64_t now = now_us(), wake = smaller(next_connect_us(now), run.holding ? run.stay_until_us : last_start_us());
    if (run.in_flight.count > 0)
        wake = smaller(wake, run.next_sweep_us);
    const uint64_t left_us = smaller(wake > now ? wake - now : 0, US_PER_S);
    const struct timespec timeout = { (time_t)(left_us / US_PER_S), (long)(left_us % US_PER_S) * 1000 };
    if (ppoll(&epoll, 1, &timeout, &run.unblocked) > 0) {
        int count = epoll_wait(run.epoll_fd, events, EVENTS_PER_WAIT, 0);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            settle(connection, continue_connection(connection, events[i].events, run.epoll_fd));
        }
    }
    if (interrupted)
        results.stopped = "interrupted";
}

/* ---- the run ---- */

static void block_stop_signals(void)
{
    sigset_t stop_signals;
    sigemptyset(&stop_signals);
    sigaddset(&stop_signals, SIGINT);
    sigaddset(&stop_signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop_signals, &run.unblocked);
    sigdelset(&run.unblocked, SIGINT);
    sigdelset(&run.unblocked, SIGTERM);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}

static void raise_file_limit(size_t connections)
{
    struct rlimit limit = { 0, 0 };
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t files = connections + RESERVED_FDS;
    const struct rlimit higher = { files, larger(files, limit.rlim_max) }; /* root may, up to fs.nr_open */
    if (limit.rlim_cur < files && setrlimit(RLIMIT_NOFILE, &higher) != 0)
        errx(EXIT_USAGE, "%zu connections need %zu open files: raise the limit with ulimit -n", connections, (size_t)files);
}

void prepare_run(const struct plan *plan, const struct target *target)
{
    const size_t size = plan->connections_max;
    block_stop_signals();
    raise_file_limit(size);
    run.plan = *plan;
    run.target = *target;
    run.connections = calloc(size, sizeof *run.connections);
    run.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (run.epoll_fd < 0 || run.connections == NULL)
        errx(EXIT_USAGE, "epoll, or memory for %zu connections: %s", size, strerror(errno));
    TAILQ_INIT(&run.free.head);
    TAILQ_INIT(&run.in_flight.head);
    TAILQ_INIT(&run.held.head);
    for (size_t i = 0; i < size; i++) {
        run.connections[i].fd = -1;
        move_to(&run.free, &run.connections[i]);
    }
}

void perform_run(void)
{
    uint64_t now = now_us();
    prctl(PR_SET_TIMERSLACK, 1UL); /* 1 ns; by default a wait ends up to 50 us late */
    run.begin_us = now;
    while (!is_finished(now = now_us())) {
        for (; next_connect_us(now) <= now; now = now_us())
            start_connection(now);
        if (now >= run.next_sweep_us)
            fail_overdue(now);
        wait_for_events();
    }
    results.elapsed_us = now - run.begin_us;
    if (!run.holding)
        results.opened_us = results.elapsed_us;
}

const struct results *end_run(void)
{
    while (run.held.count > 0)
        complete(TAILQ_FIRST(&run.held.head));
    while (run.in_flight.count > 0)
        release(TAILQ_FIRST(&run.in_flight.head));
    close(run.epoll_fd);
    free(run.connections);
    return &results;
}
