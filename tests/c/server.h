/*
 * The example servers as processes of their own, one and the same suite over all of them: hello_prefork,
 * threads, and those in loops that the host has. Includes check.h. C99 and C++17.
 */
#ifndef SERVER_H
#define SERVER_H

#include "check.h"

#include <dirent.h>
#include <poll.h>

#define SERVER_MAX_WORKERS 64

struct server_case {
    const char *program, *mode;
    /* The workers sleep behind a polled descriptor: a tick of the guard wakes all of them. */
    int nested;
};

static const struct server_case server_cases[] = {
    { "hello_prefork", "exclusive", 0 }, { "hello_prefork", "mutex", 0 },
    { "threads", "exclusive", 0 },       { "threads", "mutex", 0 },
    { "host_epoll", "exclusive", 0 },    { "host_epoll", "mutex", 0 },
    { "host_libuv", "exclusive", 0 },    { "host_libuv", "mutex", 0 },
    { "host_libev", "mutex", 1 },        { "host_libevent", "mutex", 1 },
};

static struct {
    pid_t parent; /* 0 once it was killed */
    int workers;
    pid_t pids[SERVER_MAX_WORKERS]; /* by slot; 0 where it was killed */
    char address[256];
} server;

struct server_answer {
    int status, slot;
    pid_t pid;
    char body[2048];
};

/* A process that is not the test's child yet dies with the test all the same. */
CHECK_HELPER void server_note(pid_t pid)
{
    check_forget(pid);
    for (int i = CHECK_MAX_CHILDREN - 1; i >= 0; i--) {
        if (check_children[i] == 0) {
            check_children[i] = pid;
            return;
        }
    }
    CHECK(0);
}

/* Where the examples are built. */
CHECK_HELPER void server_path(char *path, size_t bytes, const char *program)
{
    const char *build = getenv("HERD_BUILD");
    snprintf(path, bytes, "%s/examples/%s", build != NULL ? build : "build", program);
}

/* --- Clients ----------------------------------------------------------------------------- */

CHECK_HELPER int server_connect(void)
{
    return connect_to(server.address);
}

CHECK_HELPER void server_send(int fd, const char *path)
{
    char request[256];
    int bytes = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path);
    CHECK_EQ(send(fd, request, (size_t)bytes, MSG_NOSIGNAL), bytes);
}

/* The next answer within `ms`. Returns 0, or -1 if there is none. */
CHECK_HELPER int server_receive(int fd, int ms, struct server_answer *answer)
{
    char bytes[4096];
    size_t have = 0;
    int64_t deadline = now_ms() + ms * test_scale();
    for (;;) {
        struct pollfd polled;
        polled.fd = fd;
        polled.events = POLLIN;
        polled.revents = 0;
        int64_t left_ms = deadline - now_ms();
        if (poll(&polled, 1, left_ms > 0 ? (int)left_ms : 0) != 1) {
            return -1;
        }
        ssize_t got = recv(fd, bytes + have, sizeof bytes - 1 - have, 0);
        if (got <= 0) {
            return -1;
        }
        have += (size_t)got;
        bytes[have] = '\0';
        const char *end = strstr(bytes, "\r\n\r\n"), *length = strstr(bytes, "Content-Length: ");
        const char *slot = strstr(bytes, "X-Herd-Slot: "), *pid = strstr(bytes, "X-Herd-Pid: ");
        if (end == NULL || length == NULL || slot == NULL || pid == NULL) {
            continue;
        }
        size_t body_bytes = (size_t)atoi(length + 16);
        if (have >= (size_t)(end + 4 - bytes) + body_bytes) {
            CHECK_EQ(strncmp(bytes, "HTTP/1.1 ", 9), 0);
            answer->status = atoi(bytes + 9);
            answer->slot = atoi(slot + 13);
            answer->pid = (pid_t)atoi(pid + 12);
            snprintf(answer->body, sizeof answer->body, "%s", end + 4);
            return 0;
        }
    }
}

/* GET / on a connection. Returns the slot that answered; the test fails if none does in `ms`. */
CHECK_HELPER int server_ask_whom(int fd, int ms, pid_t *pid)
{
    struct server_answer answer;
    server_send(fd, "/");
    if (server_receive(fd, ms, &answer) < 0) {
        fprintf(stderr, "no answer within %d ms\n", ms);
        test_exit(1);
    }
    CHECK_EQ(answer.status, 200);
    CHECK(answer.slot >= 0 && answer.slot < server.workers);
    *pid = answer.pid;
    return answer.slot;
}

CHECK_HELPER int server_ask(int fd, int ms)
{
    pid_t pid;
    return server_ask_whom(fd, ms, &pid);
}

/* A new connection with its first answer, at most `ms` after it was begun; the wait is noted in `worst_us`. */
CHECK_HELPER int server_ask_new(int ms, int *slot, int64_t *worst_us)
{
    int64_t began_us = now_us();
    int fd = server_connect();
    *slot = server_ask(fd, ms);
    int64_t took_us = now_us() - began_us;
    *worst_us = took_us > *worst_us ? took_us : *worst_us;
    return fd;
}

/* Counters of the herd, by a connection that is closed again. */
CHECK_HELPER void server_counters(struct server_answer *answer)
{
    int fd = server_connect();
    server_send(fd, "/counters");
    CHECK_EQ(server_receive(fd, 10000, answer), 0);
    close(fd);
}

CHECK_HELPER long long server_counter(const struct server_answer *answer, const char *name)
{
    char line[64];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(answer->body, line);
    CHECK(found != NULL);
    return atoll(found + strlen(line));
}

/* --- Workers ----------------------------------------------------------------------------- */

/* Learns the workers' process ids, of which there must be `server.workers` some time. */
CHECK_HELPER void server_find_workers(void)
{
    char path[64];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server.parent, (int)server.parent);
    for (int64_t deadline = now_ms() + 10000 * test_scale(); found < server.workers; sleep_ms(5)) {
        FILE *children = fopen(path, "re");
        CHECK(children != NULL && now_ms() < deadline);
        int pid;
        for (found = 0; found < server.workers && fscanf(children, "%d", &pid) == 1; found++) {
            server.pids[found] = (pid_t)pid;
        }
        fclose(children);
    }
    for (int i = 0; i < server.workers; i++) {
        server_note(server.pids[i]);
    }
}

/* Whether a worker has got as far as the sleep in its handler (proc(5)): before that it may still accept.
 * Any thread of its process counts. */
CHECK_HELPER int server_is_blocked(pid_t pid)
{
    char path[300], where[64];
    int blocked = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    struct dirent *task;
    while (!blocked && (task = readdir(tasks)) != NULL) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/wchan", (int)pid, task->d_name);
        FILE *wchan = task->d_name[0] != '.' ? fopen(path, "re") : NULL;
        if (wchan != NULL) {
            blocked = fscanf(wchan, "%63s", where) == 1 && strstr(where, "nanosleep") != NULL;
            fclose(wchan);
        }
    }
    closedir(tasks);
    return blocked;
}

/* Whether all threads of a worker's process have stopped: its first one may have done so before another one, which
 * then still accepts (proc(5): /proc/TID/stat has the state of that thread). */
CHECK_HELPER int server_is_stopped(pid_t pid)
{
    char path[64];
    int stopped = 1;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    struct dirent *task;
    while (stopped && (task = readdir(tasks)) != NULL) {
        stopped = task->d_name[0] == '.' || process_state((pid_t)atoi(task->d_name)) == 'T';
    }
    closedir(tasks);
    return stopped;
}

/* Sleeps of the workers so far, once they have nothing more to do. */
CHECK_HELPER long long server_settled_sleeps(void)
{
    long long before = -1;
    for (int64_t deadline = now_ms() + 20000 * test_scale();;) {
        long long sleeps = 0;
        for (int i = 0; i < server.workers; i++) {
            sleeps += server.pids[i] != 0 ? voluntary_switches(server.pids[i]) : 0;
        }
        if (sleeps == before) {
            return sleeps;
        }
        CHECK(now_ms() < deadline);
        before = sleeps;
        sleep_ms(20);
    }
}

/* --- Its life ---------------------------------------------------------------------------- */

/* Starts a server on a free port. `more`: options and their values, NULL at the end. Each worker is a
 * process, of `threads` with one thread beside its first, so that it can be stopped and killed. */
CHECK_HELPER void server_start(const char *program, const char *mode, int workers, const char *const *more)
{
    char path[512], line[512], count[16];
    const char *arguments[24] = { program, "--listen", "127.0.0.1:0", "--workers", count, "--mode", mode };
    int out[2];
    int begun = 7;
    if (strcmp(program, "threads") == 0) {
        arguments[3] = "--processes";
        arguments[begun++] = "--workers";
        arguments[begun++] = "1";
    }
    for (int i = 0, at = begun; more != NULL && more[i] != NULL; i++, at++) {
        CHECK(at < 23);
        arguments[at] = more[i];
    }
    server_path(path, sizeof path, program);
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* so that workers whose parent was killed are ours */
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    snprintf(count, sizeof count, "%d", workers);
    memset(&server, 0, sizeof server);
    server.workers = workers;
    server.parent = test_fork();
    if (server.parent == 0) {
        int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(out[1], STDOUT_FILENO);
        dup2(quiet, STDERR_FILENO);
        execv(path, (char *const *)arguments);
        _exit(127);
    }
    close(out[1]);
    FILE *ready = fdopen(out[0], "r");
    CHECK(ready != NULL);
    CHECK(fgets(line, sizeof line, ready) != NULL);
    fclose(ready);
    const char *address = strstr(line, ": ready on ");
    CHECK(address != NULL);
    CHECK_EQ(sscanf(address, ": ready on %255[^,]", server.address), 1);
    SHARED_SET(check_connected[atoi(strrchr(server.address, ':') + 1)], 0u);
    server_find_workers();
    server_settled_sleeps(); /* ready is who has a slot; now all wait */
}

/* Whether all that clients connected was accepted, and is open or was closed. A worker that died may have
 * done so between accepting and counting, and what it had open counts as neither. */
CHECK_HELPER int server_all_is_counted(void)
{
    struct server_answer answer;
    server_counters(&answer);
    const long long accepted = server_counter(&answer, "accepted");
    const int port = atoi(strrchr(server.address, ':') + 1);
    return server_counter(&answer, "reaps") > 0
           || (accepted == SHARED_GET(check_connected[port])
               && accepted - server_counter(&answer, "closed") == server_counter(&answer, "connections_open"));
}

/* Ends it as its user would. */
CHECK_HELPER void server_stop(void)
{
    WAIT_UNTIL(server_all_is_counted(), 10000);
    kill(server.parent, SIGINT);
    CHECK_EQ(test_join(server.parent), 0);
    for (int i = 0; i < server.workers; i++) {
        check_forget(server.pids[i]);
    }
}

/* Kills the parent: nobody reports deaths and starts new workers from then on. */
CHECK_HELPER void server_kill_parent(void)
{
    test_kill(server.parent);
    server.parent = 0;
}

/* Kills a worker that has no parent any more. */
CHECK_HELPER void server_kill_worker(int place)
{
    test_kill(server.pids[place]);
    server.pids[place] = 0;
}

/* Runs a scenario over all servers. A server that was not built makes the test a skipped one, after the
 * others. */
CHECK_HELPER void server_for_each(void (*scenario)(const struct server_case *))
{
    char left_out[128] = "";
    for (size_t i = 0; i < sizeof server_cases / sizeof server_cases[0]; i++) {
        char path[512];
        server_path(path, sizeof path, server_cases[i].program);
        if (access(path, X_OK) == 0) {
            scenario(&server_cases[i]);
        } else {
            snprintf(left_out, sizeof left_out, "%s is not built", server_cases[i].program);
        }
    }
    if (left_out[0] != '\0') {
        test_skip(left_out);
    }
}

#endif
