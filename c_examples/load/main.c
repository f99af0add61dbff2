/*
 * load: drives an HTTP server from outside and reports what its clients, and the kernel, see of it.
 *
 * A program of its own: it knows sockets, a little HTTP and /proc; it must not know libherd, so that every
 * mode, and every other server which names its slots, is measured by the same ruler.
 *
 * The parts, each in a file that says what it does not know: options, target (an address), histogram, http, connection,
 * plan (what a mode is), run (the loop), tasks and counters (the server from its side), report.
 */
#define _GNU_SOURCE
#include "counters.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "run.h"
#include "target.h"
#include "tasks.h"

#include <err.h>
#include <stdlib.h>

enum { EXIT_ANY_FAILED = 1 };

int main(int argc, char **argv)
{
    static struct counters counters_before, counters_after;
    static struct tasks tasks_before, tasks_after;
    const struct options *options = parse_options(argc, argv);
    const struct target target = parse_target(options->address);
    const struct plan plan = make_plan(options);
    prepare_run(&plan, &target);

    bool have_counters = options->counters && fetch_counters(&counters_before, &target, options->timeout_ms);
    if (options->server_pid != 0)
        look_at_tasks(&tasks_before, (int)options->server_pid, NULL);
    if (options->server_pid != 0 && tasks_before.count == 0)
        errx(EXIT_USAGE, "--server-pid %.0f: no such process", options->server_pid);
    perform_run();
    if (options->server_pid != 0)
        look_at_tasks(&tasks_after, (int)options->server_pid, &tasks_before);
    have_counters = have_counters && fetch_counters(&counters_after, &target, options->timeout_ms);
    subtract_counters(&counters_after, &counters_before);

    const struct results *results = end_run();
    const struct task use = used_between(&tasks_before, &tasks_after);
    print_report(options, results, tasks_after.count, &use, &counters_after);
    return results->failed > 0 || (options->counters && !have_counters) ? EXIT_ANY_FAILED : EXIT_SUCCESS;
}
