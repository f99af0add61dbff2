/* A log-linear histogram of fixed size, exact below 128 us and to 1/128 above. Knows numbers only. */
#include "histogram.h"
#include "load.h"

void record(struct histogram *histogram, uint64_t value_us)
{
    value_us = smaller(value_us, (UINT64_C(1) << LARGEST_BITS) - 1);
    unsigned index = (unsigned)value_us;
    if (value_us >= STEPS) {
        unsigned shift = 63u - (unsigned)__builtin_clzll(value_us) - STEP_BITS;
        index = shift * STEPS + (unsigned)(value_us >> shift);
    }
    histogram->buckets[index]++;
    histogram->count++;
    histogram->worst_us = larger(histogram->worst_us, value_us);
}

double quantile_us(const struct histogram *histogram, double share)
{
    const double wanted = share * (double)histogram->count;
    uint64_t seen = 0;
    for (unsigned index = 0; index < BUCKETS; index++) {
        seen += histogram->buckets[index];
        if ((double)seen >= wanted && seen > 0) {
            unsigned shift = index < 2 * STEPS ? 0 : index / STEPS - 1;
            uint64_t edge_us = ((uint64_t)(index - shift * STEPS + 1) << shift) - 1;
            return (double)smaller(edge_us, histogram->worst_us);
        }
    }
    return -1;
}
