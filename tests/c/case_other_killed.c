/* R03 c: the reported death of a worker that does not hold the accept right leaves it where it is. */
#include "serve.h"

enum { workers = 4 };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    test_begin(50);
    serve_start(&config, workers);
    int holder = serve_find_holder();
    uint64_t acquisitions[workers];
    for (int slot = 0; slot < workers; slot++) {
        acquisitions[slot] = serve_stats(slot).acquisitions;
    }
    for (int other = 0; other < workers; other++) {
        if (other == holder) {
            continue;
        }
        serve_report(other, serve_crash(other));
        serve_settle();
        int slot;
        int client = serve_connect(&slot);
        CHECK_EQ(slot, holder);
        close(client);
        for (slot = 0; slot < workers; slot++) {
            CHECK(slot == holder || serve_stats(slot).acquisitions == acquisitions[slot]);
        }
    }
    struct herd_stats total = serve_total();
    CHECK_EQ(total.thefts, 0);
    CHECK_EQ(total.reaps, workers - 1);
    CHECK_EQ(total.workers, 1);
    serve_end();
    test_exit(0);
}
