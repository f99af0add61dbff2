/* 2000 connections that stay are spread over worker threads, of one process or of two, to a Jain's
 * index of 0.995 and more. */
#include "threads.h"

enum { workers = 8, connections = 2000 };

/* Returns their Jain's index. */
static double hold(void)
{
    static int clients[connections];
    double sum = 0, squares = 0;
    int slot;
    for (int i = 0; i < connections; i++) {
        clients[i] = serve_connect(&slot);
        sleep_ms(1); /* at full rate workers give way later */
    }
    printf(" ");
    for (slot = 0; slot < workers; slot++) {
        double open = (double)serve_stats(slot).connections_open;
        sum += open;
        squares += open * open;
        printf(" %.0f", open);
    }
    double jain = sum * sum / (workers * squares);
    printf(": Jain %.4f\n", jain);
    CHECK_EQ((int)sum, connections);
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    return jain;
}

static void balance(void)
{
    double jain;
    CHECK_IN_SOME_TRY(jain = hold(), jain >= 0.995);
}

int main(void)
{
    test_begin(55);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < connections + 200) {
        test_skip("not enough descriptors");
    }
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    threads_in_all_forms(balance, workers);
    test_exit(0);
}
