/* acceptor_slot 0, as in a zeroed configuration, names no slot; and the slot that it names goes only to a
 * worker that asks for it by its number. */
#include "serve.h"

static void none_in_a_zeroed_one(void)
{
    struct herd_config config;
    int slot;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = 3;
    serve_prepare(&config, 3);
    for (int other = 1; other < 3; other++) {
        serve_fork(other);
    }
    serve_settle();
    int client = serve_connect(&slot);
    CHECK(slot > 0);
    close(client);
    serve_end();
}

static void only_by_number(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    struct herd_worker *taken[3], *worker;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = 3;
    config.acceptor_slot = 1;
    CHECK_CODE(herd_create(&config, &herd), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &taken[i]), 0);
        CHECK_EQ(herd_worker_slot(taken[i]), 2 * i);
    }
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), HERD_ENOSLOT);
    CHECK_CODE(herd_worker_create(herd, 1, &taken[2]), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(herd_worker_destroy(taken[i]), 0);
    }
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(50);
    none_in_a_zeroed_one();
    only_by_number();
    test_exit(0);
}
