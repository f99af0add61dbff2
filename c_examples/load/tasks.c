/* Tasks: how often the server's processes and threads slept and how long they ran, by /proc. Knows no sockets. */
#define _GNU_SOURCE
#include "tasks.h"
#include "load.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETTLE_US = 20000 }; /* workers finish and go to sleep before they are counted */

/* Reads /proc/PID/task/TID/FILE; empty if the task died meanwhile. */
static const char *read_task(int pid, int tid, const char *file)
{
    static char text[16384];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

/* Adds the tasks of a process and of all its descendants, unless they are in. */
static void add_process(struct tasks *tasks, int pid)
{
    static const char key[] = "\nvoluntary_ctxt_switches:";
    char path[32];
    for (size_t i = 0; i < tasks->count; i++)
        if (tasks->list[i].pid == pid)
            return;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *directory = opendir(path);
    const size_t first = tasks->count;
    for (struct dirent *entry; directory != NULL && tasks->count < TASKS_MAX && (entry = readdir(directory)) != NULL;) {
        const int tid = atoi(entry->d_name);
        const char *sleeps = tid > 0 ? strstr(read_task(pid, tid, "status"), key) : NULL;
        if (sleeps == NULL)
            continue;
        struct task *task = &tasks->list[tasks->count++];
        *task = (struct task){ .tid = tid, .pid = pid, .sleeps = strtoull(sleeps + strlen(key), NULL, 10) };
        /* The exact sum of utime and stime, which themselves come in ticks of 10 ms. */
        task->cpu_ns = strtoull(read_task(pid, tid, "schedstat"), NULL, 10);
    }
    if (directory != NULL)
        closedir(directory);
    for (size_t i = first, end = tasks->count; i < end; i++) {
        char *children = strdup(read_task(pid, tasks->list[i].tid, "children")), *next = children;
        for (int child; children != NULL && (child = (int)strtol(next, &next, 10)) > 0;)
            add_process(tasks, child);
        free(children);
    }
}

void look_at_tasks(struct tasks *tasks, int pid, const struct tasks *earlier)
{
    usleep(SETTLE_US);
    tasks->count = 0;
    add_process(tasks, pid);
    for (size_t i = 0; earlier != NULL && i < earlier->count; i++)
        add_process(tasks, earlier->list[i].pid);
}

/* A task that came in between counts from 0, one that went not at all; a smaller figure means its id was reused. */
struct task used_between(const struct tasks *before, const struct tasks *after)
{
    struct task use = { .sleeps = 0 };
    for (size_t i = 0; i < after->count; i++) {
        const struct task *now = &after->list[i];
        use.sleeps += now->sleeps;
        use.cpu_ns += now->cpu_ns;
        for (size_t j = 0; j < before->count; j++) {
            const struct task *then = &before->list[j];
            if (then->tid == now->tid && then->sleeps <= now->sleeps && then->cpu_ns <= now->cpu_ns) {
                use.sleeps -= then->sleeps;
                use.cpu_ns -= then->cpu_ns;
            }
        }
    }
    return use;
}
