/* R02: when the worker that accepts steps back, by PACK's 7/8 or for SPREAD's balance, another one
 * takes the next connection at once. The safety net (accept_delay) is too far away to help. */
#include "right.h"

enum { workers = 4, capacity = 16, delay_ms = 30000, most_ms = 50,
       /* Three workers over 7/8, and some for the fourth. */
       connections = 50 };

/* The longest that a connection took which went to another worker than the one before, in ms. */
static double longest_move_ms(const struct right_case *c)
{
    struct herd_config config = right_config(c, delay_ms);
    int clients[connections], slot, before = -1, moves = 0;
    int64_t longest_us = 0;
    config.worker_connections = capacity;
    serve_start(&config, workers);
    for (int i = 0; i < connections; i++) {
        int64_t began_us = now_us();
        clients[i] = serve_connect(&slot);
        int64_t took_us = now_us() - began_us;
        if (i > 0 && slot != before) {
            longest_us = took_us > longest_us ? took_us : longest_us;
            moves++;
        }
        before = slot;
    }
    CHECK(moves >= 3);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    serve_end();
    return (double)longest_us / 1000;
}

int main(void)
{
    test_begin(55);
    for (int i = 0; i < right_case_count; i++) {
        double took_ms;
        CHECK_IN_SOME_TRY(took_ms = longest_move_ms(&right_cases[i]), took_ms < most_ms);
        printf("%s: another worker took over within %.2f ms\n", right_cases[i].name, took_ms);
    }
    test_exit(0);
}
