/* What the server counts itself. */
#ifndef LOAD_COUNTERS_H
#define LOAD_COUNTERS_H

#include "target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COUNTERS_MAX = 128, COUNTER_NAME_BYTES = 64 };

struct counters {
    size_t count;
    struct {
        char name[COUNTER_NAME_BYTES];
        int64_t value;
    } list[COUNTERS_MAX];
};

/* GET /counters, lines of a name and a number; false if there was no good answer, which is said on stderr. */
bool fetch_counters(struct counters *counters, const struct target *target, double timeout_ms);

void subtract_counters(struct counters *after, const struct counters *before);

/* -1: there is none. */
double counter_value(const struct counters *counters, const char *name);

#endif
