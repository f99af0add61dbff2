/* In every example server a worker that blocks in a handler keeps no new client waiting while another
   one is idle, whoever had the accept right, and although the guard's own tick is far. HERD_TEST_SLOW=1:
   each worker blocks alone once in each server. timeout: 120 */
#include "server.h"

enum { workers = 4, most_ms = 1200, clients_each = 5, connections_most = 64 };

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

/* New clients while the workers from `first` to `last` are blocked. */
static int64_t ask_beside_blocked(const int *at_slot, const pid_t *pids, int first, int last)
{
    int64_t worst_us = 0;
    struct server_answer answer;
    for (int blocked = first; blocked <= last; blocked++) {
        server_send(at_slot[blocked], "/slow?ms=1500");
        WAIT_UNTIL(server_is_blocked(pids[blocked]), 10000);
    }
    for (int i = 0; i < clients_each; i++) {
        int slot, fd = server_ask_new(most_ms, &slot, &worst_us);
        /* On a busy machine the block may be over by now. */
        CHECK(slot < first || slot > last || !server_is_blocked(pids[slot]));
        close(fd);
    }
    for (int blocked = first; blocked <= last; blocked++) {
        CHECK_EQ(server_receive(at_slot[blocked], 20000, &answer), 0);
        CHECK_EQ(answer.slot, blocked);
    }
    return worst_us;
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
    int rounds = test_is_slow() ? workers : 1;
    for (int round = 0; round <= rounds; round++) {
        int64_t us = round < rounds ? ask_beside_blocked(at_slot, pids, alone, alone)
                                    : ask_beside_blocked(at_slot, pids, 0, workers - 2);
        worst_us = us > worst_us ? us : worst_us;
        alone = round < rounds ? (alone + 1) % workers : alone;
    }
    printf("%s, %s: worst answer beside a blocked worker %.1f ms\n", c->program, c->mode,
           (double)worst_us / 1000);
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
    server_stop();
}

int main(void)
{
    test_begin(115);
    server_for_each(blocked);
    test_exit(0);
}
