/* What the kernel says about the server's processes and threads. */
#ifndef LOAD_TASKS_H
#define LOAD_TASKS_H

#include <stddef.h>
#include <stdint.h>

enum { TASKS_MAX = 4096 };

struct task {
    int tid, pid;
    uint64_t sleeps, cpu_ns;
};

struct tasks {
    size_t count;
    struct task list[TASKS_MAX];
};

/* Those of a process, of all its descendants and, if `earlier` is not NULL, of those processes: a killed parent's workers
 * have another parent now. First waits until they have gone to sleep. */
void look_at_tasks(struct tasks *tasks, int pid, const struct tasks *earlier);

/* What all of `after` slept and ran since `before`. */
struct task used_between(const struct tasks *before, const struct tasks *after);

#endif
