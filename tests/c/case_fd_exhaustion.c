/* R12: a worker without free descriptors leaves accepting to the others, does not spin, and takes it
 * up again by itself. */
#include "serve.h"

enum { delay_ms = 300, slack_ms = 2000 };

/* A second in which nothing can be accepted: one failing accept at the start and one after each
 * delay, and hardly more turns than that. A busy machine lets this process sleep on: what counts is the
 * time since `began_ms`, which was before `before`. */
static void check_no_spin(int slot, int64_t began_ms, const struct herd_stats *before)
{
    sleep_ms(1000);
    struct herd_stats after = serve_stats(slot);
    int took_ms = (int)(now_ms() - began_ms);
    uint64_t backoffs = after.backoffs - before->backoffs;
    uint64_t turns = after.turns - before->turns;
    printf("slot %d in %d ms: %d failing accepts, %d turns\n", slot, took_ms, (int)backoffs, (int)turns);
    CHECK(backoffs <= (uint64_t)(1 + took_ms / delay_ms + 1));
    CHECK(turns <= (uint64_t)(took_ms / 25));
}

/* How long the other one took to accept, and how often the first one had failed by then. */
struct passed_on {
    int waited_ms, backoffs;
};

static struct passed_on two_workers(void)
{
    struct passed_on passed_on;
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = delay_ms;
    serve_start(&config, 2);
    int a = serve_find_holder(NULL), b = 1 - a, slot;

    int64_t began_ms = now_ms();
    struct herd_stats before = serve_stats(a);
    process_limit_fds(serve.pids[a], 3);
    int64_t connected_ms = now_ms();
    int first = serve_connect(&slot);
    passed_on.waited_ms = (int)(now_ms() - connected_ms);
    passed_on.backoffs = (int)(serve_stats(a).backoffs - before.backoffs);
    printf("the other worker accepted after %d ms, %d failing accepts\n", passed_on.waited_ms, passed_on.backoffs);
    CHECK_EQ(slot, b);
    check_no_spin(a, began_ms, &before);

    /* Nobody can accept. Then there is room in A. */
    kill(serve.pids[b], SIGSTOP);
    began_ms = now_ms();
    before = serve_stats(a);
    int second = connect_to(serve.address);
    WAIT_UNTIL(serve_stats(a).backoffs > before.backoffs, delay_ms * 2 + slack_ms);
    check_no_spin(a, began_ms, &before);
    process_limit_fds(serve.pids[a], 1024);
    int64_t room_ms = now_ms();
    CHECK_EQ(serve_greeting(second, delay_ms + slack_ms), a);
    printf("accepted again after %d ms\n", (int)(now_ms() - room_ms));
    kill(serve.pids[b], SIGCONT);
    close(first);
    close(second);
    serve_end();
    return passed_on;
}

static void one_worker(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = delay_ms;
    serve_start(&config, 1);
    int64_t began_ms = now_ms();
    struct herd_stats before = serve_stats(0);
    process_limit_fds(serve.pids[0], 3);
    int client = connect_to(serve.address);
    check_no_spin(0, began_ms, &before);
    CHECK(serve_stats(0).backoffs - before.backoffs >= 2);
    process_limit_fds(serve.pids[0], 1024);
    CHECK_EQ(serve_greeting(client, delay_ms + slack_ms), 0);
    close(client);
    serve_end();
}

int main(void)
{
    test_begin(50);
    struct passed_on passed_on;
    CHECK_IN_SOME_TRY(passed_on = two_workers(), passed_on.waited_ms < 100 && passed_on.backoffs == 1);
    one_worker();
    test_exit(0);
}
