/* In EXCLUSIVE a worker is woken for a connection, has no descriptor for it and steps back while all
 * others are busy. The next one that goes idle takes the connection, long before accept_delay. */
#include "serve.h"

enum { busy_ms = 60, delay_ms = 2000 };

static void be_busy(struct herd_worker *worker)
{
    (void)worker;
    sleep_ms(busy_ms);
}

/* Returns how long the connection waited. */
static int next_idle_takes_it(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_EXCLUSIVE;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = delay_ms;
    serve.on_request = be_busy;
    serve_start(&config, 2);
    int first, second, third;
    int firsts = serve_connect(&first);
    kill(serve.pids[first], SIGSTOP);
    sleep_ms(50);
    int seconds = serve_connect(&second);
    CHECK_EQ(second, 1 - first);
    kill(serve.pids[first], SIGCONT);
    sleep_ms(50);

    process_limit_fds(serve.pids[first], 3);
    CHECK_EQ(send(seconds, "x", 1, 0), 1);
    sleep_ms(10);
    int64_t connected_ms = now_ms();
    int thirds = serve_connect(&third);
    int waited_ms = (int)(now_ms() - connected_ms);
    printf("accepted after %d ms\n", waited_ms);
    CHECK_EQ(third, second);
    close(firsts);
    close(seconds);
    close(thirds);
    serve_end();
    return waited_ms;
}

int main(void)
{
    test_begin(50);
    int waited_ms;
    CHECK_IN_SOME_TRY(waited_ms = next_idle_takes_it(), waited_ms < busy_ms + 200);
    test_exit(0);
}
