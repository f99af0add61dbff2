/* The server of docs/adopting.md: a classic prefork server on epoll, with the blocks' lines where it changes. It
 * answers what it is sent. Usage: ADDRESS WORKERS. */
#define _GNU_SOURCE
#include <errno.h>
#include <arpa/inet.h>
#include <herd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct connection { int fd; };
enum { CONNECTIONS_MAX = 1024 };
static struct connection *connections[CONNECTIONS_MAX]; /* by descriptor */

@BLOCK 1@

enum { EVENTS_PER_WAIT = 64 };
static int epfd;
static volatile sig_atomic_t stopping;
static sigset_t termination;

static void die(const char *why)
{
    fprintf(stderr, "server: %s\n", why);
    exit(EXIT_FAILURE);
}

__attribute__((unused)) static int listen_on(const char *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 4096) != 0)
        die(strerror(errno));
    return fd;
}

static void add_connection(int fd)
{
    struct connection *connection = malloc(sizeof *connection);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    connection->fd = fd;
    if (fd >= CONNECTIONS_MAX)
        die("too many connections");
    connections[fd] = connection;
    if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
}

static void close_connection(struct connection *connection)
{
    connections[connection->fd] = NULL;
@BLOCK 5@
    free(connection);
}

static void on_ready(struct connection *connection, uint32_t ready)
{
    char bytes[4096];
    ssize_t got = read(connection->fd, bytes, sizeof bytes);
    (void)ready;
    if (got <= 0 || write(connection->fd, bytes, (size_t)got) != got)
        close_connection(connection);
}

/* Each request is answered at once: all others wait for one. */
__attribute__((unused)) static void leave_idle(void)
{
    for (int fd = 0; fd < CONNECTIONS_MAX; fd++)
        if (connections[fd] != NULL)
            close_connection(connections[fd]);
}

@BLOCK 6@

static void run_worker(void)
{
    struct epoll_event events[EVENTS_PER_WAIT];
@BLOCK 3@

@BLOCK 4@
}

static pid_t start_worker(void)
{
    sigprocmask(SIG_BLOCK, &termination, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        run_worker();
        exit(EXIT_SUCCESS);
    }
    sigprocmask(SIG_UNBLOCK, &termination, NULL);
    return pid;
}

static void on_parents_signal(int number)
{
    (void)number;
    stopping = 1;
}

int main(int argc, char **argv)
{
    const char *address = argv[1];
    int workers = argc > 2 ? atoi(argv[2]) : 4, alive = 0, status;
    pid_t pids[64], pid;
@BLOCK 2@
    sigemptyset(&termination);
    sigaddset(&termination, SIGTERM);
    struct sigaction action = { .sa_handler = on_parents_signal };
    sigaction(SIGTERM, &action, NULL);
    for (; alive < workers; alive++)
        pids[alive] = start_worker();
    puts("ready");
    fflush(stdout);
    while (alive > 0) {
        for (int i = 0; stopping == 1 && i < workers; i++)
            kill(pids[i], SIGTERM);
        stopping = stopping ? 2 : 0;
@BLOCK 7@
        for (int i = 0; i < workers && pid > 0; i++)
            if (pids[i] == pid && !stopping)
                pids[i] = start_worker();
            else if (pids[i] == pid)
                alive--;
    }
@BLOCK 8@
    return EXIT_SUCCESS;
}
