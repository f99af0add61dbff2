/*
 * turn: what a turn costs that finds nothing to do, in nanoseconds: the least of many rounds, which other
 * programs on the machine disturb least. With `mutex` or `exclusive` as argument.
 */
#include <herd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { rounds = 400, turns = 2000 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    struct herd_worker *worker;
    uint64_t least_ns = UINT64_MAX;
    config.mode = argc > 1 && strcmp(argv[1], "mutex") == 0 ? HERD_MODE_MUTEX : HERD_MODE_EXCLUSIVE;
    config.max_workers = 2;
    if (herd_create(&config, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) < 0
        || herd_worker_create(herd, 0, &worker) < 0) {
        fputs("turn: no herd\n", stderr);
        return 1;
    }
    for (int round = 0; round < rounds; round++) {
        uint64_t began_ns = now_ns();
        for (int turn = 0; turn < turns; turn++)
            herd_run_once(worker, 0);
        uint64_t took_ns = now_ns() - began_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    printf("%.1f\n", (double)least_ns / turns);
    return 0;
}
