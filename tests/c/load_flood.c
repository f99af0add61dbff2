/* timeout: 240
 * More connections at once than the backlog holds: all are served as soon as the kernel lets them in.
 * HERD_TEST_SLOW=1: ten times as many. A client speaks first: by what it sends again and again the kernel finds
 * the connection that it answered with a SYN cookie and had no room for (tcp_conn_request, cookie_v4_check). */
#include "load.h"

#include <netinet/tcp.h>

enum { workers = 3, user_timeout_ms = 2000 };

static int resets;

/* A late copy of what a client sent makes a second connection by its cookie, with nobody behind it: what is sent to
 * that client is never acknowledged. */
static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t peer_length, void *data)
{
    unsigned ms = user_timeout_ms * (unsigned)test_scale();
    CHECK_EQ(setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms), 0);
    serve_on_accept(worker, fd, peer, peer_length, data);
}

/* What a client had sent that the kernel did not know any more, and reset, on the whole machine: SyncookiesFailed in
 * proc_pid_net(5)'s netstat. */
static unsigned long long cookies_failed(void)
{
    unsigned long long sent, received, failed;
    char names[64];
    FILE *netstat = fopen("/proc/net/netstat", "re");
    CHECK(netstat != NULL);
    CHECK_EQ(fscanf(netstat, "TcpExt: SyncookiesSent SyncookiesRecv %63s%*[^\n] TcpExt: %llu %llu %llu", names, &sent,
                    &received, &failed), 4);
    CHECK(strcmp(names, "SyncookiesFailed") == 0);
    fclose(netstat);
    return failed;
}

/* Returns whether it was served, or is not going to be. */
static int go_on(struct pollfd *client)
{
    char answer[2];
    int was_sent = client->events != POLLOUT;
    if (was_sent) {
        load_blocking(client->fd);
    }
    ssize_t done = was_sent ? recv(client->fd, answer, 2, MSG_WAITALL) : send(client->fd, "x", 1, MSG_NOSIGNAL);
    if (done == 1 && !was_sent) {
        client->events = POLLIN;
        return 0;
    }
    if (done == 2) {
        CHECK(answer[0] >= 0 && answer[0] < workers && answer[1] == 'x');
    } else {
        CHECK(done == -1 && (errno == ECONNRESET || errno == EPIPE));
        resets++;
    }
    close(client->fd);
    client->fd = -1;
    return 1;
}

/* Clients that the kernel had no room for: SYNs that a listening socket has dropped so far (tcp_conn_request). */
static unsigned refused(void)
{
    unsigned sum = 0;
    int fd, first = herd_listener_fd(serve.herd, 0);
    for (int slot = 0; slot < workers && (fd = herd_slot_listener_fd(serve.herd, 0, slot)) >= 0; slot++) {
        uint32_t figures[9] = {0}; /* of linux/sock_diag.h; the last is SK_MEMINFO_DROPS */
        socklen_t length = sizeof figures;
        CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, figures, &length), 0);
        CHECK_EQ(length, sizeof figures);
        sum += slot == 0 || fd != first ? figures[8] : 0;
    }
    return sum;
}

static void flood(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd_listen_options options = HERD_LISTEN_OPTIONS_INIT;
    int count = test_is_slow() ? 2000 : 160, backlog = test_is_slow() ? 256 : 64;
    count *= mode == HERD_MODE_REUSEPORT ? workers : 1; /* each has a backlog of its own */
    int left = count;
    unsigned long long failed = cookies_failed();
    resets = 0;
    config.mode = mode;
    serve_prepare(&config, workers);
    CHECK_CODE(herd_remove_listener(serve.herd, 0), 0);
    options.backlog = (uint32_t)backlog;
    CHECK_CODE(herd_listen(serve.herd, "127.0.0.1:0", &options, on_accept, NULL), 0);
    serve.address = address_of(serve.herd, 0);
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    load_note_fds();
    CHECK(load_raise_fds((rlim_t)count + 100));

    load_signal_workers(SIGSTOP);
    WAIT_UNTIL(load_all_stopped(), 10000);
    struct pollfd *clients = (struct pollfd *)calloc((size_t)count, sizeof *clients);
    CHECK(clients != NULL);
    for (int i = 0; i < count; i++) {
        clients[i].fd = load_connect(serve.address, 1);
        clients[i].events = POLLOUT;
    }
    WAIT_UNTIL(refused() > 0, 10000);
    CHECK(waiting_connections(serve.herd, 0) < count);
    load_signal_workers(SIGCONT);
    int64_t began_ms = now_ms(), deadline = began_ms + 100000;
    while (left > 0) {
        CHECK(now_ms() < deadline);
        poll(clients, (nfds_t)count, 1000);
        for (int i = 0; i < count; i++) {
            if (clients[i].fd >= 0 && clients[i].revents != 0) {
                left -= go_on(&clients[i]);
            }
        }
    }
    printf("%s: %d served, %d reset, %u times refused, in %d ms\n", mode_name(mode), count - resets, resets, refused(),
           (int)(now_ms() - began_ms));
    CHECK(resets == 0 || (resets < 10 && (unsigned long long)resets <= cookies_failed() - failed));
    free(clients);
    load_is_over();
    serve_end();
}

int main(void)
{
    test_begin(220);
    load_in_all_modes(flood);
}
