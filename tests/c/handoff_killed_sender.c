/* Senders that are killed between counting connections and sending them leave a worker's count too large. It is set
 * right though nobody looks at that worker's queue: it is the only one, or takes all ticks of the guard itself. */
#include "handoff_pair.h"

#include <sys/syscall.h>

enum { window = 32, few = 4 };

static void (*before_sending)(void);

/* In place of libc's, for the library too. */
int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (before_sending != NULL) {
        before_sending();
    }
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void start(uint32_t workers, uint32_t connections)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = workers;
    config.worker_connections = connections;
    config.accept_delay_ms = pair_delay_ms;
    config.handover_delay_us = 1000;
    memset(&pair, 0, sizeof pair);
    CHECK_CODE(herd_create(&config, &pair.herd), 0);
    CHECK_CODE(herd_on_handoff(pair.herd, pair_on_handoff, NULL), 0);
}

static void start_worker(void)
{
    CHECK_CODE(herd_worker_create(pair.herd, 0, &pair.workers[0]), 0);
    CHECK(herd_run_once(pair.workers[0], 0) >= 0);
}

static void end(void)
{
    struct herd_stats stats = total_stats(pair.herd);
    CHECK_EQ(stats.handoff_sent, stats.handoff_received);
    CHECK_CODE(herd_worker_destroy(pair.workers[0]), 0);
    CHECK_CODE(herd_destroy(pair.herd), 0);
}

static int try_to_send(int wanted)
{
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    int code = herd_handoff_send(pair.herd, wanted, ends[0], "real", 4);
    if (code != 0) {
        CHECK_CODE(code, -EAGAIN);
        close(ends[0]);
    }
    close(ends[1]);
    return code == 0;
}

static void leave_counted(unsigned count)
{
    uint64_t before = total_stats(pair.herd).handoff_sent;
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = test_fork();
        if (pid == 0) {
            before_sending = die;
            try_to_send(0);
        }
        CHECK_EQ(test_join(pid), 1000 + SIGKILL);
    }
    CHECK_EQ(total_stats(pair.herd).handoff_sent, before + count);
}

static void takes_all_ticks(int wanted)
{
    start(2, 512);
    start_worker();
    leave_counted(window);
    CHECK(!try_to_send(wanted));
    for (int64_t until = now_ms() + 10000 * test_scale(); !try_to_send(wanted);) {
        CHECK(now_ms() < until);
        CHECK(herd_run_once(pair.workers[0], 10) >= 0);
    }
    pair_turns_until_delivered(0);
    end();
}

/* No guard, and not even a turn. */
static void is_the_only_one(int wanted)
{
    start(1, 512);
    start_worker();
    leave_counted(window);
    WAIT_UNTIL(try_to_send(wanted), 10000);
    pair_turns_until_delivered(0);
    end();
}

static unsigned accepted;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t peer_length, void *data)
{
    (void)peer, (void)peer_length, (void)data;
    accepted++;
    close(fd);
    CHECK_CODE(herd_conn_closed(worker), 0);
}

/* What it accepts itself it serves. */
static void has_no_room_by_the_count(void)
{
    start(2, few);
    int listener = new_listener(pair.herd, on_accept, NULL);
    start_worker();
    leave_counted(few);
    int client = connect_to(address_of(pair.herd, listener));
    for (int64_t until = now_ms() + 10000 * test_scale(); accepted == 0;) {
        CHECK(now_ms() < until);
        CHECK(herd_run_once(pair.workers[0], 10) >= 0);
    }
    char byte;
    CHECK_EQ(recv(client, &byte, 1, 0), 0);
    close(client);
    end();
}

static void turns_until_not_counted(void)
{
    before_sending = NULL;
    CHECK_EQ(total_stats(pair.herd).handoff_sent, 1);
    for (int64_t until = now_ms() + 10000 * test_scale(); total_stats(pair.herd).handoff_sent > 0;) {
        CHECK(now_ms() < until);
        CHECK(herd_run_once(pair.workers[0], 10) >= 0);
    }
}

/* Its connection arrives, and counts. */
static void was_only_slow(void)
{
    start(2, 512);
    start_worker();
    before_sending = turns_until_not_counted;
    int client = pair_send();
    pair_turns_until_delivered(0);
    pair_expect_end(client);
    CHECK_EQ(total_stats(pair.herd).handoff_received, 1);
    end();
}

int main(void)
{
    test_begin(50);
    takes_all_ticks(0);
    takes_all_ticks(HERD_PICK);
    is_the_only_one(0);
    is_the_only_one(HERD_PICK);
    has_no_room_by_the_count();
    was_only_slow();
    test_exit(0);
}
