/* Frame for what a worker does: it has a listener without a callback, at which a client waits. */
#define _GNU_SOURCE
#include <errno.h>
#include <herd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection { struct herd_event event; };
static struct connection place, *connection = &place;
static struct herd *herd;
static struct herd_worker *worker;
static int code, state, timeout_ms = 1000, fd;

#define die(...) (fprintf(stderr, __VA_ARGS__), exit(EXIT_FAILURE))

/* A block that takes connections is done when it has one. */
static void add_connection(int accepted_fd)
{
    exit(accepted_fd >= 0 && herd_conn_closed(worker) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void do_what_is_due(void)
{
    struct herd_accepted accepted = HERD_ACCEPTED_INIT;
    while (herd_accept(worker, &accepted) == 0)
        close(accepted.fd), herd_conn_closed(worker);
    herd_drain(worker);
}
static void on_idle(struct herd_worker *of, struct herd_timer *timer) { (void)of, (void)timer; }
static void on_ready(struct herd_worker *of, struct herd_event *event, uint32_t ready) { (void)of, (void)event, (void)ready; }

static void block(void)
{
@BLOCK@
}

int main(void)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof any;
    int client = socket(AF_INET, SOCK_STREAM, 0), pair[2];
    alarm(20);
    if (herd_create(NULL, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) < 0
        || getsockname(herd_listener_fd(herd, 0), (struct sockaddr *)&any, &bytes) != 0
        || connect(client, (struct sockaddr *)&any, bytes) != 0
        || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0
        || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
        return 2;
    fd = pair[0];
    if (getppid() == 0) /* uses them */
        add_connection(fd), do_what_is_due(), on_idle(worker, NULL), on_ready(worker, NULL, 0);
    block();
    (void)state, (void)timeout_ms, (void)connection;
    if (code < 0)
        die("code %d: %s\n", code, herd_strerror(code));
    return EXIT_SUCCESS;
}
