/* What all parts of load share: time in microseconds, workers told apart by slots, the exit code of a run that cannot be. */
#ifndef LOAD_H
#define LOAD_H

#include <stdint.h>
#include <time.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NEVER UINT64_MAX

enum { EXIT_USAGE = 2, US_PER_MS = 1000, US_PER_S = 1000000, SLOTS_MAX = 1024 };

static inline uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

static inline uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
