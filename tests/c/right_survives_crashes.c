/* timeout: 120
 * R05: two of four workers are killed at random instants under a trickle of connections, again and
 * again, the one that accepts among them. Once they are reported and replaced the next connection is
 * accepted within a second, and the slots of the dead are free. HERD_TEST_SLOW=1: more rounds. */
#include "right.h"

enum { workers = 4, most_ms = 1000 };

/* Shared with the trickle: the slot that accepted last, and the connections so far. */
struct trickle {
    int last_slot;
    unsigned connections;
};

static void trickle_run(struct trickle *trickle)
{
    for (;;) {
        int fd = connect_try(serve.address);
        if (fd >= 0) {
            int slot = serve_greeting(fd, 20000);
            CHECK(slot != -1);
            if (slot >= 0) {
                SHARED_SET(trickle->last_slot, slot);
            }
            SHARED_ADD(trickle->connections, 1u);
            close(fd);
        }
        sleep_ms(1);
    }
}

/* The accept right is nobody's, or that of a slot with a worker: it was not left with a dead one. Between
 * the two looks it may go on to another. */
static int right_is_with_the_living(void)
{
    int holder = serve_total().holder;
    return holder == -1 || (holder >= 0 && holder < workers && serve_stats(holder).workers == 1);
}

static void survive(const struct right_case *c, int rounds, uint32_t *seed, struct trickle *trickle)
{
    struct herd_config config = right_config(c, 0);
    int longest_ms = 0;
    SHARED_SET(trickle->last_slot, 0);
    SHARED_SET(trickle->connections, 0u);
    serve_start(&config, workers);
    pid_t client = test_fork();
    if (client == 0) {
        trickle_run(trickle);
    }
    for (int round = 0; round < rounds; round++) {
        unsigned seen = SHARED_GET(trickle->connections);
        WAIT_UNTIL(SHARED_GET(trickle->connections) > seen + 2, 10000);
        usleep(right_random(seed, 3000));
        int first = SHARED_GET(trickle->last_slot);
        int second = (first + 1 + (int)right_random(seed, workers - 1)) % workers;
        pid_t first_pid = serve.pids[first], second_pid = serve.pids[second];
        kill(first_pid, SIGKILL);
        usleep(right_random(seed, 1500));
        kill(second_pid, SIGKILL);
        serve.pids[first] = serve.pids[second] = 0;
        /* The first report, or the guard before it, may find both. */
        test_join(first_pid);
        CHECK(herd_reap(serve.herd, first_pid) >= 0);
        CHECK_EQ(serve_stats(first).workers, 0);
        test_join(second_pid);
        CHECK(herd_reap(serve.herd, second_pid) >= 0);
        CHECK_EQ(serve_total().workers, workers - 2);
        CHECK(right_is_with_the_living());
        serve_fork(first);
        serve_fork(second);
        int64_t began_ms = now_ms();
        int fd, slot;
        do { /* one that was accepted by a worker just killed is closed */
            fd = connect_to(serve.address);
            slot = serve_greeting(fd, 20000);
            close(fd);
        } while (slot == -2);
        int took_ms = (int)(now_ms() - began_ms);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        CHECK(slot >= 0);
        CHECK(took_ms < most_ms);
        WAIT_UNTIL(SHARED_GET(serve.shared->ready[first]) == serve.pids[first]
                   && SHARED_GET(serve.shared->ready[second]) == serve.pids[second], 10000);
        CHECK_EQ(serve_total().workers, workers);
        CHECK(right_is_with_the_living());
    }
    CHECK(!test_ended(client));
    test_kill(client);
    serve_settle();
    struct herd_stats stats = serve_total();
    CHECK_EQ(stats.connections_open, 0);
    CHECK_EQ(stats.reaps, 2 * rounds);
    printf("%s: %d rounds, accepted after at most %d ms\n", c->name, rounds, longest_ms);
    serve_end();
}

int main(void)
{
    test_begin(115);
    uint32_t seed = right_seed();
    int rounds = test_is_slow() ? 200 : 60;
    struct trickle *trickle = (struct trickle *)shared_memory(sizeof *trickle);
    for (int i = 0; i < right_case_count; i++) {
        survive(&right_cases[i], rounds, &seed, trickle);
    }
    test_exit(0);
}
