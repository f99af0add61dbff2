/* herd_handoff_send: what it returns, who owns the descriptor, and that a connection arrives with its
 * tag, by callback and by herd_accept, from the parent and from another worker. */
#include "check.h"

#include <sys/resource.h>

enum { window = 32 };

static struct {
    int count;
    int fd;
    uint32_t peer_length;
    size_t tag_bytes;
    char tag[HERD_TAG_BYTES_MAX];
} got;

static void on_handoff(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                       uint32_t peer_length, const void *tag, size_t tag_bytes, void *data)
{
    CHECK(data == (void *)&got && peer != NULL && tag_bytes <= sizeof got.tag);
    CHECK(herd_worker_slot(worker) >= 0);
    got.count++;
    got.fd = fd;
    got.peer_length = peer_length;
    got.tag_bytes = tag_bytes;
    memcpy(got.tag, tag, tag_bytes);
}

static struct herd *handoff_herd(uint32_t connections)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = 3;
    config.worker_connections = connections;
    /* Long before one worker takes what another one has not. */
    config.accept_delay_ms = 60000;
    config.handover_delay_us = 1000000;
    CHECK_CODE(herd_create(&config, &herd), 0);
    return herd;
}

static void pair(int *fds)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void refused(struct herd *herd, int slot, int fd, const void *tag, size_t bytes, int code)
{
    int was_open = is_open(fd), before = open_fds();
    CHECK_CODE(herd_handoff_send(herd, slot, fd, tag, bytes), code);
    CHECK_EQ(is_open(fd), was_open);
    CHECK_EQ(open_fds(), before);
}

static void bad_input(void)
{
    struct herd *herd = handoff_herd(4), *other = new_herd(HERD_MODE_MUTEX, 2);
    struct herd_worker *worker;
    char tag[HERD_TAG_BYTES_MAX + 1] = {0};
    int fds[2], pipes[2];
    pair(fds);
    CHECK_EQ(pipe(pipes), 0);
    refused(NULL, HERD_PICK, fds[0], NULL, 0, -EINVAL);
    refused(other, HERD_PICK, fds[0], NULL, 0, -EOPNOTSUPP);
    CHECK_CODE(herd_on_handoff(NULL, on_handoff, NULL), -EINVAL);
    CHECK_CODE(herd_on_handoff(other, on_handoff, NULL), -EOPNOTSUPP);
    refused(herd, HERD_PICK, fds[0], NULL, 0, -EAGAIN);
    refused(herd, 1, fds[0], NULL, 0, -ESRCH);
    CHECK_CODE(herd_worker_create(herd, 1, &worker), 0);
    CHECK_CODE(herd_on_handoff(herd, on_handoff, NULL), -EBUSY);
    refused(herd, 3, fds[0], NULL, 0, -EINVAL);
    refused(herd, -2, fds[0], NULL, 0, -EINVAL);
    refused(herd, 70000, fds[0], NULL, 0, -EINVAL);
    refused(herd, 2, fds[0], NULL, 0, -ESRCH);
    refused(herd, 1, -1, NULL, 0, -EBADF);
    refused(herd, 1, 9999, NULL, 0, -EBADF);
    refused(herd, 1, pipes[0], NULL, 0, -ENOTSOCK);
    refused(herd, 1, fds[0], NULL, 1, -EINVAL);
    refused(herd, 1, fds[0], tag, sizeof tag, -EMSGSIZE);
    CHECK_EQ(total_stats(herd).handoff_sent, 0);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    close(pipes[0]);
    close(pipes[1]);
    close(fds[0]);
    close(fds[1]);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_CODE(herd_destroy(other), 0);
}

static void by_callback(void)
{
    struct herd *herd = handoff_herd(4);
    struct herd_worker *worker;
    int fds[2];
    char byte = 'x', longest[HERD_TAG_BYTES_MAX];
    memset(longest, 'l', sizeof longest);
    CHECK_CODE(herd_on_handoff(herd, on_handoff, &got), 0);
    CHECK_CODE(herd_worker_create(herd, 2, &worker), 0);
    for (int i = 0; i < 3; i++) {
        const void *tag = i == 0 ? NULL : i == 1 ? (const void *)"a\0b" : longest;
        size_t bytes = i == 0 ? 0 : i == 1 ? 3 : sizeof longest;
        pair(fds);
        memset(&got, 0, sizeof got);
        CHECK_CODE(herd_handoff_send(herd, i == 0 ? 2 : HERD_PICK, fds[0], tag, bytes), 2);
        CHECK(!is_open(fds[0]));
        /* The connection lives on, though nobody has taken it yet. */
        CHECK_EQ(recv(fds[1], &byte, 1, MSG_DONTWAIT), -1);
        CHECK_EQ(errno, EAGAIN);
        for (int turns = 0; got.count == 0; turns++) {
            CHECK(turns < 10 && herd_run_once(worker, 1000) >= 0);
        }
        CHECK_EQ(got.count, 1);
        CHECK_EQ(got.tag_bytes, bytes);
        CHECK(bytes == 0 || memcmp(got.tag, tag, bytes) == 0);
        CHECK(got.peer_length >= sizeof(sa_family_t));
        CHECK(fcntl(got.fd, F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(got.fd, F_GETFD) & FD_CLOEXEC);
        CHECK_EQ(total_stats(herd).connections_open, 1);
        CHECK_CODE(herd_conn_closed(worker), 0);
        close(got.fd);
        CHECK_EQ(recv(fds[1], &byte, 1, 0), 0);
        close(fds[1]);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Two workers of this process: one sends to the other, which takes by herd_accept. */
static void by_pull(void)
{
    struct herd *herd = handoff_herd(1024);
    struct herd_worker *workers[2];
    int fds[2], keep[window + 1];
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(herd_worker_create(herd, i, &workers[i]), 0);
    }
    /* A window of them, and then it is full. */
    for (int i = 0; i <= window; i++) {
        pair(fds);
        keep[i] = fds[1];
        if (i < window) {
            CHECK_CODE(herd_handoff_send(herd, 1, fds[0], &i, sizeof i), 1);
        } else {
            refused(herd, 1, fds[0], &i, sizeof i, -EAGAIN);
            CHECK_CODE(herd_handoff_send(herd, HERD_PICK, fds[0], &i, sizeof i), 0);
        }
    }
    CHECK_EQ(total_stats(herd).handoff_sent, window + 1);
    struct herd_accepted accepted;
    accepted.size = sizeof accepted;
    CHECK_CODE(herd_accept(workers[1], &accepted), -EAGAIN);
    CHECK(herd_run_once(workers[1], 1000) >= 0);
    for (int i = 0; i < window; i++) {
        CHECK_CODE(herd_accept(workers[1], &accepted), 0);
        int number;
        CHECK_EQ(accepted.listener, HERD_LISTENER_NONE);
        CHECK_EQ(accepted.tag_bytes, sizeof number);
        memcpy(&number, accepted.tag, sizeof number);
        CHECK_EQ(number, i); /* in the order that they were sent */
        char byte = (char)i;
        CHECK_EQ(send(accepted.fd, &byte, 1, 0), 1);
        byte = 0;
        CHECK_EQ(recv(keep[i], &byte, 1, 0), 1);
        CHECK_EQ(byte, (char)i);
        close(accepted.fd);
        CHECK(herd_conn_closed(workers[1]) >= 0);
    }
    CHECK_CODE(herd_accept(workers[1], &accepted), -EAGAIN);
    /* A worker that leaves before it has looked: the next one of the herd gets it. */
    CHECK_CODE(herd_worker_destroy(workers[0]), 0);
    for (int turns = 0; herd_accept(workers[1], &accepted) != 0; turns++) {
        CHECK(turns < 100 && herd_run_once(workers[1], 100) >= 0);
    }
    CHECK_EQ(total_stats(herd).handoff_rerouted, 1);
    close(accepted.fd);
    for (int i = 0; i <= window; i++) {
        close(keep[i]);
    }
    CHECK_CODE(herd_worker_destroy(workers[1]), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(30);
    int fds = open_fds();
    bad_input();
    by_callback();
    by_pull();
    CHECK_EQ(open_fds(), fds);
    test_exit(0);
}
