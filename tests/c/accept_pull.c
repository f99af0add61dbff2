/* Without a callback the host takes connections with herd_accept: fairly over the listeners, a
   batch a turn, each with its peer; a host that does not take them steps back. */
#include "check.h"

#define LISTENERS 3
#define EACH 30

static struct herd_accepted accepted;

/* Takes all that is to be had; returns how many. */
static int take_all(struct herd_worker *worker, int *of_listener)
{
    int count = 0, code;
    memset(&accepted, 0xff, sizeof accepted);
    accepted.size = sizeof accepted;
    while ((code = herd_accept(worker, &accepted)) == 0) {
        CHECK(accepted.listener < LISTENERS);
        CHECK(fcntl(accepted.fd, F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(accepted.fd, F_GETFD) & FD_CLOEXEC);
        if (of_listener != NULL) {
            of_listener[accepted.listener]++;
        }
        close(accepted.fd);
        CHECK(herd_conn_closed(worker) >= 0);
        count++;
    }
    CHECK_CODE(code, -EAGAIN);
    return count;
}

/* One turn; returns how many connections it brought. */
static int turn(struct herd_worker *worker, int by_hand, int *of_listener)
{
    int count;
    if (by_hand) {
        CHECK_EQ(herd_trylock(worker), 1);
        CHECK(herd_process_events(worker, 5000, HERD_POST_EVENTS) > 0);
        count = take_all(worker, of_listener);
        CHECK(herd_unlock(worker) >= 0);
        CHECK_EQ(herd_process_timers(worker), 0);
        CHECK_EQ(herd_process_posted(worker, HERD_POSTED_EVENTS), 0);
        /* None in between two turns. */
        count += take_all(worker, of_listener);
    } else {
        CHECK_EQ(herd_run_once(worker, 5000), 0);
        count = take_all(worker, of_listener);
    }
    return count;
}

static void fair_and_batched(int by_hand, uint32_t batch)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    int listeners[LISTENERS], clients[LISTENERS * EACH], counts[LISTENERS];
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    config.accept_batch = batch;
    CHECK_CODE(herd_create(&config, &herd), 0);
    for (int i = 0; i < LISTENERS; i++) {
        listeners[i] = new_listener(herd, NULL, NULL);
    }
    for (int i = 0; i < LISTENERS * EACH; i++) {
        clients[i] = connect_to(address_of(herd, listeners[i / EACH]));
    }
    for (int i = 0; i < LISTENERS; i++) {
        WAIT_UNTIL(waiting_connections(herd, listeners[i]) == EACH, 10000);
        counts[i] = 0;
    }
    struct herd_worker *worker = new_worker(herd);
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(turn(worker, by_hand, counts), batch);
    }
    for (int i = 0; i < LISTENERS; i++) {
        CHECK_EQ(counts[i], 3 * batch);
        CHECK_EQ(waiting_connections(herd, listeners[i]), EACH - 3 * (int)batch);
    }
    while (counts[0] + counts[1] + counts[2] < LISTENERS * EACH) {
        CHECK(turn(worker, by_hand, counts) > 0);
    }
    CHECK_EQ(take_all(worker, counts), 0);
    struct herd_stats stats = total_stats(herd);
    CHECK_EQ(stats.accepted, LISTENERS * EACH);
    CHECK_EQ(stats.closed, LISTENERS * EACH);
    CHECK_EQ(stats.connections_open, 0);
    for (int i = 0; i < LISTENERS * EACH; i++) {
        close(clients[i]);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static uint32_t mode;

/* The peer is who the client says it is. */
static void peer(const char *address, const char *client_name)
{
    struct herd *herd = new_herd(mode, 2);
    int listener = herd_listen(herd, address, NULL, NULL, NULL);
    if (listener == -EAFNOSUPPORT || listener == -EADDRNOTAVAIL) {
        printf("no %s here\n", address);
        CHECK_CODE(herd_destroy(herd), 0);
        return;
    }
    CHECK_EQ(listener, 0);
    struct herd_worker *worker = new_worker(herd);
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    int client;
    memset(&name, 0, sizeof name);
    if (client_name != NULL) {
        struct sockaddr_un bound, server;
        memset(&bound, 0, sizeof bound);
        memset(&server, 0, sizeof server);
        bound.sun_family = server.sun_family = AF_UNIX;
        /* Abstract names: the leading NUL is there already. */
        size_t bytes = strlen(client_name), server_bytes = strlen(address + 6);
        memcpy(bound.sun_path + 1, client_name, bytes);
        memcpy(server.sun_path + 1, address + 6, server_bytes);
        client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        size_t start = offsetof(struct sockaddr_un, sun_path) + 1;
        CHECK_EQ(bind(client, (struct sockaddr *)&bound, (socklen_t)(start + bytes)), 0);
        CHECK_EQ(connect(client, (struct sockaddr *)&server, (socklen_t)(start + server_bytes)), 0);
        SHARED_ADD(*check_connected, 1u); /* as connect_to does */
    } else {
        client = connect_to(address_of(herd, listener));
    }
    CHECK_EQ(getsockname(client, (struct sockaddr *)&name, &length), 0);
    CHECK_EQ(herd_run_once(worker, 5000), 0);
    memset(&accepted, 0xff, sizeof accepted);
    accepted.size = sizeof accepted;
    CHECK_CODE(herd_accept(worker, &accepted), 0);
    CHECK_EQ(accepted.listener, 0);
    CHECK_EQ(accepted.peer_length, length);
    CHECK_EQ(accepted.peer.ss_family, name.ss_family);
    CHECK(memcmp(&accepted.peer, &name, length) == 0);
    /* It is the client's connection. */
    char byte = '?';
    CHECK_EQ(write(accepted.fd, "!", 1), 1);
    CHECK_EQ(read(client, &byte, 1), 1);
    CHECK_EQ(byte, '!');
    close(accepted.fd);
    close(client);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static int pushed;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *from,
                      uint32_t from_length, void *accept_data)
{
    (void)from;
    (void)from_length;
    CHECK(accept_data == &pushed);
    pushed++;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

/* Connections of a listener with a callback are not to be had, and do not stand in the way. */
static void with_a_callback(void)
{
    struct herd *herd = new_herd(mode, 2);
    pushed = 0;
    int push = new_listener(herd, on_accept, &pushed);
    int pull = new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd);
    int clients[2];
    clients[0] = connect_to(address_of(herd, push));
    clients[1] = connect_to(address_of(herd, pull));
    WAIT_UNTIL(waiting_connections(herd, push) == 1 && waiting_connections(herd, pull) == 1, 10000);
    CHECK_EQ(herd_trylock(worker), 1);
    CHECK_EQ(herd_process_events(worker, 5000, HERD_POST_EVENTS), 2);
    CHECK_EQ(herd_posted_count(worker, HERD_POSTED_ACCEPT), 2);
    int counts[LISTENERS] = {0};
    CHECK_EQ(take_all(worker, counts), 1);
    CHECK_EQ(counts[pull], 1);
    CHECK_EQ(pushed, 0);
    CHECK(herd_unlock(worker) >= 0);
    CHECK_EQ(herd_run_once(worker, 5000), 1);
    CHECK_EQ(pushed, 1);
    close(clients[0]);
    close(clients[1]);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void not_taken(void)
{
    struct herd *herd = new_herd(mode, 2);
    int listener = new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd), *other = new_worker(herd);
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = connect_to(address_of(herd, listener));
    }
    WAIT_UNTIL(waiting_connections(herd, listener) == 3, 10000);
    CHECK_EQ(herd_run_once(worker, 5000), 0);
    CHECK_EQ(waiting_connections(herd, listener), 2);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(herd_trylock(worker), 0);
        CHECK_EQ(herd_run_once(worker, 0), 0);
    }
    CHECK_EQ(waiting_connections(herd, listener), 2);
    CHECK_EQ(total_stats(herd).connections_open, 1);
    CHECK_EQ(turn(other, 0, NULL), 1);
    CHECK_EQ(waiting_connections(herd, listener), 1);
    CHECK_EQ(take_all(worker, NULL), 1);
    CHECK_EQ(turn(worker, 0, NULL), 1);
    CHECK_EQ(waiting_connections(herd, listener), 0);

    /* One that is never taken is closed with the worker. */
    int last = connect_to(address_of(herd, listener));
    CHECK_EQ(herd_run_once(worker, 5000), 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    char byte;
    CHECK_EQ(read(last, &byte, 1), 0);
    close(last);
    for (int i = 0; i < 3; i++) {
        close(clients[i]);
    }
    CHECK_CODE(herd_worker_destroy(other), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(50);
    int fds = open_fds();
    for (uint32_t batch = 1; batch <= 4; batch += 3) {
        fair_and_batched(0, batch);
        fair_and_batched(1, batch);
    }
    char name[64], client_name[64];
    snprintf(name, sizeof name, "unix:@herd-pull-%d", (int)getpid());
    snprintf(client_name, sizeof client_name, "herd-pull-client-%d", (int)getpid());
    static const uint32_t modes[] = {HERD_MODE_MUTEX, HERD_MODE_REUSEPORT, HERD_MODE_HANDOFF};
    for (int i = 0; i < 3; i++) {
        mode = modes[i];
        peer("127.0.0.1:0", NULL);
        peer("[::1]:0", NULL);
        peer(name, NULL);
        peer(name, client_name);
        with_a_callback();
        not_taken();
    }
    CHECK_EQ(open_fds(), fds);
    return 0;
}
