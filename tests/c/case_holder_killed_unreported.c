/* R03 b: a dead holder of the accept right that nobody reports holds a connection up for at most
 * accept_delay + handover_delay. */
#include "serve.h"

enum { workers = 4, rounds = 5, delay_ms = 300, slack_ms = 2000 };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = delay_ms;
    int longest_ms = 0, all_had_right = 0;
    test_begin(50);
    serve_start(&config, workers);
    for (int round = 0; round < rounds; round++) {
        struct herd_stats before = serve_total();
        int holder = serve_find_holder(NULL);
        pid_t dead = serve_crash(holder);
        /* On a busy machine the right can have moved on. */
        int had_right = serve_total().holder == holder;
        all_had_right += had_right;
        int64_t connected_ms = now_ms();
        int slot;
        int client = serve_connect(&slot);
        int waited_ms = (int)(now_ms() - connected_ms);
        longest_ms = waited_ms > longest_ms ? waited_ms : longest_ms;
        CHECK(slot != holder);
        CHECK(waited_ms <= delay_ms + slack_ms);
        struct herd_stats after = serve_total();
        CHECK(!had_right || after.thefts + after.reaps > before.thefts + before.reaps);
        close(client);
        serve_report(holder, dead);
        serve_fork(holder);
        serve_settle();
    }
    CHECK(all_had_right > 0);
    printf("accepted after at most %d ms, accept_delay is %d ms\n", longest_ms, delay_ms);
    serve_end();
    test_exit(0);
}
