/* R09: a dead worker that nobody reports is found within about one accept_delay also while the others
 * are never idle for as long. */
#include "right.h"

enum { delay_ms = 200, slack_ms = 2000, workers = 3 };

static void find_dead(const struct right_case *c, int gap_ms)
{
    struct herd_config config = right_config(c, delay_ms);
    int slot, client;
    serve_start(&config, workers);
    /* Not the one that accepts: nobody misses the other. */
    close(serve_connect(&slot));
    int dead = (slot + 1) % workers;
    serve_crash(dead);
    int64_t died_ms = now_ms();
    while (serve_stats(dead).workers > 0) {
        CHECK(now_ms() - died_ms <= delay_ms + slack_ms);
        client = serve_connect(&slot);
        sleep_ms(gap_ms);
        close(client);
    }
    printf("%s: a connection each %d ms: found dead after %d ms\n", c->name, gap_ms,
           (int)(now_ms() - died_ms));
    serve_end();
}

int main(void)
{
    test_begin(50);
    for (int i = 0; i < right_case_count; i++) {
        find_dead(&right_cases[i], 2);
        find_dead(&right_cases[i], 20);
    }
    test_exit(0);
}
