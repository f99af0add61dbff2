/* Plan: what the three modes are, each a plan for one and the same run. Pure: options in, numbers out. */
#define _GNU_SOURCE
#include "plan.h"
#include "load.h"

#include <stdio.h>

enum { IN_FLIGHT_MARGIN = 64 }; /* rate: connections beyond rate * timeout */

static uint64_t in_us(double seconds) { return (uint64_t)(seconds * US_PER_S); }

/* Clients that connect again at once. */
static void plan_short(struct plan *plan, const struct options *options)
{
    plan->start_us = options->seconds > 0 ? in_us(options->seconds) : NEVER;
}

/* An open loop: a slow server must not make its own figures better. */
static void plan_rate(struct plan *plan, const struct options *options)
{
    plan->is_open_loop = true;
    plan->interval_us = US_PER_S / options->rate;
    if (options->seconds > 0)
        plan->total = smaller(plan->total, larger(1, (uint64_t)(options->rate * options->seconds + 0.5)));
    const double unanswered = options->rate * options->timeout_ms / US_PER_MS + IN_FLIGHT_MARGIN;
    plan->connections_max = plan->in_flight_max = smaller(plan->total, (uint64_t)unanswered);
    plan->slow_every = (uint64_t)options->slow_every;
    char path[32];
    snprintf(path, sizeof path, "/slow?ms=%.0f", options->slow_ms);
    plan->slow_request = make_request(path, false);
}

/* Connections that stay. */
static void plan_hold(struct plan *plan, const struct options *options)
{
    plan->request = make_request(options->path, true);
    plan->interval_us = options->gap_us;
    plan->stay_us = in_us(options->seconds);
    plan->connections_max = plan->total;
}

struct plan make_plan(const struct options *options)
{
    static void (*const of_mode[MODE_COUNT])(struct plan *, const struct options *) = { plan_short, plan_rate, plan_hold };
    const size_t clients = (size_t)options->clients;
    struct plan plan = { .request = make_request(options->path, false),
                         .timeout_us = (uint64_t)options->timeout_ms * US_PER_MS,
                         .total = options->count != 0 ? (uint64_t)options->count : NEVER,
                         .start_us = NEVER,
                         .connections_max = clients,
                         .in_flight_max = clients };
    of_mode[options->mode](&plan, options);
    return plan;
}
