/*
 * A small prefork server on libherd for the case_ programs. A worker greets each connection with
 * one byte, its slot, sends back what it gets, and closes at the end of file. SIGTERM drains it,
 * SIGINT stops it. Includes check.h. C99 and C++17.
 */
#ifndef SERVE_H
#define SERVE_H

#include "check.h"

#include <poll.h>

#define SERVE_MAX_WORKERS 64

struct serve_shared {
    pid_t ready[SERVE_MAX_WORKERS];
    unsigned accepted[SERVE_MAX_WORKERS];
    /* Set by the test: the worker waits for it before it makes its herd_worker. */
    unsigned hold_back;
    /* The test's own word to its workers. */
    int knob;
};

struct serve_connection {
    struct herd_event event;
};

static struct {
    struct herd *herd;
    const char *address;
    int workers;
    /* 0 where the worker has ended. */
    pid_t pids[SERVE_MAX_WORKERS];
    struct serve_shared *shared;
    /* Extra work of a test in the worker, after it accepted. */
    void (*on_accept)(struct herd_worker *worker, int slot);
    /* And when a request came. */
    void (*on_request)(struct herd_worker *worker);
    /* And between its last turn and the end of its herd_worker. */
    void (*on_end)(void);
} serve;

static struct herd_worker *serve_worker;

/* --- The worker's side ------------------------------------------------------------------- */

CHECK_HELPER void serve_drain_on_signal(int signal_number)
{
    (void)signal_number;
    herd_drain(serve_worker);
}

CHECK_HELPER void serve_stop_on_signal(int signal_number)
{
    (void)signal_number;
    herd_stop(serve_worker);
}

CHECK_HELPER void serve_on_ready(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    char bytes[512];
    (void)ready;
    for (;;) {
        ssize_t got = recv(event->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got > 0 && serve.on_request != NULL) {
            serve.on_request(worker);
        }
        if (got <= 0 || send(event->fd, bytes, (size_t)got, MSG_NOSIGNAL) != got) {
            break;
        }
    }
    int fd = event->fd;
    CHECK_CODE(herd_event_del(worker, event), 0);
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
    free(event->data);
}

CHECK_HELPER void serve_on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                                  uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    (void)data;
    int slot = herd_worker_slot(worker);
    struct serve_connection *connection =
        (struct serve_connection *)malloc(sizeof(struct serve_connection));
    CHECK(connection != NULL);
    CHECK_CODE(herd_event_init(&connection->event, serve_on_ready, connection), 0);
    CHECK_CODE(herd_event_add(worker, &connection->event, fd, HERD_READ), 0);
    SHARED_ADD(serve.shared->accepted[slot], 1u);
    if (serve.on_accept != NULL) {
        serve.on_accept(worker, slot);
    }
    char greeting = (char)slot;
    ssize_t sent = send(fd, &greeting, 1, MSG_NOSIGNAL);
    (void)sent; /* a client that has gone is seen in the next read */
}

__attribute__((noreturn)) CHECK_HELPER void serve_run(int slot)
{
    /* The test's clients are open here too, and would stay so after the test has closed them. */
    struct sockaddr_storage peer;
    for (int fd = 3; fd < 1024; fd++) {
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.ss_family == AF_INET) {
            close(fd);
        }
    }
    while (SHARED_GET(serve.shared->hold_back)) {
        sleep_ms(1);
    }
    CHECK_CODE(herd_worker_create(serve.herd, slot, &serve_worker), 0);
    signal(SIGTERM, serve_drain_on_signal);
    signal(SIGINT, serve_stop_on_signal);
    SHARED_SET(serve.shared->ready[slot], getpid());
    int code = herd_run(serve_worker);
    if (code != 0) {
        fprintf(stderr, "slot %d: herd_run: %d (%s)\n", slot, code, herd_strerror(code));
    }
    if (serve.on_end != NULL) {
        serve.on_end();
    }
    CHECK_CODE(herd_worker_destroy(serve_worker), 0);
    test_exit(code == 0 ? 0 : 1);
}

/* --- What a process does ------------------------------------------------------------------ */

CHECK_HELPER int process_sleeps(pid_t pid)
{
    return process_state(pid) == 'S';
}

CHECK_HELPER int process_fds(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

/* Memory that a process has in RAM. */
CHECK_HELPER long process_rss_kib(pid_t pid)
{
    char path[64];
    long total_pages = 0, resident_pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *statm = fopen(path, "re");
    CHECK(statm != NULL);
    int read = fscanf(statm, "%ld %ld", &total_pages, &resident_pages);
    fclose(statm);
    CHECK(read == 2);
    return resident_pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* --- The test's side ---------------------------------------------------------------------- */

CHECK_HELPER struct herd_stats serve_stats(int slot)
{
    return slot_stats(serve.herd, slot);
}

CHECK_HELPER struct herd_stats serve_total(void)
{
    return total_stats(serve.herd);
}

/* Sleeps of all workers so far. */
CHECK_HELPER long long serve_sleeps(void)
{
    long long sum = 0;
    for (int slot = 0; slot < serve.workers; slot++) {
        sum += serve.pids[slot] > 0 ? voluntary_switches(serve.pids[slot]) : 0;
    }
    return sum;
}

/* process_limit_fds for each worker. */
CHECK_HELPER void serve_limit_fds(rlim_t most)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        process_limit_fds(serve.pids[slot], most);
    }
}

/* Starts a worker. `serve_settle` waits for it. */
CHECK_HELPER void serve_fork(int slot)
{
    SHARED_SET(serve.shared->ready[slot], 0);
    pid_t pid = test_fork();
    if (pid == 0) {
        serve_run(slot);
    }
    serve.pids[slot] = pid;
}

CHECK_HELPER int serve_all_sleep(void)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        pid_t pid = serve.pids[slot];
        if (pid > 0 && (SHARED_GET(serve.shared->ready[slot]) != pid || !process_sleeps(pid))) {
            return 0;
        }
    }
    return 1;
}

/* Waits until all workers are in their wait and have nothing to do. */
CHECK_HELPER void serve_settle(void)
{
    int64_t deadline = now_ms() + 20000 * test_scale();
    for (;;) {
        for (int slot = 0; slot < serve.workers; slot++) {
            CHECK(serve.pids[slot] == 0 || !test_ended(serve.pids[slot]));
        }
        long long sleeps = serve_all_sleep() ? serve_sleeps() : -1;
        sleep_ms(5);
        if (sleeps >= 0 && serve_all_sleep() && serve_sleeps() == sleeps) {
            return;
        }
        CHECK(now_ms() < deadline);
    }
}

/* No worker woke for a connection that another one got, but in two cases. The guard found it waiting for one
   that was not run for so long that it looked stopped, and had another accept it. Or a tick of the guard kept a
   worker from its wait just when the connection came: the kernel then wakes the next one, and both find the
   listener ready (ep_poll_callback in fs/eventpoll.c). */
CHECK_HELPER void serve_check_waste(const struct herd_stats *before, const struct herd_stats *after)
{
    uint64_t rescued = after->thefts - before->thefts + after->blind_accepts - before->blind_accepts;
    uint64_t most = rescued + after->guard_ticks - before->guard_ticks;
    CHECK(after->accept_eagain - before->accept_eagain <= most);
    CHECK(after->wasted_wakeups - before->wasted_wakeups <= most);
}

/* The herd without its workers. `max_workers` becomes `workers` unless it is given. */
CHECK_HELPER void serve_prepare(const struct herd_config *wanted, int workers)
{
    struct herd_config config = *wanted;
    if (config.max_workers == 0) {
        config.max_workers = (uint32_t)workers;
    }
    CHECK(workers <= SERVE_MAX_WORKERS);
    if (serve.shared == NULL) {
        serve.shared = (struct serve_shared *)shared_memory(sizeof *serve.shared);
    }
    memset(serve.shared, 0, sizeof *serve.shared);
    memset(serve.pids, 0, sizeof serve.pids);
    serve.workers = workers;
    CHECK_CODE(herd_create(&config, &serve.herd), 0);
    CHECK_CODE(herd_listen(serve.herd, "127.0.0.1:0", NULL, serve_on_accept, NULL), 0);
    serve.address = address_of(serve.herd, 0);
}

CHECK_HELPER void serve_start(const struct herd_config *config, int workers)
{
    serve_prepare(config, workers);
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
}

/* A server in a process of its own, whose herd is not the test's. */
struct serve_apart {
    pid_t pid, workers[SERVE_MAX_WORKERS];
    int worker_count;
    char address[64];
    unsigned ready;
};

CHECK_HELPER struct serve_apart *serve_start_apart(const struct herd_config *config, int workers)
{
    struct serve_apart *server = (struct serve_apart *)shared_memory(sizeof *server);
    pid_t pid = test_fork();
    if (pid == 0) {
        serve_start(config, workers);
        memcpy(server->workers, serve.pids, sizeof server->workers);
        snprintf(server->address, sizeof server->address, "%s", serve.address);
        SHARED_SET(server->ready, 1u);
        for (;;) {
            pause();
        }
    }
    server->pid = pid;
    server->worker_count = workers;
    WAIT_UNTIL(SHARED_GET(server->ready), 20000);
    return server;
}

CHECK_HELPER void serve_signal_apart(const struct serve_apart *server, int signal_number)
{
    for (int slot = 0; slot < server->worker_count; slot++) {
        kill(server->workers[slot], signal_number);
    }
}

/* All of it. Its workers are not the test's to reap. */
CHECK_HELPER void serve_kill_apart(const struct serve_apart *server)
{
    test_kill(server->pid);
    serve_signal_apart(server, SIGKILL);
}

/* Each worker has counted what it got. In HANDOFF who accepts passes connections on; and a test that takes
 * connections itself does not count them in the callback. */
CHECK_HELPER void serve_workers_count(void)
{
    struct herd_stats total = serve_total();
    unsigned in_callback = 0;
    for (int slot = 0; slot < serve.workers; slot++) {
        in_callback += SHARED_GET(serve.shared->accepted[slot]);
    }
    for (int slot = 0; slot < serve.workers; slot++) {
        if (in_callback > 0 && total.reaps == 0 && total.handoff_sent == 0) {
            CHECK_EQ(serve_stats(slot).accepted, SHARED_GET(serve.shared->accepted[slot]));
        }
    }
}

/* Stops the workers that are left, and gives the herd back. */
CHECK_HELPER void serve_end(void)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        if (serve.pids[slot] > 0) {
            kill(serve.pids[slot], SIGINT);
        }
    }
    for (int slot = 0; slot < serve.workers; slot++) {
        if (serve.pids[slot] > 0) {
            CHECK_EQ(test_join(serve.pids[slot]), 0);
            serve.pids[slot] = 0;
        }
    }
    serve_workers_count();
    CHECK_CODE(herd_destroy(serve.herd), 0);
    serve.herd = NULL;
}

/* The slot that greets the connection within `ms`; -1: none did; -2: it was closed. */
CHECK_HELPER int serve_greeting(int fd, int ms)
{
    struct pollfd polled;
    polled.fd = fd;
    polled.events = POLLIN;
    polled.revents = 0;
    unsigned char slot;
    if (poll(&polled, 1, ms * test_scale()) != 1) {
        return -1;
    }
    return recv(fd, &slot, 1, 0) == 1 ? (int)slot : -2;
}

/* A connection that was accepted, and by which slot. */
CHECK_HELPER int serve_connect(int *slot)
{
    int fd = connect_to(serve.address);
    *slot = serve_greeting(fd, 10000);
    CHECK(*slot >= 0 && *slot < serve.workers);
    return fd;
}

/* A request and its answer. */
CHECK_HELPER void serve_echo(int fd)
{
    char byte = 'x';
    CHECK_EQ(send(fd, &byte, 1, MSG_NOSIGNAL), 1);
    byte = 0;
    CHECK_EQ(recv(fd, &byte, 1, 0), 1);
    CHECK_EQ(byte, 'x');
}

/* The slot that has the accept right while all are idle: the only one that acquired it since it gave
 * it up to serve a connection. While it served, another one could have taken it: then once more.
 * `kept` gets the connection, or is NULL to have it closed. */
CHECK_HELPER int serve_find_holder(int *kept)
{
    uint64_t open = serve_total().connections_open;
    for (int tries = 0; tries < 20; tries++) {
        uint64_t before[SERVE_MAX_WORKERS];
        for (int slot = 0; slot < serve.workers; slot++) {
            before[slot] = serve_stats(slot).acquisitions;
        }
        int holder, others = 0, client = serve_connect(&holder);
        if (kept == NULL) {
            close(client);
            WAIT_UNTIL(serve_total().connections_open == open, 10000);
        }
        serve_settle();
        for (int slot = 0; slot < serve.workers; slot++) {
            others += slot != holder && serve_stats(slot).acquisitions != before[slot];
        }
        if (others == 0) {
            if (kept != NULL) {
                *kept = client;
            }
            return holder;
        }
        if (kept != NULL) {
            close(client);
            WAIT_UNTIL(serve_total().connections_open == open, 10000);
        }
    }
    fprintf(stderr, "the accept right does not stay with a worker\n");
    test_exit(1);
}

/* Reports a death. Another worker may have found it first and freed the slot. */
CHECK_HELPER void serve_report(int slot, pid_t dead)
{
    int freed = herd_reap(serve.herd, dead);
    CHECK(freed == 0 || freed == 1);
    CHECK_EQ(serve_stats(slot).workers, 0);
}

/* Kills a worker as a crash would. The herd is not told. Returns its pid. */
CHECK_HELPER pid_t serve_crash(int slot)
{
    pid_t pid = serve.pids[slot];
    serve.pids[slot] = 0;
    test_kill(pid);
    return pid;
}

#endif
