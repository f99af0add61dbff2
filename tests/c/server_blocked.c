/* In every example server a worker that blocks in a handler keeps no new client waiting while another
   one is idle, whoever had the accept right, and although the guard's own tick is far. HERD_TEST_SLOW=1:
   each worker blocks alone once in each server. timeout: 180 */
#include "server.h"

enum { workers = 4, clients_each = 5, connections_most = 64 };

/* Connections, until each worker has one. Load spreads them while they stay. */
static int connect_to_each(int *fds, int *at_slot, pid_t *pids)
{
    int missing = workers, count = 0;
    for (int slot = 0; slot < workers; slot++) {
        at_slot[slot] = -1;
    }
    while (missing > 0) {
        CHECK(count < connections_most);
        pid_t pid;
        int fd = server_connect(), slot = server_ask_whom(fd, 10000, &pid);
        pids[slot] = pid;
        fds[count++] = fd;
        missing -= at_slot[slot] < 0;
        at_slot[slot] = fd;
        /* At a faster pace the loads may differ more (src/accept/balance.rs); and a machine that is so busy that
         * a worker has none by now may need a while to run it. */
        sleep_ms(count < 2 * workers ? 1 : 50);
    }
    return count;
}

/* New clients while the workers from `first` to `last` block for `block_ms`. Returns the longest time that one
 * waited for its answer, or -1 if one had none after most of it. */
static int64_t ask_beside_blocked(const int *at_slot, const pid_t *pids, int first, int last, int block_ms)
{
    int64_t worst_us = 0;
    struct server_answer answer;
    char path[64];
    snprintf(path, sizeof path, "/slow?ms=%d", block_ms);
    for (int blocked = first; blocked <= last; blocked++) {
        server_send(at_slot[blocked], path);
        WAIT_UNTIL(server_is_blocked(pids[blocked]), 10000);
    }
    for (int i = 0; i < clients_each && worst_us >= 0; i++) {
        int64_t began_us = now_us();
        int fd = server_connect();
        server_send(fd, "/");
        if (server_receive(fd, block_ms * 4 / 5, &answer) == 0) {
            /* On a busy machine the block may be over by now. */
            CHECK(answer.slot < first || answer.slot > last || !server_is_blocked(pids[answer.slot]));
            worst_us = now_us() - began_us > worst_us ? now_us() - began_us : worst_us;
        } else {
            worst_us = -1;
        }
        close(fd);
    }
    for (int blocked = first; blocked <= last; blocked++) {
        CHECK_EQ(server_receive(at_slot[blocked], 20000, &answer), 0);
        CHECK_EQ(answer.slot, blocked);
    }
    return worst_us;
}

/* Who waits for the blocked worker waits longer if that one blocks longer; who waits for a busy machine does not. */
static void nobody_waits(const int *at_slot, const pid_t *pids, int first, int last, int64_t *worst_us)
{
    int64_t us = -1;
    for (int block_ms = 1500; us < 0; block_ms *= 3) {
        if (block_ms > 13500) {
            fprintf(stderr, "no answer while slots %d to %d block\n", first, last);
            test_exit(1);
        }
        us = ask_beside_blocked(at_slot, pids, first, last, block_ms);
    }
    *worst_us = us > *worst_us ? us : *worst_us;
}

static void blocked(const struct server_case *c)
{
    int at_slot[workers], fds[connections_most];
    pid_t pids[workers];
    int64_t worst_us = 0;
    const char *const far_delay[] = { "--accept-delay-ms", "60000", NULL };
    server_start(c->program, c->mode, workers, far_delay);
    const int count = connect_to_each(fds, at_slot, pids);
    /* Another one alone in each server, or each in turn; then all but the last. */
    static int alone = 0;
    for (int round = test_is_slow() ? workers : 1; round > 0; round--) {
        nobody_waits(at_slot, pids, alone, alone, &worst_us);
        alone = (alone + 1) % workers;
    }
    nobody_waits(at_slot, pids, 0, workers - 2, &worst_us);
    printf("%s, %s: worst answer beside a blocked worker %.1f ms\n", c->program, c->mode,
           (double)worst_us / 1000);
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
    server_stop();
}

int main(void)
{
    test_begin(175);
    server_for_each(blocked);
    test_exit(0);
}
