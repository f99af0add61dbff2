/* Frame for one turn of a loop of the host's own on an epoll set, at which a client waits. */
#define _GNU_SOURCE
#include <herd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct herd *herd;
static struct herd_worker *worker;
__attribute__((unused)) static struct herd_accepted accepted = HERD_ACCEPTED_INIT; /* a block may have its own */
static const uint64_t herds_own = 0;
static struct epoll_event events[64];
static const int most = 64;
static int epfd, taken;

static void add_connection(int fd) { close(fd), herd_conn_closed(worker), taken++; }
static void on_ready(void *connection, uint32_t ready) { (void)connection, (void)ready, exit(EXIT_FAILURE); }

static void block(void)
{
@BLOCK@
}

int main(void)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof any;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    alarm(20);
    if (herd_create(NULL, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) < 0
        || getsockname(herd_listener_fd(herd, 0), (struct sockaddr *)&any, &bytes) != 0
        || connect(client, (struct sockaddr *)&any, bytes) != 0
        || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0 || (epfd = epoll_create1(EPOLL_CLOEXEC)) < 0
        || herd_attach_epoll(worker, epfd, herds_own) < 0)
        return 2;
    if (getppid() == 0) /* uses it */
        on_ready(NULL, 0);
    while (taken == 0)
        block();
    return taken == 1 && herd_worker_destroy(worker) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
