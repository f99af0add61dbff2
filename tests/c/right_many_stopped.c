/* Several workers are stopped in their wait, and look idle. Who is left hands the accept right over to them, or passes
 * connections on to them: that costs handover_delay for each, and not accept_delay. */
#include "right.h"

enum { workers = 4, clients_most = 60, long_delay_ms = 30000, theft_delay_ms = 3000 };

static int clients[clients_most];

/* As long as this may take here, and accept_delay can be. */
static int scaled_ms(int ms)
{
    int most_ms = 60000;
    return ms * test_scale() < most_ms ? ms * test_scale() : most_ms;
}

/* Returns the holder. */
static int start(uint32_t mode, int accept_delay_ms)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int holder = -1;
    config.mode = mode;
    config.accept_delay_ms = (uint32_t)scaled_ms(accept_delay_ms);
    config.accept_batch = 16;
    serve_start(&config, workers);
    WAIT_UNTIL((holder = serve_total().holder) >= 0, 10000);
    return holder;
}

static void signal_all_but(int alive, int number)
{
    for (int slot = 0; slot < workers; slot++) {
        if (slot != alive) {
            kill(serve.pids[slot], number);
        }
    }
    for (int slot = 0; number == SIGSTOP && slot < workers; slot++) {
        WAIT_UNTIL(slot == alive || process_state(serve.pids[slot]) == 'T', 10000);
    }
}

static void expect_greetings(int count, int alive, int64_t until_ms)
{
    for (int i = 0; i < count; i++) {
        int64_t left_ms = until_ms - now_ms();
        CHECK_EQ(serve_greeting(clients[i], left_ms > 0 ? (int)left_ms : 0), alive);
    }
}

static void end(int count, int alive)
{
    for (int i = 0; i < count; i++) {
        close(clients[i]);
    }
    signal_all_but(alive, SIGCONT);
    serve_end();
}

static void hand_the_right_over(void)
{
    int holder = start(HERD_MODE_MUTEX, long_delay_ms);
    uint64_t handovers = serve_stats(holder).handovers;
    signal_all_but(holder, SIGSTOP);
    for (int i = 0; i < clients_most; i++) {
        clients[i] = connect_to(serve.address);
    }
    expect_greetings(clients_most, holder, now_ms() + scaled_ms(long_delay_ms) / 3);
    printf("%d hand-overs\n", (int)(serve_stats(holder).handovers - handovers));
    CHECK(serve_stats(holder).handovers > handovers);
    end(clients_most, holder);
}

/* The holder is one of those that are stopped: who takes the right from it looks after what it gives. */
static void pass_on(void)
{
    enum { count = 12 };
    int alive = (start(HERD_MODE_HANDOFF, theft_delay_ms) + 1) % workers;
    signal_all_but(alive, SIGSTOP);
    for (int i = 0; i < count; i++) {
        clients[i] = connect_to(serve.address);
    }
    WAIT_UNTIL(serve_stats(alive).thefts > 0, 2 * theft_delay_ms);
    expect_greetings(count, alive, now_ms() + scaled_ms(theft_delay_ms) / 2);
    printf("%d taken from others\n", (int)serve_stats(alive).handoff_rerouted);
    CHECK(serve_stats(alive).handoff_rerouted > 0);
    end(count, alive);
}

int main(void)
{
    test_begin(50);
    hand_the_right_over();
    pass_on();
    test_exit(0);
}
