/* A worker that is stopped or killed (-9) at any moment, nobody being told, keeps no client waiting
 * longer than accept_delay but those that it had been given: the ones it had accepted. A kill resets
 * none of the others. */
#include "reuseport.h"
#include "right.h"

enum { workers = 4, burst = 12, rounds = 25, delay_ms = 200, slack_ms = 2000 };

/* Stops or kills a worker while clients arrive. Returns the longest wait of those it did not get. */
static int one_round(int with_signal, uint32_t *seed)
{
    int clients[burst], victim = (int)right_random(seed, workers), longest_ms = 0;
    int greeted_by_victim = 0, is_over[burst] = {0};
    int64_t connected_ms[burst];
    pid_t pid = serve.pids[victim];
    uint64_t accepted = serve_stats(victim).accepted;
    for (int i = 0; i < burst; i++) {
        connected_ms[i] = now_ms();
        clients[i] = connect_to(serve.address);
        if (i == burst / 2) {
            int64_t until_us = now_us() + right_random(seed, 200);
            while (now_us() < until_us) {
            }
            kill(pid, with_signal);
        }
    }
    /* Until all are greeted but those that the victim has. */
    int64_t until_ms = now_ms() + (delay_ms + slack_ms) * test_scale();
    int left = burst, given;
    do {
        for (int i = 0; i < burst; i++) {
            int slot = is_over[i] ? -1 : serve_greeting(clients[i], 1);
            if (slot == -1) {
                continue;
            }
            is_over[i] = 1;
            left -= slot >= 0;
            greeted_by_victim += slot == victim;
            if (slot >= 0 && slot != victim) {
                /* At most: a greeting can have waited for this test to look. */
                int took_ms = (int)(now_ms() - connected_ms[i]);
                longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
            }
        }
        given = (int)(serve_stats(victim).accepted - accepted);
    } while (left > given - greeted_by_victim && now_ms() < until_ms);
    /* The very last may have left the backlog without being counted. */
    CHECK(left <= given - greeted_by_victim + 1);
    CHECK_EQ(waiting_connections(serve.herd, 0), 0);
    if (with_signal == SIGKILL) {
        test_join(pid);
        CHECK(herd_reap(serve.herd, pid) >= 0);
        serve_fork(victim);
    } else {
        kill(pid, SIGCONT);
    }
    for (int i = 0; i < burst; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
    return longest_ms;
}

static void many_rounds(int steered, int with_signal, uint32_t *seed)
{
    struct herd_config config = reuseport_config(steered, delay_ms);
    int longest_ms = 0;
    serve_start(&config, workers);
    for (int round = 0; round < rounds; round++) {
        int ms = one_round(with_signal, seed);
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    printf("%s, %s: longest wait %d ms, %llu found by the guard\n", reuseport_names[steered],
           with_signal == SIGKILL ? "killed" : "stopped", longest_ms,
           (unsigned long long)serve_total().blind_accepts);
    serve_end();
}

int main(void)
{
    test_begin(55);
    uint32_t seed = right_seed();
    for (int steered = 0; steered <= reuseport_can_steer(); steered++) {
        many_rounds(steered, SIGSTOP, &seed);
        many_rounds(steered, SIGKILL, &seed);
    }
    test_exit(0);
}
