/* R32: a connection that was closed while another process has it open causes no callback, does not
 * wake the connection that gets its number, and does not keep the loop busy. */
#include "check.h"

static struct herd *herd;
static struct herd_worker *worker;
static int accepted_fd;
static int old_calls, new_calls;

static void on_accept(struct herd_worker *w, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)w;
    (void)peer;
    (void)peer_length;
    (void)data;
    accepted_fd = fd;
}

static void count_and_read(struct herd_worker *w, struct herd_event *event, uint32_t ready)
{
    char bytes[64];
    (void)w;
    (void)ready;
    ++*(int *)event->data;
    CHECK(recv(event->fd, bytes, sizeof bytes, MSG_DONTWAIT) >= 0);
}

/* Takes the connection of a client. Returns its descriptor. */
static int accept_one(void)
{
    accepted_fd = -1;
    for (int turns = 0; accepted_fd < 0 && turns < 100; turns++) {
        CHECK(herd_run_once(worker, 1000) >= 0);
    }
    CHECK(accepted_fd >= 0);
    return accepted_fd;
}

/* Turns for 200 ms that have nothing to do. Returns how many there were. */
static int idle_turns(void)
{
    int64_t end_ms = now_ms() + 200;
    int turns = 0;
    while (now_ms() < end_ms) {
        CHECK_CODE(herd_run_once(worker, 50), 0);
        turns++;
    }
    return turns;
}

/* `properly`: herd_event_del before close, as the header asks. */
static void close_while_shared(int properly)
{
    struct herd_event old_event, new_event;
    old_calls = new_calls = 0;
    int old_client = connect_to(address_of(herd, 0));
    int old_fd = accept_one();
    CHECK_CODE(herd_event_init(&old_event, count_and_read, &old_calls), 0);
    CHECK_CODE(herd_event_add(worker, &old_event, old_fd, HERD_READ), 0);
    pid_t helper = test_fork();
    if (helper == 0) {
        for (;;) {
            pause();
        }
    }
    uint64_t stale = slot_stats(herd, 0).stale_events;
    /* Connected before the close, so that it is not the client that gets the number. */
    int new_client = connect_to(address_of(herd, 0));
    if (properly) {
        CHECK_CODE(herd_event_del(worker, &old_event), 0);
    }
    close(old_fd);
    CHECK(herd_conn_closed(worker) >= 0);

    CHECK_EQ(accept_one(), old_fd);
    CHECK_CODE(herd_event_init(&new_event, count_and_read, &new_calls), 0);
    CHECK_CODE(herd_event_add(worker, &new_event, old_fd, HERD_READ), 0);
    CHECK_EQ(send(old_client, "old", 3, MSG_NOSIGNAL), 3);
    int turns = idle_turns();
    CHECK(turns <= 20);
    CHECK_EQ(old_calls, 0);
    CHECK_EQ(new_calls, 0);
    uint64_t dropped = slot_stats(herd, 0).stale_events - stale;
    printf("%s: %d turns in 200 ms, %d stale events\n", properly ? "properly" : "without del", turns,
           (int)dropped);
    CHECK(properly ? dropped == 0 : dropped >= 1 && dropped <= 2);

    if (!properly) {
        CHECK_CODE(herd_event_del(worker, &old_event), -EBADF);
    }
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(send(new_client, "new", 3, MSG_NOSIGNAL), 3);
        CHECK_CODE(herd_run_once(worker, 5000), 1);
        CHECK_EQ(new_calls, i);
    }
    CHECK_EQ(old_calls, 0);
    CHECK_CODE(herd_event_del(worker, &new_event), 0);
    close(old_fd);
    CHECK(herd_conn_closed(worker) >= 0);
    close(old_client);
    close(new_client);
    test_kill(helper);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.max_workers = 1;
    test_begin(50);
    CHECK_CODE(herd_create(&config, &herd), 0);
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL), 0);
    CHECK_CODE(herd_worker_create(herd, 0, &worker), 0);
    close_while_shared(1);
    close_while_shared(0);
    close_while_shared(1);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
