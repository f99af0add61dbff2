/* Handed-over connections go to the least loaded worker (Jain >= 0.99), to each in turn, or to one
 * after the other; never above a worker's capacity; and a worker that is alone passes nothing on. */
/* timeout: 120 */
#include "serve.h"

enum { most = 2000 };

static int clients[most];

static void open_clients(int count, int *of_slot)
{
    memset(of_slot, 0, SERVE_MAX_WORKERS * sizeof *of_slot);
    for (int i = 0; i < count; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        of_slot[slot]++;
    }
}

static void close_clients(int count)
{
    for (int i = 0; i < count; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 20000);
}

static struct herd_config config_of(uint32_t balance, int acceptor_slot)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF;
    config.balance = balance;
    config.acceptor_slot = acceptor_slot;
    /* On a busy machine a worker can seem stuck, and its connections would go to others. */
    config.handover_delay_us = 1000000;
    return config;
}

static void least_load(int acceptor_slot, int workers, int count)
{
    struct herd_config config = config_of(HERD_BALANCE_SPREAD, acceptor_slot);
    int of_slot[SERVE_MAX_WORKERS];
    serve_start(&config, workers);
    CHECK_EQ(herd_mode(serve.herd), HERD_MODE_HANDOFF);
    open_clients(count, of_slot);
    double sum = 0, squares = 0;
    int serving = 0;
    for (int slot = 0; slot < workers; slot++) {
        printf("slot %d: %d\n", slot, of_slot[slot]);
        CHECK_EQ(serve_stats(slot).connections_open, of_slot[slot]);
        if (slot == acceptor_slot) {
            CHECK_EQ(of_slot[slot], 0);
            CHECK_EQ(serve_stats(slot).accepted, count);
            continue;
        }
        serving++;
        sum += of_slot[slot];
        squares += (double)of_slot[slot] * of_slot[slot];
    }
    double jain = sum * sum / (serving * squares);
    printf("acceptor %d: Jain %.4f\n", acceptor_slot, jain);
    CHECK(jain >= 0.99);
    struct herd_stats total = serve_total();
    CHECK_EQ(total.accepted, count);
    /* Counted a moment after it was sent. */
    WAIT_UNTIL(serve_total().handoff_sent == total.handoff_received, 5000);
    total = serve_total();
    CHECK(acceptor_slot >= 0 ? total.handoff_sent == (uint64_t)count : total.handoff_sent > 0);
    /* The accept right moves when a connection waits behind its holder's handlers, not for balance. */
    CHECK(total.handovers < (uint64_t)count / 10);
    close_clients(count);
    serve_end();
}

static void in_turn(void)
{
    struct herd_config config = config_of(HERD_BALANCE_ROUND_ROBIN, HERD_ANY_SLOT);
    int of_slot[SERVE_MAX_WORKERS];
    serve_start(&config, 4);
    CHECK_EQ(herd_balance(serve.herd), HERD_BALANCE_ROUND_ROBIN);
    int last = -1;
    for (int i = 0; i < 400; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        CHECK(last < 0 || slot == (last + 1) % 4);
        last = slot;
    }
    close_clients(400);
    open_clients(400, of_slot);
    for (int slot = 0; slot < 4; slot++) {
        CHECK_EQ(of_slot[slot], 100);
    }
    close_clients(400);
    serve_end();
}

static void one_after_the_other(void)
{
    struct herd_config config = config_of(HERD_BALANCE_PACK, HERD_ANY_SLOT);
    int of_slot[SERVE_MAX_WORKERS];
    config.worker_connections = 64;
    serve_start(&config, 3);
    open_clients(100, of_slot);
    CHECK_EQ(of_slot[0], 56);
    CHECK_EQ(of_slot[1], 44);
    close_clients(100);
    serve_end();
}

/* 3 workers of 16: the 49th client waits until another one goes. */
static void capacity(int acceptor_slot)
{
    struct herd_config config = config_of(HERD_BALANCE_SPREAD, acceptor_slot);
    int of_slot[SERVE_MAX_WORKERS], workers = acceptor_slot < 0 ? 3 : 4;
    config.worker_connections = 16;
    config.accept_delay_ms = 60000;
    serve_start(&config, workers);
    open_clients(48, of_slot);
    for (int slot = 0; slot < workers; slot++) {
        CHECK_EQ(of_slot[slot], slot == acceptor_slot ? 0 : 16);
    }
    int late = connect_to(serve.address);
    CHECK_EQ(serve_greeting(late, 200), -1);
    CHECK(serve_total().accepted <= 49);
    serve_settle();
    long long sleeps = serve_sleeps();
    sleep_ms(300);
    CHECK(serve_sleeps() - sleeps <= 4); /* nobody spins meanwhile */
    close(clients[0]);
    CHECK(serve_greeting(late, 5000) >= 0);
    clients[0] = late;
    close_clients(48);
    serve_end();
}

static void alone(void)
{
    struct herd_config config = config_of(HERD_BALANCE_SPREAD, HERD_ANY_SLOT);
    int of_slot[SERVE_MAX_WORKERS];
    serve_start(&config, 1);
    open_clients(50, of_slot);
    CHECK_EQ(serve_total().handoff_sent, 0);
    close_clients(50);
    serve_end();
    /* The only one of several slots, and it is the one that only accepts. */
    config.acceptor_slot = 1;
    serve_prepare(&config, 3);
    serve_fork(1);
    serve_settle();
    open_clients(50, of_slot);
    CHECK_EQ(of_slot[1], 50);
    CHECK_EQ(serve_total().handoff_sent, 0);
    serve_fork(2);
    serve_settle();
    int slot, client = serve_connect(&slot);
    CHECK_EQ(slot, 2);
    close(client);
    close_clients(50);
    serve_end();
}

int main(void)
{
    struct rlimit limit = {4096, 4096};
    test_begin(110);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    int count = limit.rlim_cur >= 2400 ? most : 400;
    least_load(HERD_ANY_SLOT, 4, count);
    least_load(2, 5, 400);
    in_turn();
    one_after_the_other();
    capacity(HERD_ANY_SLOT);
    capacity(2);
    alone();
    test_exit(0);
}
