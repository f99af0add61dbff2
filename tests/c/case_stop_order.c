/* R07: A has the accept right, B and C wait. B is asked to stop, then A: B leaves without ever taking
 * the right, and C takes it over from A. */
#include "serve.h"

/* Returns how long it took to leave. */
static int stop_and_join(int slot, int with_signal)
{
    pid_t pid = serve.pids[slot];
    serve.pids[slot] = 0;
    int64_t asked_ms = now_ms();
    kill(pid, with_signal);
    WAIT_UNTIL(test_ended(pid), 5000);
    int took_ms = (int)(now_ms() - asked_ms);
    printf("slot %d left after %d ms\n", slot, took_ms);
    CHECK_EQ(test_join(pid), 0);
    return took_ms;
}

/* How long B took to leave, and C to accept after A had left. */
struct times {
    int leave_ms, take_over_ms;
};

static struct times stop_in_order(int with_signal)
{
    struct times times;
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; /* the safety net must not be what helps */
    serve_start(&config, 3);
    int a = serve_find_holder(NULL), b = (a + 1) % 3, c = (a + 2) % 3, slot;
    uint64_t acquisitions = serve_stats(b).acquisitions;
    uint64_t accepted = serve_stats(b).accepted;

    times.leave_ms = stop_and_join(b, with_signal);
    CHECK_EQ(serve_stats(b).acquisitions, acquisitions);
    CHECK_EQ(serve_stats(b).accepted, accepted);
    close(serve_connect(&slot));
    CHECK_EQ(slot, a);

    stop_and_join(a, with_signal);
    uint64_t thefts = serve_total().thefts; /* until here a busy machine may have looked like a worker that hangs */
    int64_t left_ms = now_ms();
    int client = serve_connect(&slot);
    times.take_over_ms = (int)(now_ms() - left_ms);
    printf("accepted %d ms later\n", times.take_over_ms);
    CHECK_EQ(slot, c);
    CHECK_EQ(serve_total().thefts, thefts);
    close(client);
    serve_end();
    return times;
}

int main(void)
{
    test_begin(50);
    static const int signals[] = {SIGINT, SIGTERM}; /* herd_stop, herd_drain */
    for (int i = 0; i < 2; i++) {
        struct times times;
        CHECK_IN_SOME_TRY(times = stop_in_order(signals[i]), times.leave_ms < 100 && times.take_over_ms < 50);
    }
    test_exit(0);
}
