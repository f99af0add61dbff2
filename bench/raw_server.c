/*
 * raw_server: the peer that libherd is compared with, written by hand on epoll as its users would write it.
 *
 * It does the job of c_examples/hello_prefork (same requests, same answers, same headers), one connection
 * accepted a turn, and shares its one listener in one of these ways:
 *   shared     every worker has the listener in its epoll: the herd
 *   exclusive  the same with EPOLLEXCLUSIVE
 *   rotate     nginx 1.21.6 and newer: EPOLLEXCLUSIVE, and the listener is added anew after every 16 accepts
 *   mutex      nginx's accept_mutex: who has a lock in shared memory has the listener in its epoll, losers take it
 *              out and try again after at most 500 ms; accepts before the unlock, other events after it
 * In order: the ways to share, connections and requests, a worker, the parent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_PER_WAIT = 64, ACCEPTS_PER_ROTATION = 16, MUTEX_DELAY_MS = 500, BACKLOG = 511, WORKERS_MAX = 1024,
       HEAD_MAX_BYTES = 8192, ANSWER_MAX_BYTES = 2048, SLOW_MAX_MS = 60000, EXIT_USAGE = 2 };

static enum way { SHARED, EXCLUSIVE, ROTATE, MUTEX } way;
static const char *const way_names[] = { "shared", "exclusive", "rotate", "mutex", NULL };

static int listener, epoll_fd, slot, own_pid;
static bool removes; /* connections from the epoll set before it closes them, as libherd has its hosts do */

static void die(const char *what)
{
    fprintf(stderr, "raw_server: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- the ways to share ---- */

static _Atomic int *lock_owner; /* in shared memory: the pid of who may accept, or 0 */
static bool armed;

static void arm(void)
{
    struct epoll_event event = { .events = way == EXCLUSIVE || way == ROTATE ? EPOLLIN | EPOLLEXCLUSIVE : EPOLLIN };
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) != 0)
        die("epoll_ctl");
    armed = true;
}

static void disarm(void)
{
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, listener, &(struct epoll_event){ 0 });
    armed = false;
}

/* Returns the timeout of the wait. */
static int try_lock(bool *held)
{
    int free = 0;
    *held = atomic_compare_exchange_strong(lock_owner, &free, own_pid);
    if (*held && !armed)
        arm();
    if (!*held && armed)
        disarm();
    return *held ? -1 : MUTEX_DELAY_MS;
}

static void unlock(void)
{
    int own = own_pid;
    atomic_compare_exchange_strong(lock_owner, &own, 0);
}

static void after_accept(void)
{
    static unsigned accepts;
    if (way == ROTATE && ++accepts % ACCEPTS_PER_ROTATION == 0) {
        disarm();
        arm();
    }
}

/* ---- connections and requests ---- */

struct connection {
    int fd;
    uint32_t interest;
    bool closing;
    size_t in_bytes, out_begin, out_bytes;
    char in[HEAD_MAX_BYTES + 1], out[ANSWER_MAX_BYTES];
};

static void close_connection(struct connection *connection)
{
    /* Where nobody else has the file it leaves the epoll set by itself. Where a forked helper does, its events go on. */
    if (removes)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, connection->fd, &(struct epoll_event){ 0 });
    close(connection->fd);
    free(connection);
}

static void answer(struct connection *connection, const char *status, const char *body)
{
    int bytes = snprintf(connection->out, sizeof connection->out,
        "HTTP/1.1 %s\r\nX-Herd-Slot: %d\r\nX-Herd-Pid: %d\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
        "Connection: %s\r\n\r\n%s",
        status, slot, own_pid, strlen(body), connection->closing ? "close" : "keep-alive", body);
    connection->out_begin = 0;
    connection->out_bytes = (size_t)bytes;
}

static const char *header(const char *head, const char *name)
{
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0 && line[2 + strlen(name)] == ':')
            return line + 3 + strlen(name) + strspn(line + 3 + strlen(name), " \t");
    return NULL;
}

static void refuse(struct connection *connection, const char *status)
{
    connection->closing = true;
    answer(connection, status, status);
}

static void answer_request(struct connection *connection, const char *head)
{
    char method[16], target[1024], after[2], slow_ms[10];
    int minor = 0;
    if (sscanf(head, "%15[A-Z] %1023[!-~] HTTP/1.%1d%1[\r]", method, target, &minor, after) != 4) {
        refuse(connection, "400 Bad Request");
        return;
    }
    const char *wish = header(head, "Connection"), *body_bytes = header(head, "Content-Length");
    if (strcmp(method, "GET") != 0) {
        refuse(connection, "405 Method Not Allowed");
        return;
    }
    if (header(head, "Transfer-Encoding") != NULL || (body_bytes != NULL && strtoull(body_bytes, NULL, 10) != 0)) {
        refuse(connection, "400 Bad Request");
        return;
    }
    connection->closing = minor == 0 ? wish == NULL || strncasecmp(wish, "keep-alive", 10) != 0
                                     : wish != NULL && strncasecmp(wish, "close", 5) == 0;
    if (sscanf(target, "/slow?ms=%9[0-9]%1c", slow_ms, after) == 1) {
        const int ms = atoi(slow_ms) < SLOW_MAX_MS ? atoi(slow_ms) : SLOW_MAX_MS;
        nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
        answer(connection, "200 OK", "slow\n");
    } else {
        target[strcspn(target, "?")] = '\0';
        const bool found = strcmp(target, "/") == 0;
        answer(connection, found ? "200 OK" : "404 Not Found", found ? "hello\n" : "not found\n");
    }
}

/* Answers the next complete request; false: more of it has to come. */
static bool answer_next(struct connection *connection)
{
    char *end = memmem(connection->in, connection->in_bytes, "\r\n\r\n", 4);
    if (end == NULL && connection->in_bytes < HEAD_MAX_BYTES)
        return false;
    if (end == NULL) {
        refuse(connection, "431 Request Header Fields Too Large");
        return true;
    }
    end[2] = '\0';
    answer_request(connection, connection->in);
    connection->in_bytes -= (size_t)(end + 4 - connection->in);
    memmove(connection->in, end + 4, connection->in_bytes);
    return true;
}

static int flush_out(struct connection *connection) /* 1: all is sent; 0: the peer has to read first; -1: it is gone */
{
    while (connection->out_begin < connection->out_bytes) {
        ssize_t sent = send(connection->fd, connection->out + connection->out_begin,
                            connection->out_bytes - connection->out_begin, MSG_NOSIGNAL);
        if (sent >= 0)
            connection->out_begin += (size_t)sent;
        else if (errno != EINTR)
            return errno == EAGAIN ? 0 : -1;
    }
    return 1;
}

static void on_ready(struct connection *connection, uint32_t ready)
{
    int flushed = 1;
    if (ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t got = recv(connection->fd, connection->in + connection->in_bytes,
                           HEAD_MAX_BYTES - connection->in_bytes, 0);
        if (got <= 0) {
            if (got == 0 || (errno != EAGAIN && errno != EINTR))
                close_connection(connection);
            return;
        }
        connection->in_bytes += (size_t)got;
    }
    while ((flushed = flush_out(connection)) == 1 && !connection->closing && answer_next(connection)) { }
    if (flushed < 0 || (flushed == 1 && connection->closing)) {
        close_connection(connection);
        return;
    }
    const uint32_t interest = flushed == 1 ? EPOLLIN : EPOLLOUT;
    if (interest != connection->interest) {
        struct epoll_event event = { .events = interest, .data.ptr = connection };
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
        connection->interest = interest;
    }
}

static void add_connection(int fd)
{
    struct connection *connection = malloc(sizeof *connection);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    if (connection == NULL)
        die("malloc");
    memset(connection, 0, offsetof(struct connection, in));
    connection->fd = fd;
    connection->interest = EPOLLIN;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
}

/* ---- a worker ---- */

static void run_worker(void)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    own_pid = getpid();
    if ((epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        die("epoll_create1");
    if (way != MUTEX)
        arm();
    for (;;) {
        bool held = false;
        int accepted = -1;
        const int timeout_ms = way == MUTEX ? try_lock(&held) : -1;
        const int count = epoll_wait(epoll_fd, events, EVENTS_PER_WAIT, timeout_ms);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr == NULL) {
                struct sockaddr_storage peer;
                socklen_t bytes = sizeof peer;
                accepted = accept4(listener, (struct sockaddr *)&peer, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (accepted >= 0)
                    after_accept();
            }
        if (held)
            unlock();
        if (accepted >= 0)
            add_connection(accepted);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr != NULL)
                on_ready(events[i].data.ptr, events[i].events);
    }
}

/* ---- the parent ---- */

static pid_t workers[WORKERS_MAX];

static void start_worker(int number, const sigset_t *signals)
{
    workers[number] = fork();
    if (workers[number] < 0)
        die("fork");
    if (workers[number] > 0)
        return;
    slot = number;
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    run_worker();
}

static void listen_on(const char *text)
{
    char host[64], name[INET_ADDRSTRLEN];
    const int on = 1;
    unsigned port;
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t bytes = sizeof address;
    if (sscanf(text, "%63[^:]:%5u", host, &port) != 2 || inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        fprintf(stderr, "raw_server: %s: not an address like 127.0.0.1:8080\n", text);
        exit(EXIT_USAGE);
    }
    address.sin_port = htons((uint16_t)port);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, BACKLOG) != 0)
        die(text);
    getsockname(listener, (struct sockaddr *)&address, &bytes);
    printf("raw_server: ready on %s:%d", inet_ntop(AF_INET, &address.sin_addr, name, sizeof name),
           ntohs(address.sin_port));
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "way", 1, NULL, 'y' }, { "workers", 1, NULL, 'w' },
                                             { "listen", 1, NULL, 'l' }, { "remove", 0, NULL, 'r' },
                                             { NULL, 0, NULL, 0 } };
    const char *address = "127.0.0.1:0", *way_name = "exclusive";
    int worker_count = 1;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'y': way_name = optarg; break;
        case 'w': worker_count = atoi(optarg); break;
        case 'l': address = optarg; break;
        case 'r': removes = true; break;
        default: return EXIT_USAGE;
        }
    while (way_names[way] != NULL && strcmp(way_name, way_names[way]) != 0)
        way++;
    if (way_names[way] == NULL || worker_count < 1 || worker_count > WORKERS_MAX) {
        fputs("usage: raw_server [--way shared|exclusive|rotate|mutex] [--workers N] [--listen ADDR] [--remove]\n", stderr);
        return EXIT_USAGE;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    lock_owner = mmap(NULL, sizeof *lock_owner, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lock_owner == MAP_FAILED)
        die("mmap");
    listen_on(address);

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    printf(", %d workers, way %s, pid %d\n", worker_count, way_name, (int)getpid());
    fflush(stdout);
    for (int i = 0; i < worker_count; i++)
        start_worker(i, &signals);
    for (int number; (number = sigwaitinfo(&signals, NULL)) == SIGCHLD || number < 0;)
        for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
            int owner = pid;
            atomic_compare_exchange_strong(lock_owner, &owner, 0); /* ngx_unlock_mutexes */
            for (int i = 0; i < worker_count; i++)
                if (workers[i] == pid)
                    start_worker(i, &signals);
        }
    for (int i = 0; i < worker_count; i++)
        kill(workers[i], SIGKILL);
    while (wait(NULL) > 0) { }
    return EXIT_SUCCESS;
}
