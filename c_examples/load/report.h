/* The report: the same figures as JSON, one flat key a line, or as text. */
#ifndef LOAD_REPORT_H
#define LOAD_REPORT_H

#include "counters.h"
#include "options.h"
#include "run.h"
#include "tasks.h"

/* `server_tasks` 0: its use was not asked for. */
void print_report(const struct options *options, const struct results *results, size_t server_tasks,
                  const struct task *use, const struct counters *counters);

#endif
