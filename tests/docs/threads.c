/* Frame for the main thread of a server whose workers are threads, each in a loop of its own on an epoll set. */
#define _GNU_SOURCE
#include <herd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT = 3 };

static struct herd *herd;
static struct thread {
    pthread_t pthread;
    struct herd_worker *worker;
    int epfd;
} threads[COUNT];
static const int count = COUNT;
static struct sockaddr_in server = { .sin_family = AF_INET };

static void die(const char *why)
{
    fprintf(stderr, "server: %s\n", why);
    exit(EXIT_FAILURE);
}

static void *run_thread(void *data)
{
    struct thread *self = data;
    struct herd_accepted accepted = HERD_ACCEPTED_INIT;
    struct epoll_event events[8];
    int state;
    self->epfd = epoll_create1(EPOLL_CLOEXEC);
    if (herd_attach_epoll(self->worker, self->epfd, 0) < 0)
        die("attach");
    while ((state = herd_worker_state(self->worker)) >= 0 && state < HERD_WORKER_DRAINED) {
        const int timeout_ms = herd_prepare(self->worker, -1);
        if (timeout_ms < 0)
            break;
        epoll_wait(self->epfd, events, 8, timeout_ms);
        herd_check(self->worker);
        while (herd_accept(self->worker, &accepted) == 0)
            close(accepted.fd), herd_conn_closed(self->worker);
    }
    if (state != HERD_WORKER_DRAINED)
        die("not drained");
    return NULL;
}

/* Is served, and then tells the server to stop. */
static void be_client(void)
{
    char byte;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (client < 0 || connect(client, (struct sockaddr *)&server, sizeof server) != 0 || recv(client, &byte, 1, 0) != 0)
        die("not served"); /* and the parent's alarm ends it */
    kill(getppid(), SIGTERM);
    _exit(EXIT_SUCCESS);
}

int main(void)
{
    socklen_t bytes = sizeof server;
    sigset_t termination;
    int code, number;
    sigemptyset(&termination);
    sigaddset(&termination, SIGTERM);
    alarm(20);
    if (herd_create(NULL, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) < 0
        || getsockname(herd_listener_fd(herd, 0), (struct sockaddr *)&server, &bytes) != 0)
        return 2;
    if (fork() == 0)
        be_client();
@BLOCK@
    return EXIT_SUCCESS;
}
