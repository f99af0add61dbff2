/* R13: when all workers are full a connection waits in the backlog, refused by nobody, and is taken
 * within accept_delay after there is room. */
#include "serve.h"

enum { workers = 2, capacity = 16, delay_ms = 100, slack_ms = 2000 };

static void fill(uint32_t mode, uint32_t balance)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[workers * capacity], slots[workers * capacity];
    config.mode = mode;
    config.balance = balance;
    config.worker_connections = capacity;
    config.accept_delay_ms = delay_ms;
    serve_start(&config, workers);
    for (int i = 0; i < workers * capacity; i++) {
        clients[i] = serve_connect(&slots[i]);
    }
    for (int slot = 0; slot < workers; slot++) {
        CHECK_EQ(serve_stats(slot).connections_open, capacity);
    }
    for (int i = 0; i < 5; i++) {
        int waiting = connect_to(serve.address);
        CHECK_EQ(serve_greeting(waiting, delay_ms * 3), -1);
        int64_t room_ms = now_ms();
        close(clients[i]);
        CHECK_EQ(serve_greeting(waiting, delay_ms + slack_ms), slots[i]);
        printf("taken %d ms after there was room\n", (int)(now_ms() - room_ms));
        clients[i] = waiting;
    }
    for (int i = 0; i < workers * capacity; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    serve_end();
}

int main(void)
{
    test_begin(55);
    fill(HERD_MODE_MUTEX, HERD_BALANCE_PACK);
    fill(HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD);
    test_exit(0);
}
