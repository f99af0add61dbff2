/* A second start on the address of a herd in REUSEPORT fails with EADDRINUSE and does not quietly
 * get a part of its connections; of servers that start at the same moment exactly one gets it. */
#include "reuseport.h"

enum { starts = 8, rounds = 20 };

/* A port that is free now. */
static void free_address(char *address, size_t bytes)
{
    struct herd *herd = new_herd(HERD_MODE_REUSEPORT, 1);
    new_listener(herd, NULL, NULL);
    CHECK(herd_listener_address(herd, 0, address, bytes) > 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

struct race {
    unsigned at_start, won, lost, others, done;
};

/* All begin at once; who has the address keeps it until all have tried. */
static void start_at_once(struct race *race)
{
    char address[64];
    free_address(address, sizeof address);
    memset(race, 0, sizeof *race);
    pid_t pids[starts];
    for (int i = 0; i < starts; i++) {
        pids[i] = test_fork();
        if (pids[i] == 0) {
            static struct herd *herd; /* this process ends without giving it back: that is no leak */
            herd = new_herd(HERD_MODE_REUSEPORT, 4);
            SHARED_ADD(race->at_start, 1u);
            while (SHARED_GET(race->at_start) < starts) {
            }
            int code = herd_listen(herd, address, NULL, NULL, NULL);
            if (code == 0) {
                SHARED_ADD(race->won, 1u);
            } else if (code == -EADDRINUSE) {
                SHARED_ADD(race->lost, 1u);
            } else {
                SHARED_ADD(race->others, 1u);
            }
            SHARED_ADD(race->done, 1u);
            WAIT_UNTIL(SHARED_GET(race->done) == starts, 10000);
            test_exit(0);
        }
    }
    for (int i = 0; i < starts; i++) {
        CHECK_EQ(test_join(pids[i]), 0);
    }
    CHECK_EQ(race->won, 1);
    CHECK_EQ(race->lost, starts - 1);
}

int main(void)
{
    struct herd_config config = reuseport_config(1, 0);
    test_begin(50);
    serve_start(&config, 2);
    static const uint32_t modes[] = {HERD_MODE_REUSEPORT, HERD_MODE_EXCLUSIVE, HERD_MODE_MUTEX};
    for (int i = 0; i < 3; i++) {
        struct herd *second = new_herd(modes[i], 2);
        int fds = open_fds();
        CHECK_CODE(herd_listen(second, serve.address, NULL, NULL, NULL), -EADDRINUSE);
        CHECK_EQ(open_fds(), fds);
        CHECK_CODE(herd_destroy(second), 0);
    }
    for (int i = 0; i < 40; i++) {
        int slot;
        close(serve_connect(&slot));
    }
    serve_end();
    struct race *race = (struct race *)shared_memory(sizeof *race);
    for (int i = 0; i < rounds; i++) {
        start_at_once(race);
    }
    test_exit(0);
}
