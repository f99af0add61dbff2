/* What a run is to do, in numbers. */
#ifndef LOAD_PLAN_H
#define LOAD_PLAN_H

#include "http.h"
#include "options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan {
    struct request request, slow_request;
    uint64_t slow_every; /* so many requests, the last of them slow; 0: none is */
    uint64_t timeout_us; /* for all of a connection, its connect included */
    uint64_t total;      /* connections; NEVER: as many as the time allows */
    double interval_us;  /* between two connects; 0: no time has to pass */
    uint64_t start_us;   /* no connect later than so long after the first; NEVER: total ends them */
    uint64_t stay_us;    /* connections that are kept: so long after the last is open */
    size_t connections_max, in_flight_max;
    bool is_open_loop; /* connects are due at fixed times, and latency counts from these, whatever the server does */
};

struct plan make_plan(const struct options *options);

#endif
