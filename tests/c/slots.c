/* Slots that are taken, out of range or used up, workers that are destroyed, and herds that have
   workers, answer with their own codes. */
#include "every_call.h"

int main(void)
{
    test_begin(30);
    int fds = open_fds();
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 3);
    struct herd_worker *const untouched = (struct herd_worker *)&fds;
    struct herd_worker *workers[3], *worker = untouched;
    int listener = new_listener(herd, NULL, NULL);
    int herd_fds = open_fds();

    static const int no_slots[] = {-2, 3, 4, 64, 1024, 65535, 65536, 65537, INT32_MAX, INT32_MIN};
    struct herd_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    for (size_t i = 0; i < sizeof no_slots / sizeof no_slots[0]; i++) {
        CHECK_CODE(herd_worker_create(herd, no_slots[i], &worker), -EINVAL);
        CHECK_CODE(herd_stats_worker(herd, no_slots[i], &stats), -EINVAL);
    }
    CHECK_CODE(herd_stats_worker(herd, -1, &stats), -EINVAL);

    CHECK_CODE(herd_worker_create(herd, 1, &workers[1]), 0);
    CHECK_CODE(herd_worker_create(herd, 1, &worker), -EBUSY);
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &workers[0]), 0);
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &workers[2]), 0);
    for (int slot = 0; slot < 3; slot++) {
        CHECK_EQ(herd_worker_slot(workers[slot]), slot);
        CHECK_CODE(herd_stats_worker(herd, slot, &stats), 0);
        CHECK_EQ(stats.workers, 1);
    }
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), HERD_ENOSLOT);
    CHECK_CODE(herd_worker_create(herd, 2, &worker), -EBUSY);
    CHECK(worker == untouched);
    CHECK_EQ(total_stats(herd).workers, 3);

    /* Another process of the herd finds the same slots taken. */
    pid_t child = test_fork();
    if (child == 0) {
        CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), HERD_ENOSLOT);
        CHECK_CODE(herd_worker_create(herd, 0, &worker), -EBUSY);
        CHECK_CODE(herd_destroy(herd), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);

    /* Workers keep their herd as it is. */
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(listen(tcp, 8), 0);
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL), -EBUSY);
    CHECK_CODE(herd_add_listener(herd, tcp, NULL, NULL), -EBUSY);
    CHECK_CODE(herd_remove_listener(herd, listener), -EBUSY);
    CHECK_CODE(herd_destroy(herd), -EBUSY);
    close(connect_to(address_of(herd, listener)));
    close(tcp);

    /* A slot is free again at once; the old pointer's worker is the new one then. */
    CHECK_CODE(herd_worker_destroy(workers[1]), 0);
    check_every_call(workers[1], HERD_EDESTROYED, NULL, NULL);
    CHECK_CODE(herd_worker_destroy(workers[1]), HERD_EDESTROYED);
    CHECK_CODE(herd_destroy(herd), -EBUSY);
    CHECK_EQ(total_stats(herd).workers, 2);
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &workers[1]), 0);
    CHECK_EQ(herd_worker_slot(workers[1]), 1);
    for (int i = 0; i < 1000; i++) {
        CHECK_CODE(herd_worker_destroy(workers[i % 3]), 0);
        CHECK_CODE(herd_worker_create(herd, i % 3, &workers[i % 3]), 0);
    }
    for (int slot = 0; slot < 3; slot++) {
        CHECK_CODE(herd_worker_destroy(workers[slot]), 0);
    }
    CHECK_EQ(open_fds(), herd_fds);
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
    return 0;
}
