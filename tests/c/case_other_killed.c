/* R03 c: the reported death of a worker that does not hold the accept right leaves it where it is. */
#include "serve.h"

enum { workers = 4 };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; /* a holder that a busy machine does not run is not robbed */
    config.handover_delay_us = 500000; /* nor woken by the guard while the one that was rung tries for the right */
    test_begin(50);
    serve_start(&config, workers);
    for (int left = workers; left > 1; left--) {
        /* With a connection to its account the holder is not the one that the report wakes. */
        int kept, holder = serve_find_holder(&kept), other = 0, slot;
        while (other == holder || serve.pids[other] == 0) {
            other++;
        }
        struct herd_stats before = serve_total();
        uint64_t of_others = before.acquisitions - serve_stats(holder).acquisitions;
        serve_report(other, serve_crash(other));
        serve_settle();
        struct herd_stats after = serve_total();
        CHECK_EQ(after.reaps - before.reaps, 1);
        CHECK_EQ(after.acquisitions - serve_stats(holder).acquisitions, of_others);
        CHECK_EQ(after.workers, left - 1);
        int client = serve_connect(&slot);
        CHECK_EQ(slot, holder);
        close(client);
        close(kept);
        WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    }
    serve_end();
    test_exit(0);
}
