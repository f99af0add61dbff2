/* A pick callback that sees the peer's address sends a client to its own worker each time, on TCP and
 * on Unix sockets; a slot that has no worker, or whose worker is full, stands for no choice. */
#include "serve.h"

enum { workers = 4, vip = 3, window = 32 };

static int by_address(void *data, const struct sockaddr *peer, uint32_t peer_length)
{
    CHECK(data == (void *)&serve);
    if (peer->sa_family == AF_UNIX) {
        CHECK(peer_length >= sizeof peer->sa_family);
        return 2;
    }
    struct sockaddr_in in;
    CHECK_EQ(peer_length, sizeof in);
    memcpy(&in, peer, sizeof in);
    int host = (int)(ntohl(in.sin_addr.s_addr) & 0xff);
    /* 127.0.0.1: no choice; .2 to .9: that slot + 2; others: no slot at all. */
    return host == 1 ? HERD_PICK : host < 10 ? host - 2 : host * 1000;
}

static int connect_as(int host)
{
    struct sockaddr_in from, to;
    int fd = socket(AF_INET, SOCK_STREAM, 0), port = atoi(strchr(serve.address, ':') + 1);
    CHECK(fd >= 0);
    memset(&from, 0, sizeof from);
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7f000000u + (unsigned)host);
    to = from;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)port);
    CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    SHARED_ADD(check_connected[port], 1u);
    return fd;
}

static int slot_as(int host, int *kept)
{
    int fd = connect_as(host), slot = serve_greeting(fd, 10000);
    CHECK(slot >= 0);
    serve_echo(fd);
    if (kept != NULL) {
        *kept = fd;
    } else {
        close(fd);
    }
    return slot;
}

static void be_busy(struct herd_worker *worker)
{
    (void)worker;
    if (SHARED_GET(serve.shared->knob) == 1) {
        SHARED_SET(serve.shared->knob, 2);
        sleep_ms(200);
    }
}

static void start(int acceptor_slot)
{
    struct herd_config config = HERD_CONFIG_INIT;
    char name[64];
    snprintf(name, sizeof name, "unix:@herd-test-pick-%d", (int)getpid());
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = workers + 1; /* the last slot has no worker */
    config.accept_delay_ms = 60000;
    config.acceptor_slot = acceptor_slot;
    config.pick_callback = by_address;
    config.pick_data = &serve;
    serve_prepare(&config, workers);
    CHECK_CODE(herd_listen(serve.herd, name, NULL, serve_on_accept, NULL), 1);
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
}

static void each_to_its_own(void)
{
    start(HERD_ANY_SLOT);
    for (int i = 0; i < 20; i++) {
        for (int slot = 0; slot < workers; slot++) {
            CHECK_EQ(slot_as(slot + 2, NULL), slot);
        }
    }
    /* Being busy for a moment does not cost a worker its clients, though others are idle. */
    int held, late;
    CHECK_EQ(slot_as(vip + 2, &held), vip);
    SHARED_SET(serve.shared->knob, 1);
    CHECK_EQ(send(held, "x", 1, MSG_NOSIGNAL), 1);
    WAIT_UNTIL(SHARED_GET(serve.shared->knob) == 2, 5000);
    CHECK_EQ(slot_as(vip + 2, &late), vip);
    close(late);
    close(held);
    int local = connect_to(address_of(serve.herd, 1));
    CHECK_EQ(serve_greeting(local, 10000), 2);
    close(local);
    CHECK(slot_as(1, NULL) < workers);
    CHECK(slot_as(workers + 2, NULL) < workers);
    CHECK(slot_as(200, NULL) < workers);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);

    serve_end();
}

/* The worker takes none: after a window of them its clients go elsewhere. */
static void stopped_and_dead(void)
{
    int clients[2 * window];
    start(1);
    uint64_t before = serve_stats(vip).handoff_sent;
    kill(serve.pids[vip], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[vip]) == 'T', 10000);
    for (int i = 0; i < 2 * window; i++) {
        clients[i] = connect_as(vip + 2);
    }
    WAIT_UNTIL(serve_stats(vip).handoff_sent == before + window, 10000);
    WAIT_UNTIL(serve_total().connections_open == window, 10000);
    kill(serve.pids[vip], SIGCONT);
    int of_vip = 0;
    for (int i = 0; i < 2 * window; i++) {
        of_vip += serve_greeting(clients[i], 10000) == vip;
        close(clients[i]);
    }
    CHECK_EQ(of_vip, window);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);

    /* It is dead, known or not: its clients go elsewhere. */
    pid_t dead = serve_crash(vip);
    serve_report(vip, dead);
    CHECK(slot_as(vip + 2, NULL) != vip);
    serve_fork(vip);
    serve_settle();
    CHECK_EQ(slot_as(vip + 2, NULL), vip);
    serve_end();
}

int main(void)
{
    test_begin(50);
    serve.on_request = be_busy;
    each_to_its_own();
    stopped_and_dead();
    test_exit(0);
}
