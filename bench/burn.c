/* burn.so, for LD_PRELOAD: makes every nanosleep of a program burn BURN_US of CPU time instead, so that a handler
 * that sleeps becomes one that works, in any server. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

static long long cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    static long long burn_us = -1;
    (void)wanted, (void)left;
    if (burn_us < 0)
        burn_us = getenv("BURN_US") != NULL ? atoll(getenv("BURN_US")) : 0;
    for (const long long begin = cpu_us(); cpu_us() - begin < burn_us;) { }
    return 0;
}
