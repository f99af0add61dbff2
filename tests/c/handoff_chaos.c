/* Workers are killed, and stopped for a while, at random moments while connections are handed over.
 * Each connection is received once, and only those that a killed worker had received are lost. */
/* timeout: 120 */
#include "right.h"

enum { workers = 4, acceptor = 3, burst = 24 };

static void run(int acceptor_slot, int rounds, uint32_t *seed)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[burst], lost = 0, doubled = 0, total = 0, kills = 0;
    config.mode = HERD_MODE_HANDOFF;
    config.accept_delay_ms = 20;
    config.acceptor_slot = acceptor_slot;
    serve_start(&config, workers);
    for (int round = 0; round < rounds; round++) {
        int victim = (int)right_random(seed, acceptor);
        int at = (int)right_random(seed, burst), stops = right_random(seed, 3) == 0;
        pid_t pid = serve.pids[victim];
        for (int i = 0; i < burst; i++) {
            clients[i] = connect_to(serve.address);
            if (i == at) {
                kill(pid, stops ? SIGSTOP : SIGKILL);
            }
            for (uint32_t spin = right_random(seed, 3000); spin > 0; spin--) {
                __asm__ volatile("");
            }
        }
        if (stops) {
            sleep_ms((int)right_random(seed, 60));
            kill(pid, right_random(seed, 2) ? SIGCONT : SIGKILL);
        }
        for (int i = 0; i < burst; i++) {
            int slot = serve_greeting(clients[i], 10000);
            CHECK(slot != -1); /* nobody waits for ever */
            lost += slot == -2;
            if (slot >= 0 && recv(clients[i], &slot, 1, MSG_DONTWAIT) == 1) {
                doubled++;
            }
            total++;
        }
        for (int i = 0; i < burst; i++) {
            close(clients[i]);
        }
        kills++;
        serve_crash(victim);
        serve_fork(victim);
        WAIT_UNTIL(SHARED_GET(serve.shared->ready[victim]) == serve.pids[victim], 10000);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
    struct herd_stats stats = serve_total();
    printf("acceptor %d: %d connections, %d kills: %d lost, %d rerouted\n", acceptor_slot, total, kills,
           lost, (int)stats.handoff_rerouted);
    CHECK_EQ(doubled, 0);
    CHECK(stats.handoff_rerouted > 0);
    if (acceptor_slot > 0) {
        /* What is received is counted a moment after it was taken. A kill that comes in between takes the connection too. */
        CHECK(stats.handoff_sent >= stats.handoff_received && (int)stats.handoff_sent <= total);
        CHECK((int)stats.handoff_received >= total - lost);
    }
    CHECK(lost <= kills);
    serve_end();
}

int main(void)
{
    uint32_t seed = right_seed();
    test_begin(110);
    int rounds = test_is_slow() ? 1000 : 150;
    run(acceptor, rounds, &seed);
    run(HERD_ANY_SLOT, rounds, &seed);
    test_exit(0);
}
