/* Messages in the queue of a worker that no worker of the herd has sent are dropped with their descriptors, and
 * said in the log; the connections behind them arrive, at the worker that they are for or at one that looks
 * after it. A queue that somebody has shut down makes nobody spin. */
#include "handoff_pair.h"

#include <sys/ioctl.h>

enum { message_max = 512, unknown_listener = 777 };

/* The ends of slot 0's queue, and the bytes of a message that is none of these. */
static int sender, receiver;
static unsigned char good[message_max];
static size_t good_bytes;

static unsigned said_dropped, said_unknown;

static void on_log(void *data, int level, const char *message)
{
    (void)data, (void)level;
    said_dropped += strstr(message, "dropped that no worker of the herd sends") != NULL;
    said_unknown += strstr(message, "whose listener is not known here") != NULL;
}

static int queued_bytes(int fd)
{
    int bytes = 0;
    CHECK_EQ(ioctl(fd, FIONREAD, &bytes), 0);
    return bytes;
}

static int is_packet_socket(int fd)
{
    int type = 0;
    socklen_t length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
}

/* The packet socket of which `request` (ioctl(2)) says that it has bytes. */
static int find_end(unsigned long request)
{
    for (int fd = 3; fd < 256; fd++) {
        int bytes = 0;
        if (is_packet_socket(fd) && ioctl(fd, request, &bytes) == 0 && bytes > 0) {
            return fd;
        }
    }
    CHECK(!"none has");
    return -1;
}

/* As somebody would who has the socket: `count` descriptors, of which the other end is returned. */
static int send_foreign(const void *bytes, size_t length, int count)
{
    char control[CMSG_SPACE(2 * sizeof(int))];
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    struct msghdr message;
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    memset(&message, 0, sizeof message);
    memset(control, 0, sizeof control);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (count > 0) {
        int sent[2] = {ends[0], ends[0]};
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(header), sent, (size_t)count * sizeof(int));
    }
    CHECK_EQ(sendmsg(sender, &message, MSG_DONTWAIT | MSG_NOSIGNAL), length);
    close(ends[0]);
    return ends[1];
}

/* `who` receives: worker 0, or 1 while 0 makes no turns. */
static void is_dropped(int who, const void *bytes, size_t length, int descriptors)
{
    /* A worker that took none is given none until it has come back. */
    CHECK(herd_run_once(pair.workers[0], 0) >= 0);
    int foreign = send_foreign(bytes, length, descriptors), client = pair_send();
    pair_turns_until_delivered(who);
    pair_expect_end(foreign);
    pair_expect_end(client);
    CHECK_EQ(queued_bytes(receiver), 0);
}

static void start(void)
{
    pair_start(on_log);
    int client = pair_send();
    receiver = find_end(FIONREAD);
    sender = find_end(TIOCOUTQ);
    good_bytes = (size_t)queued_bytes(receiver);
    CHECK(good_bytes < message_max);
    CHECK_EQ(recv(receiver, good, sizeof good, MSG_PEEK | MSG_DONTWAIT), good_bytes);
    pair_turns_until_delivered(0);
    pair_expect_end(client);
}

static void messages(void)
{
    unsigned char bad[message_max + 8];
    for (int who = 0; who < 2; who++) {
        start();
        said_dropped = said_unknown = 0;
        is_dropped(who, "x", 1, 1);
        CHECK_EQ(said_dropped, 1);
        is_dropped(who, "x", 1, 0);
        is_dropped(who, good, good_bytes, 0);
        is_dropped(who, good, good_bytes, 2);
        is_dropped(who, good, good_bytes - 1, 1);
        memcpy(bad, good, good_bytes);
        bad[good_bytes] = 0;
        is_dropped(who, bad, good_bytes + 1, 1);
        memset(bad, 0xee, good_bytes);
        is_dropped(who, bad, good_bytes, 1);
        /* A listener's number is what a message begins with. */
        uint32_t number = unknown_listener;
        memcpy(bad, good, good_bytes);
        memcpy(bad, &number, sizeof number);
        is_dropped(who, bad, good_bytes, 1);
        CHECK_EQ(said_unknown, 1);
        pair_end();
    }
}

/* Nobody looks oftener than once every accept_delay. */
static void shut_down(void)
{
    start();
    CHECK_EQ(shutdown(sender, SHUT_RDWR), 0);
    for (int slot = 0; slot < 2; slot++) {
        int turns = 0;
        for (int64_t end = now_ms() + 10 * pair_delay_ms; now_ms() < end; turns++) {
            CHECK(herd_run_once(pair.workers[slot], pair_delay_ms) >= 0);
        }
        printf("slot %d: %d turns\n", slot, turns);
        CHECK(turns < 60);
    }
    pair_end();
}

int main(void)
{
    test_begin(60);
    int fds = open_fds();
    messages();
    shut_down();
    CHECK_EQ(open_fds(), fds);
    test_exit(0);
}
