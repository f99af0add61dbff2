/* Report: what a reader or a script gets, on stdout. Knows the names of figures, and nothing of how they were made. */
#define _GNU_SOURCE
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const failure_names[OTHER_ERRNO] = {
    [CONNECT_REFUSED] = "connect_refused", [RESET] = "reset",           [TIMED_OUT] = "timeout",
    [SHORT_ANSWER] = "short_answer",       [BAD_STATUS] = "bad_status", [BAD_ANSWER] = "bad_answer",
    [CLOSED_WHILE_HELD] = "closed_while_held",
};

static bool as_json;

/* -1: undefined */
static void print_figure(const char *key, double value)
{
    char text[32] = "null";
    if (value >= 0)
        snprintf(text, sizeof text, value == (double)(uint64_t)value ? "%.0f" : "%.6g", value);
    if (as_json)
        printf("  \"%s\": %s,\n", key, text);
    else if (value >= 0)
        printf("%-30s %12s\n", key, text);
}

/* Entries of an inner object stay on one line in JSON; `name` NULL ends it. */
static void print_entry(const char *name, int64_t value)
{
    static bool first = true;
    if (name == NULL)
        fputs(as_json ? "}" : "", stdout);
    else if (as_json)
        printf("%s\"%s\": %" PRId64, first ? "" : ", ", name, value);
    else
        printf("  %-28s %12" PRId64 "\n", name, value);
    first = name == NULL;
}

static void print_heading(const char *name, bool is_first)
{
    printf(as_json ? "%s  \"%s\": {" : "%s%s:\n", as_json && !is_first ? ",\n" : "", name);
}

static void print_latency(const struct histogram *latency)
{
    static const struct { const char *key; double share; } quantiles[] = {
        { "latency_p50_us", 0.5 },    { "latency_p90_us", 0.9 }, { "latency_p99_us", 0.99 },
        { "latency_p999_us", 0.999 }, { "latency_worst_us", 1 },
    };
    for (size_t i = 0; i < COUNT_OF(quantiles); i++)
        print_figure(quantiles[i].key, quantile_us(latency, quantiles[i].share));
}

/* A slot that was seen, or that --slots says exists. */
static bool is_counted(const struct options *options, const struct results *results, size_t slot)
{
    return results->slots[slot] > 0 || slot < options->slots;
}

/* Jain's fairness index: 1 if all have the same, 1/n if one has all. */
static void print_balance(const struct options *options, const struct results *results)
{
    double sum = 0, squares = 0, members = 0, most = 0, least = -1;
    for (size_t slot = 0; slot < SLOTS_MAX; slot++) {
        if (!is_counted(options, results, slot))
            continue;
        const double share = (double)results->slots[slot];
        members++;
        sum += share;
        squares += share * share;
        most = share > most ? share : most;
        least = least < 0 || share < least ? share : least;
    }
    print_figure("jain", squares > 0 ? sum * sum / (members * squares) : -1);
    print_figure("max_min_ratio", least > 0 ? most / least : -1);
}

static double per_connection(const struct results *results, double total)
{
    return results->completed > 0 && total >= 0 ? total / (double)results->completed : -1;
}

static void print_slots(const struct options *options, const struct results *results)
{
    char name[32];
    print_heading("slots", true);
    for (size_t slot = 0; slot < SLOTS_MAX; slot++) {
        snprintf(name, sizeof name, "%zu", slot);
        if (is_counted(options, results, slot))
            print_entry(name, (int64_t)results->slots[slot]);
    }
    print_entry(NULL, 0);
}

static void print_errors(const struct results *results)
{
    char name[32];
    print_heading("errors", false);
    for (int outcome = 0; outcome < OUTCOMES; outcome++) {
        snprintf(name, sizeof name, "other_errno_%d", outcome - OTHER_ERRNO);
        if (results->outcomes[outcome] > 0)
            print_entry(outcome < OTHER_ERRNO ? failure_names[outcome] : name, (int64_t)results->outcomes[outcome]);
    }
    print_entry(NULL, 0);
}

static void print_counters(const struct counters *counters)
{
    print_heading("counters", false);
    for (size_t i = 0; i < counters->count; i++)
        print_entry(counters->list[i].name, counters->list[i].value);
    print_entry(NULL, 0);
}

void print_report(const struct options *options, const struct results *results, size_t server_tasks,
                  const struct task *use, const struct counters *counters)
{
    as_json = options->json;
    printf(as_json ? "{\n  \"mode\": \"%s\",\n  \"stopped\": \"%s\",\n" : "mode %s, %s\n", options->mode_name,
           results->stopped != NULL ? results->stopped : "done");
    print_figure("connections", (double)results->completed);
    print_figure("failed", (double)results->failed);
    print_figure("seconds", (double)results->elapsed_us / US_PER_S);
    print_figure("connections_per_second",
                 results->opened_us > 0 ? (double)results->completed * US_PER_S / (double)results->opened_us : -1);
    print_figure("backlog_full", (double)results->backlog_full);
    print_figure("ports_exhausted", (double)results->ports_exhausted);
    print_latency(&results->latency);
    print_balance(options, results);
    print_figure("server_tasks", (double)server_tasks);
    print_figure("sleeps_per_connection", per_connection(results, server_tasks > 0 ? (double)use->sleeps : -1));
    print_figure("server_cpu_us_per_connection",
                 per_connection(results, server_tasks > 0 ? (double)use->cpu_ns / 1000 : -1));
    print_figure("wasted_wakeups_per_connection", per_connection(results, counter_value(counters, "wasted_wakeups")));
    print_slots(options, results);
    print_errors(results);
    print_counters(counters);
    fputs(as_json ? "\n}\n" : "", stdout);
}
