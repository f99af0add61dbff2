/* A worker that cannot be made, since the second listener of its slot cannot listen, leaves the first one's
 * to the others: nobody who is sent there waits. */
#include "inject.h"

enum { clients = 24 };

static int greeted;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    (void)data;
    greeted++;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

int main(int argc, char **argv)
{
    struct herd_worker *whole, *half = NULL;
    int fds[clients];
    (void)argc;
    test_begin(50);
    inject_begin(argv);
    /* A program that steers would not send anybody to a slot without a worker. */
    arm(FAULT_BPF, EPERM, 0, 100);
    struct herd *herd = new_herd(HERD_MODE_REUSEPORT, 2);
    CHECK_CODE(herd_is_steered(herd), 0);
    int first = new_listener(herd, on_accept, NULL);
    new_listener(herd, on_accept, NULL);
    CHECK_CODE(herd_worker_create(herd, 0, &whole), 0);
    CHECK(herd_run_once(whole, 0) >= 0);
    arm(FAULT_LISTEN, EADDRINUSE, 1, 1);
    CHECK_CODE(herd_worker_create(herd, 1, &half), -EADDRINUSE);
    CHECK(half == NULL);
    for (int i = 0; i < clients; i++) {
        fds[i] = connect_to(address_of(herd, first));
    }
    int64_t deadline = now_ms() + 5000;
    while (greeted < clients) {
        CHECK(now_ms() < deadline);
        CHECK(herd_run_once(whole, 10) >= 0);
    }
    for (int i = 0; i < clients; i++) {
        close(fds[i]);
    }
    CHECK_CODE(herd_worker_destroy(whole), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
