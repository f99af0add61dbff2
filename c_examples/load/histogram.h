/* Latencies, and their quantiles. */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

enum { STEP_BITS = 7, STEPS = 1 << STEP_BITS, LARGEST_BITS = 40, BUCKETS = (LARGEST_BITS - STEP_BITS + 1) * STEPS };

struct histogram {
    uint64_t count, worst_us, buckets[BUCKETS];
};

void record(struct histogram *histogram, uint64_t value_us);

/* The upper edge of the bucket in which the share of all samples is reached; -1: there are none. */
double quantile_us(const struct histogram *histogram, double share);

#endif
