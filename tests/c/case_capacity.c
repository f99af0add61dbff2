/* R13: 200 long-lived connections on 4 workers of 64: all are accepted, none is closed, and a worker
 * steps back when it has used 7/8 of its capacity. */
#include "serve.h"

enum { workers = 4, capacity = 64, connections = 200 };

/* The formula of nginx, as herd_accept_disabled has it. */
static void check_accept_disabled(struct herd_worker *worker, int slot)
{
    int open = (int)serve_stats(slot).connections_open;
    int disabled = capacity / 8 - (capacity - open);
    CHECK(open <= capacity);
    CHECK_EQ(herd_accept_disabled(worker), disabled > 0 ? disabled : 0);
}

/* Returns how many workers stepped back at 7/8. */
static int fill(uint32_t mode, uint32_t balance)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[connections], slots[connections];
    config.mode = mode;
    config.balance = balance;
    config.worker_connections = capacity;
    serve.on_accept = check_accept_disabled;
    serve_start(&config, workers);
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slots[i]);
    }
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
    }
    serve_settle();
    struct herd_stats total = serve_total();
    CHECK_EQ(total.accepted, connections);
    CHECK_EQ(total.connections_open, connections);
    int stepped_back = 0;
    for (int slot = 0; slot < workers; slot++) {
        int open = (int)serve_stats(slot).connections_open;
        printf("mode %u, balance %u, slot %d: %d open\n", mode, balance, slot, open);
        CHECK_EQ(open, (int)serve.shared->accepted[slot]);
        CHECK(open <= capacity);
        stepped_back += open > 0 && open <= capacity - capacity / 8 + 1;
    }
    if (mode == HERD_MODE_MUTEX) {
        CHECK(total.handovers + total.guard_ticks >= 3); /* what moved the right on */
    }
    CHECK_EQ(total.backoffs, 0);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_end();
    return stepped_back;
}

int main(void)
{
    test_begin(50);
    int stepped_back;
    /* All of them; a tick of the guard may have added one or two to one. */
    CHECK_IN_SOME_TRY(stepped_back = fill(HERD_MODE_MUTEX, HERD_BALANCE_PACK), stepped_back >= workers - 1);
    fill(HERD_MODE_HANDOFF, HERD_BALANCE_PACK);
    fill(HERD_MODE_HANDOFF, HERD_BALANCE_ROUND_ROBIN);
    test_exit(0);
}
