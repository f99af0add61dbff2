/* The run of a plan, and what its clients saw. */
#ifndef LOAD_RUN_H
#define LOAD_RUN_H

#include "connection.h"
#include "histogram.h"
#include "load.h"
#include "plan.h"
#include "target.h"

struct results {
    const char *stopped;                                        /* why it ended early, or NULL */
    uint64_t completed, failed, backlog_full, ports_exhausted; /* the last two were tried again */
    uint64_t outcomes[OUTCOMES], slots[SLOTS_MAX];
    uint64_t elapsed_us, opened_us; /* opened: until all were open that stay; else the same */
    struct histogram latency;
};

/* In this order, once. Kept connections are open until end_run, which counts them. SIGINT and SIGTERM end perform_run. */
void prepare_run(const struct plan *plan, const struct target *target);
void perform_run(void);
const struct results *end_run(void);

#endif
