/* R07: A has the accept right, B and C wait. B is asked to stop, then A: B leaves without ever taking
 * the right, and C takes it over from A. */
#include "serve.h"

static void stop_and_join(int slot, int with_signal)
{
    pid_t pid = serve.pids[slot];
    serve.pids[slot] = 0;
    int64_t asked_ms = now_ms();
    kill(pid, with_signal);
    WAIT_UNTIL(test_ended(pid), 5000);
    printf("slot %d left after %d ms\n", slot, (int)(now_ms() - asked_ms));
    CHECK_EQ(test_join(pid), 0);
}

static void stop_in_order(int with_signal)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; /* the safety net must not be what helps */
    serve_start(&config, 3);
    int a = serve_find_holder(NULL), b = (a + 1) % 3, c = (a + 2) % 3, slot;
    uint64_t acquisitions = serve_stats(b).acquisitions;
    uint64_t accepted = serve_stats(b).accepted;

    stop_and_join(b, with_signal);
    CHECK_EQ(serve_stats(b).acquisitions, acquisitions);
    CHECK_EQ(serve_stats(b).accepted, accepted);
    close(serve_connect(&slot));
    CHECK_EQ(slot, a);

    stop_and_join(a, with_signal);
    uint64_t thefts = serve_total().thefts; /* until here a busy machine may have looked like a worker that hangs */
    int64_t left_ms = now_ms();
    int client = serve_connect(&slot);
    printf("accepted %d ms later\n", (int)(now_ms() - left_ms));
    CHECK_EQ(slot, c);
    CHECK(now_ms() - left_ms < 5000);
    CHECK_EQ(serve_total().thefts, thefts);
    close(client);
    serve_end();
}

int main(void)
{
    test_begin(50);
    stop_in_order(SIGINT);  /* herd_stop */
    stop_in_order(SIGTERM); /* herd_drain */
    test_exit(0);
}
