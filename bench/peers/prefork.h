/*
 * The parent of all peers: options, listeners, worker processes, respawn. Include http.h before.
 * Ways that it knows itself, since they differ in what a worker has for a listener:
 *   reuseport  each worker has a listener of its own (SO_REUSEPORT), opened by the parent
 *   pass       the parent accepts and passes connections on in turn (SCM_RIGHTS); a worker has a channel to it
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKLOG = 511, WORKERS_MAX = 1024, EXIT_USAGE = 2 };

struct peer {
    const char *name;
    const char *const *ways; /* the first is the default */
    void (*run_worker)(void);
    void (*on_death)(pid_t pid); /* of a worker; or NULL */
};

static const struct peer *peer;
static int listener; /* the worker's; of the way "pass" its channel */
static int way;      /* index in peer->ways */
static bool removes; /* connections from the epoll set before it closes them, as libherd has its hosts do */

static pid_t workers[WORKERS_MAX];
static int worker_count, listeners[WORKERS_MAX], channels[WORKERS_MAX][2];

static void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", peer->name, what, strerror(errno));
    exit(EXIT_FAILURE);
}

static bool way_is(const char *name)
{
    return strcmp(peer->ways[way], name) == 0;
}

static int listen_on(struct sockaddr_in *address)
{
    const int on = 1;
    socklen_t bytes = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, way_is("reuseport") ? SO_REUSEPORT : SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)address, bytes) != 0 || listen(fd, BACKLOG) != 0)
        die("listen");
    getsockname(fd, (struct sockaddr *)address, &bytes);
    return fd;
}

static void open_listeners(const char *text)
{
    char host[64];
    unsigned port;
    struct sockaddr_in address = { .sin_family = AF_INET };
    if (sscanf(text, "%63[^:]:%5u", host, &port) != 2 || inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        fprintf(stderr, "%s: %s: not an address like 127.0.0.1:8080\n", peer->name, text);
        exit(EXIT_USAGE);
    }
    address.sin_port = htons((uint16_t)port);
    listener = listeners[0] = listen_on(&address);
    for (int i = 0; i < worker_count; i++) {
        if (i > 0 && way_is("reuseport"))
            listeners[i] = listen_on(&address);
        if (way_is("pass") && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, channels[i]) != 0)
            die("socketpair");
    }
    printf("%s: ready on %s:%d", peer->name, host, ntohs(address.sin_port));
}

static void start_worker(int number, const sigset_t *signals)
{
    workers[number] = fork();
    if (workers[number] < 0)
        die("fork");
    if (workers[number] > 0)
        return;
    slot = number;
    own_pid = getpid();
    if (way_is("pass"))
        listener = channels[number][1];
    if (way_is("reuseport"))
        listener = listeners[number];
    /* The parent keeps what a worker does not use, so that a new worker finds it. */
    for (int i = 0; i < worker_count; i++) {
        if (i != number && way_is("reuseport"))
            close(listeners[i]);
        if (way_is("pass")) {
            close(channels[i][0]);
            if (i != number)
                close(channels[i][1]);
        }
    }
    if (way_is("pass"))
        close(listeners[0]);
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    peer->run_worker();
    exit(EXIT_FAILURE);
}

/* The next connection, from the listener or the channel; -1 and EAGAIN: there is none. */
static inline int next_connection(void)
{
    if (!way_is("pass"))
        return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = { &byte, 1 };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof control };
    int fd = -1;
    const ssize_t got = recvmsg(listener, &message, MSG_CMSG_CLOEXEC);
    if (got == 0)
        exit(EXIT_SUCCESS); /* the parent has ended */
    if (got > 0 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* The next worker whose channel has room gets it. */
static void pass_on(void)
{
    static int next;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec data = { "c", 1 };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof control };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    for (int tries = 0; tries < worker_count; tries++) {
        next = (next + 1) % worker_count;
        if (sendmsg(channels[next][0], &message, MSG_NOSIGNAL) > 0)
            break;
    }
    close(fd);
}

static int prefork(const struct peer *which, int argc, char **argv)
{
    static const struct option options[] = { { "way", 1, NULL, 'y' }, { "workers", 1, NULL, 'w' },
                                             { "listen", 1, NULL, 'l' }, { "remove", 0, NULL, 'r' },
                                             { NULL, 0, NULL, 0 } };
    const char *address = "127.0.0.1:0", *way_name = which->ways[0];
    peer = which;
    worker_count = 1;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'y': way_name = optarg; break;
        case 'w': worker_count = atoi(optarg); break;
        case 'l': address = optarg; break;
        case 'r': removes = true; break;
        default: return EXIT_USAGE;
        }
    while (peer->ways[way] != NULL && strcmp(way_name, peer->ways[way]) != 0)
        way++;
    if (peer->ways[way] == NULL || worker_count < 1 || worker_count > WORKERS_MAX) {
        fprintf(stderr, "usage: %s [--way WAY] [--workers N] [--listen ADDR] [--remove]; ways:", peer->name);
        for (int i = 0; peer->ways[i] != NULL; i++)
            fprintf(stderr, " %s", peer->ways[i]);
        fputc('\n', stderr);
        return EXIT_USAGE;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    open_listeners(address);

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct pollfd sources[2] = { { .fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN },
                                 { .fd = way_is("pass") ? listener : -1, .events = POLLIN } };
    if (sources[0].fd < 0)
        die("signalfd");
    printf(", %d workers, way %s, pid %d\n", worker_count, peer->ways[way], (int)getpid());
    fflush(stdout);
    for (int i = 0; i < worker_count; i++)
        start_worker(i, &signals);
    for (;;) {
        struct signalfd_siginfo signal_info;
        if (poll(sources, 2, -1) > 0 && sources[1].revents != 0)
            pass_on();
        if (sources[0].revents == 0 || read(sources[0].fd, &signal_info, sizeof signal_info) <= 0)
            continue;
        if (signal_info.ssi_signo != SIGCHLD)
            break;
        for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
            if (peer->on_death != NULL)
                peer->on_death(pid);
            for (int i = 0; i < worker_count; i++)
                if (workers[i] == pid)
                    start_worker(i, &signals);
        }
    }
    for (int i = 0; i < worker_count; i++)
        kill(workers[i], SIGKILL);
    while (wait(NULL) > 0) { }
    return EXIT_SUCCESS;
}
