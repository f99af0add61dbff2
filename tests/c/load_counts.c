/* Connections are counted exactly, never below zero, and a worker steps back over 7/8 of its
   capacity as nginx's does. */
#include "check.h"

#define CAPACITY 64

static struct herd *new_small_herd(uint32_t mode, uint32_t slots)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    config.mode = mode;
    config.max_workers = slots;
    config.worker_connections = CAPACITY;
    config.accept_delay_ms = 60000; /* no tick of the guard in between */
    config.accept_batch = 4;
    CHECK_CODE(herd_create(&config, &herd), 0);
    return herd;
}

/* nginx: connection_n / 8 - free_connection_n. */
static int nginx_accept_disabled(int open)
{
    int disabled = CAPACITY / 8 - (CAPACITY - open);
    return disabled > 0 ? disabled : 0;
}

static void opened_and_closed(void)
{
    struct herd *herd = new_small_herd(HERD_MODE_MUTEX, 2);
    struct herd_worker *worker = new_worker(herd);
    CHECK_CODE(herd_conn_closed(worker), -ERANGE);
    CHECK_EQ(herd_accept_disabled(worker), 0);
    for (int open = 1; open <= CAPACITY; open++) {
        CHECK_EQ(herd_conn_opened(worker), open);
        CHECK_EQ(herd_accept_disabled(worker), nginx_accept_disabled(open));
    }
    CHECK_EQ(nginx_accept_disabled(CAPACITY), 8);
    CHECK_EQ(total_stats(herd).connections_open, CAPACITY);
    for (int open = CAPACITY - 1; open >= 0; open--) {
        CHECK_EQ(herd_conn_closed(worker), open);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(herd_conn_closed(worker), -ERANGE);
    }
    struct herd_stats stats = total_stats(herd);
    CHECK_EQ(stats.connections_open, 0);
    CHECK_EQ(stats.closed, CAPACITY);
    CHECK_EQ(stats.accepted, 0);

    /* Computed at each connection opened, counted down at each try: 57 of 64 skip one try. */
    for (int open = 1; open <= 57; open++) {
        CHECK_EQ(herd_conn_opened(worker), open);
    }
    CHECK_EQ(herd_accept_disabled(worker), 1);
    CHECK_EQ(herd_trylock(worker), 0);
    CHECK_EQ(herd_accept_disabled(worker), 0);
    CHECK_EQ(herd_trylock(worker), 1);
    CHECK_EQ(herd_unlock(worker), 1);
    CHECK_EQ(herd_conn_opened(worker), 58);
    CHECK_EQ(herd_conn_opened(worker), 59);
    for (int left = 3; left > 0; left--) {
        CHECK_EQ(herd_accept_disabled(worker), left);
        CHECK_CODE(herd_run_once(worker, 0), 0);
    }
    CHECK_EQ(herd_trylock(worker), 1);
    CHECK_EQ(herd_unlock(worker), 1);

    /* Full: not at all, however often it tries. */
    for (int open = 60; open <= CAPACITY; open++) {
        CHECK_EQ(herd_conn_opened(worker), open);
    }
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(herd_trylock(worker), 0);
    }
    CHECK_EQ(herd_conn_closed(worker), CAPACITY - 1);
    CHECK_EQ(herd_trylock(worker), 1);
    CHECK_EQ(herd_unlock(worker), 1);

    /* The slot's next worker has none of them. */
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_EQ(total_stats(herd).connections_open, 0);
    worker = new_worker(herd);
    CHECK_CODE(herd_conn_closed(worker), -ERANGE);
    CHECK_EQ(herd_accept_disabled(worker), 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Nobody else could accept: it goes on until it is full. */
static void alone(void)
{
    struct herd *herd = new_small_herd(HERD_MODE_MUTEX, 1);
    struct herd_worker *worker = new_worker(herd);
    for (int open = 1; open < CAPACITY; open++) {
        CHECK_EQ(herd_conn_opened(worker), open);
        CHECK_EQ(herd_trylock(worker), 1);
        CHECK(herd_unlock(worker) >= 0);
    }
    CHECK_EQ(herd_conn_opened(worker), CAPACITY);
    CHECK_EQ(herd_trylock(worker), 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void set_load(void)
{
    struct herd *herd = new_small_herd(HERD_MODE_MUTEX, 2);
    struct herd_worker *worker = new_worker(herd);
    CHECK_CODE(herd_set_load(worker, -2), -EINVAL);
    CHECK_CODE(herd_set_load(worker, INT64_MIN), -EINVAL);
    CHECK_CODE(herd_set_load(worker, 0), 0);
    CHECK_CODE(herd_set_load(worker, INT64_MAX), 0);
    /* It replaces no count of connections, and no capacity. */
    CHECK_EQ(total_stats(herd).connections_open, 0);
    CHECK_EQ(herd_conn_opened(worker), 1);
    CHECK_EQ(herd_trylock(worker), 1);
    CHECK_EQ(herd_unlock(worker), 1);
    CHECK_CODE(herd_set_load(worker, -1), 0);
    CHECK_EQ(herd_conn_closed(worker), 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static int open_connections[2 * CAPACITY], used;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *accept_data)
{
    (void)worker;
    (void)peer;
    (void)peer_length;
    (void)accept_data;
    CHECK(used < 2 * CAPACITY);
    open_connections[used++] = fd;
}

/* accepted and closed come to what is open, at every moment; capacity is never exceeded. */
static void accepted_ones(void)
{
    struct herd *herd = new_small_herd(HERD_MODE_MUTEX, 2);
    int listener = new_listener(herd, on_accept, NULL);
    struct herd_worker *worker = new_worker(herd);
    int clients[CAPACITY + 10];
    for (int i = 0; i < CAPACITY + 10; i++) {
        clients[i] = connect_to(address_of(herd, listener));
    }
    WAIT_UNTIL(waiting_connections(herd, listener) == CAPACITY + 10, 10000);
    for (int turn = 0; turn < 200; turn++) {
        int before = used;
        CHECK(herd_run_once(worker, 0) >= 0);
        CHECK(used - before <= 4);
        struct herd_stats stats = total_stats(herd);
        CHECK_EQ(stats.accepted, used);
        CHECK_EQ(stats.connections_open, used);
        CHECK_EQ(stats.closed, 0);
    }
    CHECK_EQ(used, CAPACITY);
    CHECK_EQ(waiting_connections(herd, listener), 10);
    int closed = 0;
    while (closed < used) {
        close(open_connections[closed++]);
        CHECK_EQ(herd_conn_closed(worker), used - closed);
        for (int turn = 0; turn < 20; turn++) {
            CHECK(herd_run_once(worker, 0) >= 0);
        }
        struct herd_stats stats = total_stats(herd);
        CHECK(used - closed <= CAPACITY);
        CHECK_EQ(stats.accepted, used);
        CHECK_EQ(stats.closed, closed);
        CHECK_EQ(stats.connections_open, used - closed);
    }
    CHECK_EQ(used, CAPACITY + 10);
    CHECK_CODE(herd_conn_closed(worker), -ERANGE);
    for (int i = 0; i < CAPACITY + 10; i++) {
        close(clients[i]);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(30);
    opened_and_closed();
    alone();
    set_load();
    accepted_ones();
    return 0;
}
