/* R12: a worker without free descriptors leaves accepting to the others, does not spin, and takes it
 * up again by itself. */
#include "serve.h"

enum { delay_ms = 300, slack_ms = 2000 };

/* From outside, so that the worker is not woken by it. */
static void limit_fds(pid_t pid, rlim_t most)
{
    struct rlimit limit;
    CHECK_EQ(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    CHECK_EQ(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* A second in which nothing can be accepted: one failing accept at the start and one after each
 * delay, and hardly more turns than that. */
static void check_no_spin(int slot, const struct herd_stats *before)
{
    sleep_ms(1000);
    struct herd_stats after = serve_stats(slot);
    uint64_t backoffs = after.backoffs - before->backoffs;
    uint64_t turns = after.turns - before->turns;
    printf("slot %d in 1 s: %d failing accepts, %d turns\n", slot, (int)backoffs, (int)turns);
    CHECK(backoffs <= 1 + 1000 / delay_ms + 1);
    CHECK(turns <= 40);
}

/* Returns how long the other one took to accept. */
static int two_workers(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = delay_ms;
    serve_start(&config, 2);
    int a = serve_find_holder(NULL), b = 1 - a, slot;

    struct herd_stats before = serve_stats(a);
    limit_fds(serve.pids[a], 3);
    int64_t connected_ms = now_ms();
    int first = serve_connect(&slot);
    int waited_ms = (int)(now_ms() - connected_ms);
    printf("the other worker accepted after %d ms\n", waited_ms);
    CHECK_EQ(slot, b);
    CHECK_EQ(serve_stats(a).backoffs - before.backoffs, 1);
    check_no_spin(a, &before);

    /* Nobody can accept. Then there is room in A. */
    kill(serve.pids[b], SIGSTOP);
    before = serve_stats(a);
    int second = connect_to(serve.address);
    WAIT_UNTIL(serve_stats(a).backoffs > before.backoffs, delay_ms * 2 + slack_ms);
    check_no_spin(a, &before);
    limit_fds(serve.pids[a], 1024);
    int64_t room_ms = now_ms();
    CHECK_EQ(serve_greeting(second, delay_ms + slack_ms), a);
    printf("accepted again after %d ms\n", (int)(now_ms() - room_ms));
    kill(serve.pids[b], SIGCONT);
    close(first);
    close(second);
    serve_end();
    return waited_ms;
}

static void one_worker(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = delay_ms;
    serve_start(&config, 1);
    struct herd_stats before = serve_stats(0);
    limit_fds(serve.pids[0], 3);
    int client = connect_to(serve.address);
    check_no_spin(0, &before);
    CHECK(serve_stats(0).backoffs - before.backoffs >= 2);
    limit_fds(serve.pids[0], 1024);
    CHECK_EQ(serve_greeting(client, delay_ms + slack_ms), 0);
    close(client);
    serve_end();
}

int main(void)
{
    test_begin(50);
    int waited_ms;
    CHECK_IN_SOME_TRY(waited_ms = two_workers(), waited_ms < 100);
    one_worker();
    test_exit(0);
}
