/* A worker that is to take what another has not taken, and has no descriptor free, leaves it where it is and comes
 * back to it: not in a spin, and nothing is lost. */
#include "handoff_pair.h"

#include <sys/resource.h>

int main(void)
{
    struct rlimit limit;
    test_begin(30);
    pair_start(NULL);
    int client = pair_send(), lowest = dup(0);
    close(lowest);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none_free = {(rlim_t)lowest, limit.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none_free), 0);
    unsigned turns = 0;
    for (int64_t end = now_ms() + 10000 * test_scale(); slot_stats(pair.herd, 1).backoffs_emfile < 3; turns++) {
        CHECK(now_ms() < end);
        CHECK(herd_run_once(pair.workers[1], pair_delay_ms) >= 0);
    }
    printf("%u turns\n", turns);
    CHECK(turns < 30);
    CHECK_EQ(pair.delivered, 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    pair_turns_until_delivered(1);
    pair_expect_end(client);
    CHECK_EQ(total_stats(pair.herd).handoff_rerouted, 1);
    pair_end();
    test_exit(0);
}
