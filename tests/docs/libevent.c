/* Frame for a worker in a loop of libevent's.
 * links: -levent_core */
#include <event2/event.h>
#include <herd.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"

static struct herd *herd;
static struct herd_worker *worker;

static void on_accept(struct herd_worker *of, int fd, const struct sockaddr *peer, uint32_t length, void *data)
{
    close(fd);
    herd_conn_closed(of);
    herd_drain(of);
}

@BLOCK 1@

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof any;
    struct event_base *base = event_base_new();
    int client = socket(AF_INET, SOCK_STREAM, 0), state;
    alarm(20);
    config.mode = HERD_MODE_MUTEX;
    if (herd_create(&config, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL) < 0
        || getsockname(herd_listener_fd(herd, 0), (struct sockaddr *)&any, &bytes) != 0
        || connect(client, (struct sockaddr *)&any, bytes) != 0
        || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0)
        return 2;
@BLOCK 2@
    return state == HERD_WORKER_DRAINED ? EXIT_SUCCESS : EXIT_FAILURE;
}
