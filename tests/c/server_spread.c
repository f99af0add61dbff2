/* R02, R13: every example server spreads connections that stay evenly over its workers, fills all of them
   to their capacity and none above it, and hands over at once when one is full. timeout: 120 */
#include "server.h"

enum { workers = 4, connections = 400, capacity = 16, most_ms = 2000 };

/* Whether so many connections were spread as evenly as promised. */
static int are_even(const struct server_case *c)
{
    int fds[connections], counts[workers] = {0}, slot, most = 0, least = connections;
    double sum = 0, squares = 0;
    int64_t worst_us = 0;
    server_start(c->program, c->mode, workers, NULL);
    for (int i = 0; i < connections; i++) {
        fds[i] = server_ask_new(most_ms, &slot, &worst_us);
        counts[slot]++;
        sleep_ms(1); /* at a faster pace the loads may differ more (src/accept/balance.rs) */
    }
    for (int i = 0; i < workers; i++) {
        sum += counts[i];
        squares += (double)counts[i] * counts[i];
        most = counts[i] > most ? counts[i] : most;
        least = counts[i] < least ? counts[i] : least;
    }
    for (int i = 0; i < connections; i++) {
        close(fds[i]);
    }
    server_stop();
    printf("%s, %s: %d to %d of %d connections, Jain's index %.4f\n", c->program, c->mode, least, most,
           connections, sum * sum / (workers * squares));
    return sum * sum / (workers * squares) >= 0.995 && most * 100 <= least * 115;
}

static void spread(const struct server_case *c)
{
    int even;
    CHECK_IN_SOME_TRY(even = are_even(c), even);
}

/* The delay is far: a client that waited for it would fail the test. */
static void fill(const struct server_case *c)
{
    static const char *const balances[] = { "pack", "spread" };
    for (int balance = 0; balance < 2; balance++) {
        int fds[workers * capacity], counts[workers] = {0}, slot;
        int64_t worst_us = 0;
        const char *const options[] = { "--connections", "16", "--accept-delay-ms", "60000",
                                        "--balance", balances[balance], NULL };
        server_start(c->program, c->mode, workers, options);
        for (int i = 0; i < workers * capacity; i++) {
            fds[i] = server_ask_new(most_ms, &slot, &worst_us);
            counts[slot]++;
        }
        for (int i = 0; i < workers; i++) {
            CHECK_EQ(counts[i], capacity);
        }
        printf("%s, %s/%s: all full, worst answer %.1f ms\n", c->program, c->mode, balances[balance],
               (double)worst_us / 1000);
        for (int i = 0; i < workers * capacity; i++) {
            close(fds[i]);
        }
        server_stop();
    }
}

int main(void)
{
    test_begin(115);
    server_for_each(spread);
    server_for_each(fill);
    test_exit(0);
}
