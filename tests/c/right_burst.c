/* Connections that come together are accepted by as many workers as are idle, each at once, although
 * every one is held up in its handler: not one after the other by the guard's ticks. Only PACK leaves
 * them to these where one worker holds the accept right. */
#include "right.h"

enum { workers = 4, block_ms = 1500, far_ms = 30000 };

static void block(struct herd_worker *worker, int slot)
{
    (void)worker;
    (void)slot;
    sleep_ms(block_ms);
}

static void burst(const struct right_case *c)
{
    struct herd_config config = right_config(c, far_ms);
    int clients[workers], slot, served[workers] = {0};
    config.handover_delay_us = 1000000;
    serve.on_accept = block;
    serve_start(&config, workers);
    for (slot = 0; slot < workers; slot++) {
        kill(serve.pids[slot], SIGSTOP);
    }
    for (slot = 0; slot < workers; slot++) {
        WAIT_UNTIL(process_state(serve.pids[slot]) == 'T', 5000);
    }
    for (int i = 0; i < workers; i++) {
        clients[i] = connect_to(serve.address);
    }
    for (slot = 0; slot < workers; slot++) {
        kill(serve.pids[slot], SIGCONT);
    }
    for (int i = 0; i < workers; i++) {
        slot = serve_greeting(clients[i], 20000);
        CHECK(slot >= 0);
        served[slot]++;
    }
    printf("%s: %d %d %d %d\n", c->name, served[0], served[1], served[2], served[3]);
    for (slot = 0; slot < workers; slot++) {
        CHECK_EQ(served[slot], 1);
    }
    for (int i = 0; i < workers; i++) {
        close(clients[i]);
    }
    serve_end();
    serve.on_accept = NULL;
}

int main(void)
{
    test_begin(50);
    for (int i = 0; i < right_case_count; i++) {
        const struct right_case *c = &right_cases[i];
        if (!right_has_holder(c) || c->balance != HERD_BALANCE_PACK) {
            burst(c);
        }
    }
    test_exit(0);
}
