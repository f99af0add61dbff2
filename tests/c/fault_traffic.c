/* timeout: 1800
 * A server of three workers goes on whatever system call of the library fails under traffic, with
 * whatever error of its man page, in every mode: no worker ends, every connection is answered, none is
 * answered twice, descriptors and memory are what they were, and nobody spins. HERD_TEST_SLOW=1: all errors
 * of all calls, and some for a while; else a sample. */
#include "serve.h"

#include "inject.h"

#include <limits.h>

enum {
    delay_ms = 10,
    workers = 3,
    one_by_one = 4,
    at_once = 8,
    window_ms = 50,
    /* A worker that spins makes many times as many. */
    idle_calls_a_ms_most = 40
};

static uint32_t mode;
static int is_over;
static const char *addresses[2];

/* --- The fault ------------------------------------------------------------------------------- */

static void say_where(void)
{
    if (!is_over && script->call < FAULT_CALLS) {
        fprintf(stderr, "pid %d, mode %s, %d times failed: %s with %s\n", (int)getpid(), mode_name(mode),
                script->hits, armed_name(), strerror(script->error));
    }
}

/* Whether it is what failed last in this process. */
static int has_failed(int call)
{
    return shim->last_error != 0 && shim->last_call == call;
}

/* --- The server ------------------------------------------------------------------------------ */

#define REQUIRE(condition)                                                                      \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            say_where();                                                                        \
            CHECK(condition);                                                                   \
        }                                                                                       \
    } while (0)

static void on_ready(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    struct connection *connection = (struct connection *)event->data;
    char byte;
    (void)ready;
    ssize_t got = recv(connection->fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got == 1 && send(connection->fd, &byte, 1, MSG_NOSIGNAL) == 1) {
        return;
    }
    int code = herd_event_del(of, event);
    if (code == HERD_EPOISONED && has_failed(FAULT_EPOLL_WAIT)) {
        return; /* the new worker sees to it */
    }
    /* ENOENT is what the kernel says of a number that leads to another file by now. */
    REQUIRE(code == 0 || (has_failed(FAULT_EPOLL_DEL) &&
                          code == (shim->last_error == ENOENT ? -EBADF : -shim->last_error)));
    close(connection->fd);
    connection->fd = -1;
    REQUIRE(herd_conn_closed(of) >= 0);
}

/* A host that is refused tries again: the fault hits each place where it may. */
static void watch(struct connection *connection)
{
    CHECK_CODE(herd_event_init(&connection->event, on_ready, connection), 0);
    for (;;) {
        int code = herd_event_add(serve_worker, &connection->event, connection->fd, HERD_READ);
        if (code == 0 || (code == HERD_EPOISONED && has_failed(FAULT_EPOLL_WAIT))) {
            return;
        }
        REQUIRE(has_failed(FAULT_EPOLL_ADD) && code == -shim->last_error);
    }
}

static void make_worker(int slot)
{
    CHECK_CODE(herd_worker_create(serve.herd, slot, &serve_worker), 0);
    for (int i = 0; i < connections_most; i++) {
        if (connections[i].fd >= 0) {
            CHECK(herd_conn_opened(serve_worker) >= 0);
            watch(&connections[i]);
        }
    }
}

__attribute__((noreturn)) static void run(int slot)
{
    long blocks = shim->blocks;
    inject_connections(watch);
    make_worker(slot);
    signal(SIGINT, serve_stop_on_signal);
    SHARED_SET(serve.shared->ready[slot], getpid());
    int code;
    while ((code = herd_run(serve_worker)) != 0) {
        /* The wait, or a listener, that the kernel says cannot be used. A new worker begins afresh. */
        REQUIRE(has_failed(FAULT_EPOLL_WAIT) || has_failed(FAULT_ACCEPT4));
        REQUIRE(code == -shim->last_error);
        disarm();
        CHECK_CODE(herd_worker_destroy(serve_worker), 0);
        make_worker(slot);
    }
    CHECK_CODE(herd_worker_destroy(serve_worker), 0);
    CHECK_EQ(shim->blocks, blocks);
    test_exit(0);
}

/* One line, whatever failed, and no defect. */
static void on_log(void *data, int level, const char *message)
{
    (void)data;
    REQUIRE(level >= HERD_LOG_ERROR && level <= HERD_LOG_INFO);
    REQUIRE(message[0] != '\0' && strchr(message, '\n') == NULL && strstr(message, " at src/") == NULL);
}

static void start(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.accept_delay_ms = delay_ms;
    config.log = on_log;
    serve_prepare(&config, workers);
    CHECK_CODE(herd_remove_listener(serve.herd, 0), 0);
    for (int i = 0; i < 2; i++) {
        addresses[i] = address_of(serve.herd, new_listener(serve.herd, inject_on_accept, NULL));
    }
    for (int slot = 0; slot < workers; slot++) {
        serve.pids[slot] = test_fork();
        if (serve.pids[slot] == 0) {
            run(slot);
        }
    }
    serve_settle();
}

static void end(void)
{
    for (int slot = 0; slot < workers; slot++) {
        kill(serve.pids[slot], SIGINT);
    }
    for (int slot = 0; slot < workers; slot++) {
        CHECK_EQ(test_join(serve.pids[slot]), 0);
        serve.pids[slot] = 0;
    }
    check_uncounted = serve.herd; /* an accept4 that fails by force takes nobody off the backlog */
    CHECK_CODE(herd_destroy(serve.herd), 0);
}

/* --- The clients ----------------------------------------------------------------------------- */

static int64_t longest_us;

static int begin(int number)
{
    return connect_to(addresses[number % 2]);
}

static void finish(int fd)
{
    int64_t began_us = now_us();
    int slot = serve_greeting(fd, 10000);
    longest_us = now_us() - began_us > longest_us ? now_us() - began_us : longest_us;
    REQUIRE(slot >= 0 && slot < workers);
    serve_echo(fd);
    CHECK_EQ(serve_greeting(fd, 0), -1);
    close(fd);
}

static void clients(void)
{
    int fds[at_once];
    for (int i = 0; i < one_by_one; i++) {
        finish(begin(i));
    }
    for (int i = 0; i < at_once; i++) {
        fds[i] = begin(i);
    }
    for (int i = 0; i < at_once; i++) {
        finish(fds[i]);
    }
}

/* --- All faults ------------------------------------------------------------------------------ */

static long long rounds, hits_of[FAULT_CALLS];
static int fds_of[workers];

static long long all_hits(void)
{
    long long sum = 0;
    for (int call = 0; call < FAULT_CALLS; call++) {
        sum += hits_of[call];
    }
    return sum;
}

static int all_are_well(void)
{
    for (int slot = 0; slot < workers; slot++) {
        REQUIRE(!test_ended(serve.pids[slot]));
        if (process_fds(serve.pids[slot]) != fds_of[slot]) {
            return 0;
        }
    }
    struct herd_stats total = serve_total();
    return total.connections_open == 0 && total.handoff_sent == total.handoff_received &&
           total.workers == workers;
}

static void check_nobody_spins(void)
{
    long long made = calls_made();
    int64_t began_ms = now_ms();
    sleep_ms(window_ms);
    made = calls_made() - made;
    int took_ms = (int)(now_ms() - began_ms);
    if (made > (long long)idle_calls_a_ms_most * took_ms) {
        fprintf(stderr, "%lld calls in %d ms without a client\n", made, took_ms);
        say_where();
        test_exit(1);
    }
}

static void end_round(int call)
{
    int64_t deadline = now_ms() + 10000;
    while (!all_are_well()) {
        REQUIRE(now_ms() < deadline);
        sleep_ms(1);
    }
    hits_of[call] += script->hits;
    disarm();
    rounds++;
}

static void round_with(int call, int error, int before, int failing)
{
    arm(call, error, before, failing);
    clients();
    if (failing > 1 || rounds % 8 == 0) {
        check_nobody_spins();
    }
    end_round(call);
}

/* It fails until this is over, and nobody comes meanwhile. */
static void round_that_lasts(int call, int error)
{
    arm(call, error, 0, INT_MAX);
    check_nobody_spins();
    script->failing = 0;
    clients();
    end_round(call);
}

static void all_faults(int is_slow)
{
    start();
    for (int slot = 0; slot < workers; slot++) {
        fds_of[slot] = process_fds(serve.pids[slot]);
    }
    memset(script->made, 0, sizeof script->made);
    clients();
    sleep_ms(3 * delay_ms);
    long long made[FAULT_CALLS];
    memcpy(made, script->made, sizeof made);
    for (int call = 0; call < FAULT_CALLS; call++) {
        int count = made[call] < 30 ? (int)made[call] : 30, errors = error_count(call);
        for (int i = 0; count > 0 && i < errors; i++) {
            int error = shim->calls[call].errnos[i];
            int is_sampled = (i + call + (int)mode) % errors == 0;
            if (!is_slow && is_sampled) {
                round_with(call, error, (5 * (int)mode + call) % count, 1);
            }
            for (int before = 0; is_slow && before < count; before++) {
                round_with(call, error, before, 1);
            }
            if (can_last(error) && (is_slow || (i + call + (int)mode) % mode_count == 0)) {
                round_with(call, error, 0, is_slow ? 100 : 20);
            }
            /* A call that a signal interrupts is made again, and so is one that finds nothing where something is. */
            if (error == EIO || (can_last(error) && error != EINTR && error != EAGAIN)) {
                round_that_lasts(call, error);
            }
        }
    }
    end();
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(test_is_slow() ? 1780 : 58);
    inject_begin(argv);
    for (int i = 0; i < mode_count; i++) {
        mode = all_modes[i];
        int64_t began_ms = now_ms();
        long long hits = all_hits();
        longest_us = 0;
        all_faults(test_is_slow());
        CHECK(all_hits() > hits);
        printf("%s: %lld rounds, %d ms, the longest wait %d ms\n", mode_name(mode), rounds,
               (int)(now_ms() - began_ms), (int)(longest_us / 1000));
    }
    is_over = 1;
    for (int call = 0; call < FAULT_CALLS; call++) {
        if (hits_of[call] > 0) {
            printf("%-40s failed %lld times\n", shim->calls[call].name, hits_of[call]);
        }
    }
    test_exit(0);
}
