/*
 * load: drives an HTTP server from outside and reports what its clients, and the kernel, see of it.
 *
 * A program of its own: it knows sockets, a little HTTP and /proc; it must not know libherd, so that every
 * mode, and every other server which names its slots, is measured by the same ruler. One thread, one epoll.
 *
 * In order: options, address, latencies, /proc, requests and answers, the run, counters, report, main.
 * The run is a loop of: start what is due, fail what is overdue, wait. A connection is in one list at a time
 * (free, in flight, held), and that is its state.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NEVER UINT64_MAX

enum { EXIT_ANY_FAILED = 1, EXIT_USAGE = 2, US_PER_MS = 1000, US_PER_S = 1000000 };
enum {
    EVENTS_PER_WAIT = 256,
    READS_PER_EVENT = 16,       /* an endless answer must not keep the loop from its timeouts */
    PAUSE_US = 1000,            /* after a failure, a full backlog, or no free local port */
    FAILURES_TO_GIVE_UP = 100,  /* short and hold: so many more than clients, in a row */
    SWEEP_INTERVAL_US = 20000,  /* how exact --timeout-ms is */
    SETTLE_US = 20000,          /* the server's workers finish and go to sleep before they are counted */
    RESERVED_FDS = 32,          /* stdio, epoll, /proc and what the caller left open */
    IN_FLIGHT_MARGIN = 64,      /* rate: connections beyond rate * timeout */
    SOURCE_ADDRESSES = 200      /* 127.0.0.1 to 127.0.0.200 */
};
enum { PATH_MAX_BYTES = 512, REQUEST_MAX_BYTES = PATH_MAX_BYTES + 128, HEAD_MAX_BYTES = 1024, SCRATCH_BYTES = 65536,
       SLOTS_MAX = 1024, TASKS_MAX = 4096, COUNTERS_MAX = 128, COUNTER_NAME_BYTES = 64 };

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_USAGE);
}

/* ---- options: one table gives parsing, limits, defaults' text and --help ---- */

enum mode { MODE_SHORT, MODE_RATE, MODE_HOLD, MODE_COUNT };
static const char *const mode_names[MODE_COUNT] = { "short", "rate", "hold" };

#define IN(mode) (1u << (mode))
#define IN_ALL (IN(MODE_SHORT) | IN(MODE_RATE) | IN(MODE_HOLD))

static struct options {
    const char *mode_name, *path, *address;
    enum mode mode;
    /* 0: not asked for; -1: settle_defaults chooses. Whole numbers are exact: all limits are far below 2^53. */
    double clients, count, gap_us, slow_every, slow_ms, timeout_ms, slots, server_pid, seconds, rate;
    bool json, counters, help;
} options = { .mode_name = "short", .path = "/", .clients = 16, .slow_ms = 200, .timeout_ms = 5000, .seconds = -1,
              .rate = -1 };

static const struct option_rule {
    const char *name, *value_name;
    enum { WHOLE, DECIMAL, TEXT, FLAG } kind;
    unsigned modes;
    void *value;
    double least, most;
    const char *help;
} rules[] = {
    { "mode", "short|rate|hold", TEXT, IN_ALL, &options.mode_name, 0, 0, "scenario (short)" },
    { "clients", "N", WHOLE, IN(MODE_SHORT) | IN(MODE_HOLD), &options.clients, 1, 100000,
      "concurrent clients; in hold: connects in flight (16)" },
    { "seconds", "S", DECIMAL, IN_ALL, &options.seconds, 0, 86400,
      "how long (short, rate: 3, or what --count takes; hold: stay open, 0)" },
    { "count", "N", WHOLE, IN_ALL, &options.count, 1, 1e9, "how many connections (hold: 2000)" },
    { "rate", "R", DECIMAL, IN(MODE_RATE) | IN(MODE_HOLD), &options.rate, 0, 1e6,
      "connections a second (100); in hold: requests a second while open (0)" },
    { "slow-every", "K", WHOLE, IN(MODE_RATE), &options.slow_every, 1, 1e9,
      "every K-th request is GET /slow?ms=M, and kept out of the latencies" },
    { "slow-ms", "M", WHOLE, IN(MODE_RATE), &options.slow_ms, 0, 60000, "M of it (200)" },
    { "gap-us", "G", WHOLE, IN(MODE_HOLD), &options.gap_us, 0, 1e7, "time between two connects (0)" },
    { "path", "PATH", TEXT, IN_ALL, &options.path, 0, 0, "what to GET (/)" },
    { "timeout-ms", "T", WHOLE, IN_ALL, &options.timeout_ms, 1, 600000, "no full answer by then is an error (5000)" },
    { "slots", "N", WHOLE, IN_ALL, &options.slots, 1, SLOTS_MAX,
      "workers there are, so that unused ones count as zero" },
    { "server-pid", "PID", WHOLE, IN_ALL, &options.server_pid, 1, INT32_MAX,
      "count sleeps and CPU time of it and all its descendants" },
    { "counters", NULL, FLAG, IN_ALL, &options.counters, 0, 0, "GET /counters before and after, report differences" },
    { "json", NULL, FLAG, IN_ALL, &options.json, 0, 0, "one JSON object, one key a line" },
    { "help", NULL, FLAG, IN_ALL, &options.help, 0, 0, "this text" },
};

static void print_help(void)
{
    puts("load [options] ADDR      ADDR: 127.0.0.1:8080, [::1]:8080 or unix:/path (nothing but this machine)\n\n"
         "  short  clients that connect, GET with Connection: close, read to the end, again at once\n"
         "  rate   a new connection with one request at fixed times, whatever the server does;\n"
         "         latency counts from the scheduled time\n"
         "  hold   connections that stay open, each with one request, until all are open\n");
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", rules[i].name, rules[i].value_name ? rules[i].value_name : "");
        printf("  %-24s %s", left, rules[i].help);
        for (unsigned mode = 0; rules[i].modes != IN_ALL && mode < MODE_COUNT; mode++)
            if (rules[i].modes & IN(mode))
                printf(" [%s]", mode_names[mode]);
        putchar('\n');
    }
    puts("\nExit code: 0 no connection failed, 1 any did, 2 usage. SIGINT stops early and still reports.");
}

static void take_option(const struct option_rule *rule, const char *text)
{
    if (rule->kind == FLAG) {
        *(bool *)rule->value = true;
    } else if (rule->kind == TEXT) {
        *(const char **)rule->value = text;
    } else {
        char *end;
        double value = strtod(text, &end);
        if (!isdigit((unsigned char)text[0]) || *end != '\0' || !(value >= rule->least && value <= rule->most)
            || (rule->kind == WHOLE && value != (double)(uint64_t)value))
            die("--%s %s: not a %snumber from %.0f to %.0f (see load --help)", rule->name, text,
                rule->kind == WHOLE ? "whole " : "", rule->least, rule->most);
        *(double *)rule->value = value;
    }
}

static void settle_defaults(void)
{
    const bool hold = options.mode == MODE_HOLD, rate = options.mode == MODE_RATE;
    if ((options.seconds == 0 && !hold) || (options.rate == 0 && rate))
        die("--seconds 0, --rate 0: must be more (see load --help)");
    if (options.seconds < 0) /* a run limited by count alone needs no clock */
        options.seconds = hold || options.count != 0 ? 0 : 3;
    if (options.rate < 0)
        options.rate = rate ? 100 : 0;
    if (hold && options.count == 0)
        options.count = 2000;
    if (rate && options.seconds > 0) {
        uint64_t arrivals = larger(1, (uint64_t)(options.rate * options.seconds + 0.5));
        options.count = (double)(options.count == 0 ? arrivals : smaller(arrivals, (uint64_t)options.count));
    }
}

static void parse_options(int argc, char **argv)
{
    struct option long_options[COUNT_OF(rules) + 1] = { { 0 } };
    unsigned given = 0;
    int index, found;
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        long_options[i] = (struct option){ .name = rules[i].name, .has_arg = rules[i].kind != FLAG };
    while ((found = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (found != 0)
            exit(EXIT_USAGE); /* getopt_long has said why */
        given |= 1u << index;
        take_option(&rules[index], optarg);
    }
    if (options.help) {
        print_help();
        exit(EXIT_SUCCESS);
    }
    while (options.mode < MODE_COUNT && strcmp(options.mode_name, mode_names[options.mode]) != 0)
        options.mode++;
    if (options.mode == MODE_COUNT)
        die("--mode %s: not one of short, rate, hold (see load --help)", options.mode_name);
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if ((given & (1u << i)) && !(rules[i].modes & IN(options.mode)))
            die("--%s: has no meaning in mode %s (see load --help)", rules[i].name, options.mode_name);
    if (optind + 1 != argc)
        die("%s (see load --help)", optind == argc ? "no address" : "more than one address");
    options.address = argv[optind];
    if (options.path[0] != '/' || strlen(options.path) > PATH_MAX_BYTES)
        die("--path %s: must start with / and have at most %d bytes", options.path, PATH_MAX_BYTES);
    for (const char *at = options.path; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            die("--path %s: only printable characters without spaces", options.path);
    settle_defaults();
}

/* ---- the address of the server ---- */

static struct target {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } address;
    socklen_t address_bytes;
} target;

static void parse_address(const char *text)
{
    if (strncmp(text, "unix:/", strlen("unix:/")) == 0) {
        const char *path = text + strlen("unix:");
        if (strlen(path) >= sizeof target.address.local.sun_path)
            die("%s: the path is too long", text);
        target.address.local.sun_family = AF_UNIX;
        strcpy(target.address.local.sun_path, path);
        target.address_bytes = sizeof target.address.local;
        return;
    }
    char host[INET6_ADDRSTRLEN], after;
    unsigned port = 0;
    const bool v6 = text[0] == '[';
    const char *const format = v6 ? "[%45[^]]]:%5u%c" : "%45[^:]:%5u%c";
    if (sscanf(text, format, host, &port, &after) != 2 || port < 1 || port > UINT16_MAX)
        die("%s: not an address like 127.0.0.1:8080, [::1]:8080 or unix:/path", text);
    target.address.any.sa_family = v6 ? AF_INET6 : AF_INET;
    *(v6 ? &target.address.v6.sin6_port : &target.address.v4.sin_port) = htons((uint16_t)port);
    void *number = v6 ? (void *)&target.address.v6.sin6_addr : (void *)&target.address.v4.sin_addr;
    if (inet_pton(target.address.any.sa_family, host, number) != 1)
        die("%s: \"%s\" is not an IPv%c address (names are not looked up)", text, host, v6 ? '6' : '4');
    if (v6 ? !IN6_IS_ADDR_LOOPBACK(&target.address.v6.sin6_addr)
           : ntohl(target.address.v4.sin_addr.s_addr) >> IN_CLASSA_NSHIFT != IN_LOOPBACKNET)
        die("%s: refused, load sends traffic only to loopback and unix addresses", text);
    target.address_bytes = v6 ? sizeof target.address.v6 : sizeof target.address.v4;
}

/* Starts a connect that may still be in progress; returns the socket or a negated errno. */
static int open_connection(unsigned source)
{
    int fd = socket(target.address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int failed = 0;
    if (target.address.any.sa_family == AF_INET) { /* 127/8 is all ours, and each source has its own local ports */
        /* NO_PORT: connect picks the port, knowing the peer (ip(7)); one picked by bind must be free for all peers. */
        const int on = 1;
        struct sockaddr_in from = { .sin_family = AF_INET };
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + source % SOURCE_ADDRESSES);
        failed = setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0
                 || bind(fd, (struct sockaddr *)&from, sizeof from) != 0;
    }
    if (!failed)
        failed = connect(fd, &target.address.any, target.address_bytes) != 0 && errno != EINPROGRESS;
    if (failed) {
        int why = errno;
        close(fd);
        return -why;
    }
    return fd;
}

/* ---- latencies: a log-linear histogram, exact below 128 us and to 1/128 above, of fixed size ---- */

enum { STEP_BITS = 7, STEPS = 1 << STEP_BITS, LARGEST_BITS = 40, BUCKETS = (LARGEST_BITS - STEP_BITS + 1) * STEPS };

struct histogram {
    uint64_t count, worst_us, buckets[BUCKETS];
};

static void record(struct histogram *histogram, uint64_t value_us)
{
    value_us = smaller(value_us, (UINT64_C(1) << LARGEST_BITS) - 1);
    unsigned index = (unsigned)value_us;
    if (value_us >= STEPS) {
        unsigned shift = 63u - (unsigned)__builtin_clzll(value_us) - STEP_BITS;
        index = shift * STEPS + (unsigned)(value_us >> shift);
    }
    histogram->buckets[index]++;
    histogram->count++;
    histogram->worst_us = larger(histogram->worst_us, value_us);
}

/* The upper edge of the bucket in which the share of all samples is reached; -1: there are none. */
static double percentile_us(const struct histogram *histogram, double share)
{
    const double wanted = share * (double)histogram->count;
    uint64_t seen = 0;
    for (unsigned index = 0; index < BUCKETS; index++) {
        seen += histogram->buckets[index];
        if ((double)seen >= wanted && seen > 0) {
            unsigned shift = index < 2 * STEPS ? 0 : index / STEPS - 1;
            uint64_t edge_us = ((uint64_t)(index - shift * STEPS + 1) << shift) - 1;
            return (double)smaller(edge_us, histogram->worst_us);
        }
    }
    return -1;
}

/* ---- the server's tasks in /proc: how often they slept, how long they ran ---- */

struct task {
    int tid, pid;
    uint64_t sleeps, cpu_ns;
};

struct sample {
    size_t count;
    struct task tasks[TASKS_MAX];
};

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
static void add_process(struct sample *sample, int pid)
{
    static const char key[] = "\nvoluntary_ctxt_switches:";
    char path[32];
    for (size_t i = 0; i < sample->count; i++)
        if (sample->tasks[i].pid == pid)
            return;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    const size_t first = sample->count;
    for (struct dirent *entry; tasks != NULL && sample->count < TASKS_MAX && (entry = readdir(tasks)) != NULL;) {
        const int tid = atoi(entry->d_name);
        const char *sleeps = tid > 0 ? strstr(read_task(pid, tid, "status"), key) : NULL;
        if (sleeps == NULL)
            continue;
        struct task *task = &sample->tasks[sample->count++];
        *task = (struct task){ .tid = tid, .pid = pid, .sleeps = strtoull(sleeps + strlen(key), NULL, 10) };
        /* The exact sum of utime and stime, which themselves come in ticks of 10 ms. */
        task->cpu_ns = strtoull(read_task(pid, tid, "schedstat"), NULL, 10);
    }
    if (tasks != NULL)
        closedir(tasks);
    for (size_t i = first, end = sample->count; i < end; i++) {
        char *children = strdup(read_task(pid, sample->tasks[i].tid, "children")), *next = children;
        for (int child; children != NULL && (child = (int)strtol(next, &next, 10)) > 0;)
            add_process(sample, child);
        free(children);
    }
}

/* A task that came in between counts from 0, one that went not at all; a smaller figure means its id was reused. */
static struct task used_between(const struct sample *before, const struct sample *after)
{
    struct task use = { .sleeps = 0 };
    for (size_t i = 0; i < after->count; i++) {
        const struct task *now = &after->tasks[i];
        use.sleeps += now->sleeps;
        use.cpu_ns += now->cpu_ns;
        for (size_t j = 0; j < before->count; j++) {
            const struct task *then = &before->tasks[j];
            if (then->tid == now->tid && then->sleeps <= now->sleeps && then->cpu_ns <= now->cpu_ns) {
                use.sleeps -= then->sleeps;
                use.cpu_ns -= then->cpu_ns;
            }
        }
    }
    return use;
}

/* ---- requests and answers ---- */

struct request {
    char text[REQUEST_MAX_BYTES];
    size_t bytes;
    bool keep_alive;
};

static struct request make_request(const char *path, bool keep_alive)
{
    struct request request = { .keep_alive = keep_alive };
    request.bytes = (size_t)snprintf(request.text, sizeof request.text, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                                     path, keep_alive ? "" : "Connection: close\r\n");
    return request;
}

struct answer {
    char head[HEAD_MAX_BYTES + 1]; /* may hold the begin of the body too */
    size_t head_bytes;             /* in head so far */
    bool head_complete;
    int status;
    uint64_t slot, body_bytes, length_bytes; /* slot: NEVER if not named; length: NEVER if the stream's end ends it */
};

static uint64_t header_value(const char *head, const char *name)
{
    const size_t name_bytes = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += strlen("\r\n");
        if (strncasecmp(line, name, name_bytes) == 0 && line[name_bytes] == ':')
            return strtoull(line + name_bytes + 1, NULL, 10);
    }
    return NEVER;
}

/* A server that names no slots but its processes: they get slots in the order in which they are seen. */
static uint64_t slot_of_process(uint64_t pid)
{
    static uint64_t seen[SLOTS_MAX];
    static size_t count;
    if (pid == NEVER)
        return NEVER;
    for (size_t i = 0; i < count; i++)
        if (seen[i] == pid)
            return i;
    if (count == SLOTS_MAX)
        return NEVER;
    seen[count] = pid;
    return count++;
}

/* Takes bytes that were received at answer->head + head_bytes; false: this is not HTTP. */
static bool take_head_bytes(struct answer *answer, size_t bytes)
{
    answer->head_bytes += bytes;
    answer->head[answer->head_bytes] = '\0';
    char *end = strstr(answer->head, "\r\n\r\n");
    if (end == NULL)
        return answer->head_bytes < HEAD_MAX_BYTES;
    end[2] = '\0'; /* the body is not searched for headers */
    answer->slot = header_value(answer->head, "X-Herd-Slot");
    if (answer->slot == NEVER)
        answer->slot = slot_of_process(header_value(answer->head, "X-Herd-Pid"));
    answer->length_bytes = header_value(answer->head, "Content-Length");
    answer->body_bytes = answer->head_bytes - (size_t)(end + 4 - answer->head);
    answer->head_complete = true;
    return sscanf(answer->head, "HTTP/1.%*1d %3d", &answer->status) == 1;
}

/* ---- the run ---- */

/* Kinds of failures; behind those that have a name of their own comes FAILURE_OTHER + errno. */
enum { CONNECT_REFUSED, RESET, TIMED_OUT, SHORT_ANSWER, BAD_STATUS, BAD_ANSWER, CLOSED_WHILE_HELD, FAILURE_OTHER };
enum { ERRNO_END = 160, FAILURES_END = FAILURE_OTHER + ERRNO_END };
static const char *const failure_names[FAILURE_OTHER] = { "connect_refused", "reset", "timeout", "short_answer",
                                                          "bad_status", "bad_answer", "closed_while_held" };

static struct results {
    const char *stopped; /* NULL: not yet */
    uint64_t completed, failed, requests, slow, backlog_full, ports_exhausted; /* the last two were tried again */
    uint64_t failures[FAILURES_END], slots[SLOTS_MAX];
    uint64_t elapsed_us, opened_us; /* opened: hold, until all were open */
    struct histogram latency, first_byte, held_latency;
} results;

struct list {
    TAILQ_HEAD(, connection) head;
    size_t count;
};

struct connection { /* always in exactly one list of the run */
    TAILQ_ENTRY(connection) link;
    struct list *list;
    int fd;
    const struct request *request;
    size_t sent_bytes;
    bool waits_for_out, first_byte_seen;
    uint64_t latency_from_us, connect_us, deadline_us;
    struct answer answer;
};

/* So many starts, one every interval; the n-th is due at a time that no answer can move. */
struct schedule {
    uint64_t begin_us, total, started, stop_us;
    double interval_us;
};

static struct run {
    struct request request, slow_request;
    int epoll_fd;
    size_t in_flight_max;
    struct list free, in_flight, held;
    struct schedule connects, held_requests;
    bool holding; /* hold: all are open */
    uint64_t next_sweep_us, paused_until_us, failures_in_a_row;
    unsigned next_source;
} run;

static volatile sig_atomic_t interrupted;
static void on_signal(int number) { interrupted = number; }

static uint64_t due_us(const struct schedule *schedule)
{
    return schedule->begin_us + (uint64_t)((double)schedule->started * schedule->interval_us);
}

static bool is_over(const struct schedule *schedule, uint64_t now)
{
    return schedule->started >= schedule->total || now >= schedule->stop_us;
}

static void move_to(struct list *list, struct connection *connection)
{
    if (connection->list != NULL) {
        TAILQ_REMOVE(&connection->list->head, connection, link);
        connection->list->count--;
    }
    connection->list = list;
    list->count++;
    if (list == &run.free) /* the next one finds its memory in the cache */
        TAILQ_INSERT_HEAD(&list->head, connection, link);
    else
        TAILQ_INSERT_TAIL(&list->head, connection, link);
}

/* Close also ends the interest of epoll, as nobody else has the file; so an event can never meet another
 * connection in the same place. */
static void release(struct connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    move_to(&run.free, connection);
}

static void fail(struct connection *connection, int kind)
{
    results.failed++;
    results.failures[kind]++;
    if (options.mode != MODE_RATE) /* a server that refuses everything must not make us spin */
        run.paused_until_us = now_us() + PAUSE_US;
    release(connection);
    if (++run.failures_in_a_row > options.clients + FAILURES_TO_GIVE_UP && options.mode != MODE_RATE)
        results.stopped = "gave_up";
}

static void fail_errno(struct connection *connection, int error)
{
    fail(connection, error == ECONNREFUSED                   ? CONNECT_REFUSED
                     : error == ECONNRESET || error == EPIPE ? RESET
                     : error == ETIMEDOUT                    ? TIMED_OUT
                                                             : FAILURE_OTHER + (error < ERRNO_END ? error : 0));
}

static bool record_answer(struct connection *connection)
{
    if (connection->answer.status != 200) {
        fail(connection, BAD_STATUS);
        return false;
    }
    results.requests++;
    run.failures_in_a_row = 0;
    if (connection->request == &run.slow_request)
        results.slow++;
    else
        record(run.holding ? &results.held_latency : &results.latency, now_us() - connection->latency_from_us);
    return true;
}

static void complete(struct connection *connection)
{
    results.completed++;
    if (connection->answer.slot < SLOTS_MAX)
        results.slots[connection->answer.slot]++;
    release(connection);
}

/* Sends what is left. On loopback the handshake is over when connect returns, so most need no EPOLLOUT. */
static void send_request(struct connection *connection, int epoll_operation)
{
    const struct request *request = connection->request;
    const bool waited = connection->waits_for_out;
    ssize_t sent = send(connection->fd, request->text + connection->sent_bytes, request->bytes - connection->sent_bytes,
                        MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        fail_errno(connection, errno);
        return;
    }
    connection->sent_bytes += sent > 0 ? (size_t)sent : 0;
    connection->waits_for_out = connection->sent_bytes < request->bytes;
    if (epoll_operation == EPOLL_CTL_MOD && waited == connection->waits_for_out)
        return;
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = connection };
    event.events |= connection->waits_for_out ? EPOLLOUT : 0;
    if (epoll_ctl(run.epoll_fd, epoll_operation, connection->fd, &event) != 0)
        fail_errno(connection, errno);
}

/* Gives a connection its next request. Latency counts from `from_us`. */
static void assign_request(struct connection *connection, const struct request *request, uint64_t from_us,
                           uint64_t deadline_us)
{
    connection->request = request;
    connection->sent_bytes = connection->answer.head_bytes = 0;
    connection->answer.head_complete = connection->waits_for_out = false;
    connection->latency_from_us = from_us;
    connection->deadline_us = deadline_us;
    move_to(&run.in_flight, connection);
}

static void start_connection(uint64_t now)
{
    struct connection *connection = TAILQ_FIRST(&run.free.head);
    /* rate: from when it was due, a slow server must not make its own figures better */
    const uint64_t from_us = options.mode == MODE_RATE ? due_us(&run.connects) : now;
    const uint64_t deadline_us = from_us + (uint64_t)options.timeout_ms * US_PER_MS;
    int fd = now < deadline_us ? open_connection(run.next_source++) : -ETIMEDOUT;
    /* A unix listener with a full backlog says EAGAIN (unix(7)); EADDRNOTAVAIL: all local ports in use (ip(7)). */
    if (fd == -EAGAIN || fd == -EADDRNOTAVAIL) {
        (*(fd == -EAGAIN ? &results.backlog_full : &results.ports_exhausted))++;
        run.paused_until_us = now + PAUSE_US; /* the same one is tried again */
        return;
    }
    run.connects.started++;
    const bool slow = options.slow_every != 0 && run.connects.started % (uint64_t)options.slow_every == 0;
    assign_request(connection, slow ? &run.slow_request : &run.request, from_us, deadline_us);
    connection->fd = fd;
    connection->connect_us = now;
    connection->first_byte_seen = slow;
    if (fd < 0)
        fail_errno(connection, -fd);
    else
        send_request(connection, EPOLL_CTL_ADD);
}

static void start_held_request(uint64_t now)
{
    struct connection *connection = TAILQ_FIRST(&run.held.head); /* the one that was idle longest */
    const uint64_t from_us = due_us(&run.held_requests);
    run.held_requests.started++;
    assign_request(connection, connection->request, from_us, now + (uint64_t)options.timeout_ms * US_PER_MS);
    send_request(connection, EPOLL_CTL_MOD);
}

/* The peer has closed. */
static void on_end_of_stream(struct connection *connection)
{
    const struct answer *answer = &connection->answer;
    if (connection->list == &run.held)
        fail(connection, CLOSED_WHILE_HELD);
    else if (!answer->head_complete || (answer->length_bytes != NEVER && answer->body_bytes < answer->length_bytes)
             || connection->request->keep_alive)
        fail(connection, SHORT_ANSWER);
    else if (record_answer(connection))
        complete(connection);
}

/* Returns false if the connection is not to be read any more: failed, or has all of a keep-alive answer. */
static bool take_bytes(struct connection *connection, size_t bytes)
{
    struct answer *answer = &connection->answer;
    if (!connection->first_byte_seen)
        record(&results.first_byte, now_us() - connection->connect_us);
    connection->first_byte_seen = true;
    bool good = connection->list != &run.held;
    if (answer->head_complete)
        answer->body_bytes += bytes;
    else
        good = good && take_head_bytes(answer, bytes);
    const bool keep_alive = connection->request->keep_alive;
    if (!good || (answer->head_complete && answer->body_bytes > answer->length_bytes)
        || (answer->head_complete && keep_alive && answer->length_bytes == NEVER)) {
        fail(connection, BAD_ANSWER);
        return false;
    }
    if (!answer->head_complete || !keep_alive || answer->body_bytes < answer->length_bytes)
        return true;
    if (record_answer(connection))
        move_to(&run.held, connection);
    return false;
}

static void on_event(struct connection *connection, uint32_t events)
{
    static char scratch[SCRATCH_BYTES]; /* bodies are counted, not kept */
    if (connection->waits_for_out) {
        send_request(connection, EPOLL_CTL_MOD);
        return; /* what there is to read is still there in the next wait */
    }
    for (int reads = 0; reads < READS_PER_EVENT; reads++) {
        struct answer *answer = &connection->answer;
        char *into = answer->head_complete ? scratch : answer->head + answer->head_bytes;
        size_t room = answer->head_complete ? sizeof scratch : HEAD_MAX_BYTES - answer->head_bytes;
        ssize_t got = recv(connection->fd, into, room, 0);
        if (got > 0) {
            /* After a short read only the end of the stream is worth another call. */
            if (!take_bytes(connection, (size_t)got) || ((size_t)got < room && !(events & (EPOLLRDHUP | EPOLLHUP))))
                return;
        } else {
            if (got == 0)
                on_end_of_stream(connection);
            else if (errno != EAGAIN)
                fail_errno(connection, errno);
            return;
        }
    }
}

/* When the next connect may start, or NEVER if only an answer can allow one. */
static uint64_t next_connect_us(uint64_t now)
{
    if (is_over(&run.connects, now) || run.free.count == 0 || run.in_flight.count >= run.in_flight_max)
        return NEVER;
    return larger(due_us(&run.connects), run.paused_until_us);
}

static uint64_t next_held_request_us(uint64_t now)
{
    bool none = !run.holding || is_over(&run.held_requests, now) || run.held.count == 0;
    return none ? NEVER : due_us(&run.held_requests);
}

static void fail_overdue(uint64_t now)
{
    for (struct connection *at = TAILQ_FIRST(&run.in_flight.head), *next; at != NULL; at = next) {
        next = TAILQ_NEXT(at, link);
        if (now >= at->deadline_us)
            fail(at, TIMED_OUT);
    }
    run.next_sweep_us = now + SWEEP_INTERVAL_US;
}

/* True when nothing is left to do; also takes hold from opening to staying open. */
static bool is_finished(uint64_t now)
{
    if (results.stopped != NULL)
        return true;
    if (!is_over(&run.connects, now) || run.in_flight.count > 0)
        return false;
    if (options.mode == MODE_HOLD && !run.holding) {
        run.holding = true;
        results.opened_us = now - run.connects.begin_us;
        run.held_requests = (struct schedule){
            .begin_us = now, .interval_us = options.rate > 0 ? US_PER_S / options.rate : 0,
            .total = (uint64_t)(options.rate * options.seconds + 0.5),
            .stop_us = now + (uint64_t)(options.seconds * US_PER_S) };
    }
    return options.mode != MODE_HOLD || run.held.count == 0 || now >= run.held_requests.stop_us;
}

/* epoll_wait's own timeout is in ms: a schedule kept to 1 ms would measure itself. The signals are unblocked only
 * here, so that none comes between a look at `interrupted` and the wait. */
static void wait_for_events(const sigset_t *unblocked)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    struct pollfd epoll = { .fd = run.epoll_fd, .events = POLLIN };
    uint64_t now = now_us(), wake = smaller(next_connect_us(now), next_held_request_us(now));
    if (run.in_flight.count > 0)
        wake = smaller(wake, run.next_sweep_us);
    if (!run.holding)
        wake = smaller(wake, run.connects.stop_us);
    else if (run.in_flight.count == 0)
        wake = smaller(wake, run.held_requests.stop_us);
    const uint64_t left_us = smaller(wake > now ? wake - now : 0, US_PER_S);
    const struct timespec timeout = { (time_t)(left_us / US_PER_S), (long)(left_us % US_PER_S) * 1000 };
    if (ppoll(&epoll, 1, &timeout, unblocked) > 0) {
        int count = epoll_wait(run.epoll_fd, events, EVENTS_PER_WAIT, 0);
        for (int i = 0; i < count; i++)
            on_event(events[i].data.ptr, events[i].events);
    }
    if (interrupted)
        results.stopped = "interrupted";
}

/* Connections that may exist at one time; raises the limit of open files to it. */
static size_t table_size(void)
{
    double wanted = options.mode == MODE_HOLD ? options.count : options.clients;
    if (options.mode == MODE_RATE) {
        wanted = options.rate * options.timeout_ms / US_PER_MS + IN_FLIGHT_MARGIN;
        wanted = options.count != 0 && options.count < wanted ? options.count : wanted;
    }
    struct rlimit limit = { 0, 0 };
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t files = (rlim_t)wanted + RESERVED_FDS;
    const struct rlimit higher = { files, larger(files, limit.rlim_max) }; /* root may, up to fs.nr_open */
    if (limit.rlim_cur < files && setrlimit(RLIMIT_NOFILE, &higher) != 0)
        die("%.0f connections need %zu open files: raise the limit with ulimit -n", wanted, (size_t)files);
    return (size_t)wanted;
}

static struct connection *prepare_run(void)
{
    const bool rate = options.mode == MODE_RATE;
    char slow_path[PATH_MAX_BYTES];
    snprintf(slow_path, sizeof slow_path, "/slow?ms=%.0f", options.slow_ms);
    run.request = make_request(options.path, options.mode == MODE_HOLD);
    run.slow_request = make_request(slow_path, false);
    const size_t size = table_size();
    struct connection *connections = calloc(size, sizeof *connections);
    run.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (run.epoll_fd < 0 || connections == NULL)
        die("epoll, or memory for %zu connections: %s", size, strerror(errno));
    run.in_flight_max = rate ? size : (size_t)options.clients;
    TAILQ_INIT(&run.free.head);
    TAILQ_INIT(&run.in_flight.head);
    TAILQ_INIT(&run.held.head);
    for (size_t i = 0; i < size; i++) {
        connections[i].fd = -1;
        move_to(&run.free, &connections[i]);
    }
    run.connects = (struct schedule){ .total = options.count != 0 ? (uint64_t)options.count : NEVER,
                                      .interval_us = rate ? US_PER_S / options.rate : options.gap_us };
    return connections;
}

static void perform_run(const sigset_t *unblocked)
{
    uint64_t now = now_us();
    prctl(PR_SET_TIMERSLACK, 1UL); /* 1 ns; by default a wait ends up to 50 us late */
    run.connects.begin_us = now;
    run.connects.stop_us = options.mode == MODE_SHORT && options.seconds > 0
                               ? now + (uint64_t)(options.seconds * US_PER_S) : NEVER;
    while (!is_finished(now = now_us())) {
        for (; next_connect_us(now) <= now; now = now_us())
            start_connection(now);
        for (; next_held_request_us(now) <= now; now = now_us())
            start_held_request(now);
        if (now >= run.next_sweep_us)
            fail_overdue(now);
        wait_for_events(unblocked);
    }
    results.elapsed_us = now - run.connects.begin_us;
}

static void end_run(struct connection *connections)
{
    while (run.held.count > 0)
        complete(TAILQ_FIRST(&run.held.head));
    while (run.in_flight.count > 0)
        release(TAILQ_FIRST(&run.in_flight.head));
    close(run.epoll_fd);
    free(connections);
}

/* ---- the server's counters ---- */

struct counters {
    size_t count;
    struct {
        char name[COUNTER_NAME_BYTES];
        int64_t value;
    } list[COUNTERS_MAX];
};

/* One GET on a connection of its own, outside the measured part. */
static bool fetch_counters(struct counters *counters)
{
    static char text[SCRATCH_BYTES];
    const struct request request = make_request("/counters", false);
    const struct timeval timeout = { (time_t)(options.timeout_ms / 1000), (long)options.timeout_ms % 1000 * 1000 };
    int fd = open_connection(0);
    size_t bytes = 0;
    ssize_t got = -1;
    if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0
        && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0
        && send(fd, request.text, request.bytes, MSG_NOSIGNAL) == (ssize_t)request.bytes)
        while ((got = recv(fd, text + bytes, sizeof text - 1 - bytes, 0)) > 0)
            bytes += (size_t)got;
    const int error = fd < 0 ? -fd : got < 0 ? errno : 0;
    text[bytes] = '\0';
    if (fd >= 0)
        close(fd);
    const char *line = strstr(text, "\r\n\r\n");
    if (error != 0 || line == NULL || strncmp(text + strlen("HTTP/1.1"), " 200", 4) != 0) {
        fprintf(stderr, "load: GET /counters: %s\n", error != 0 ? strerror(error) : "no answer with status 200");
        return false;
    }
    counters->count = 0;
    for (line += strlen("\r\n\r"); line != NULL && counters->count < COUNTERS_MAX; line = strchr(line + 1, '\n'))
        /* Names go into our JSON as they are, so nothing that would need quoting; 63 is COUNTER_NAME_BYTES - 1. */
        if (sscanf(line, "\n%63[A-Za-z0-9_.] %" SCNd64, counters->list[counters->count].name,
                   &counters->list[counters->count].value) == 2)
            counters->count++;
    return true;
}

static void subtract_counters(struct counters *after, const struct counters *before)
{
    for (size_t i = 0; i < after->count; i++)
        for (size_t j = 0; j < before->count; j++)
            if (strcmp(after->list[i].name, before->list[j].name) == 0)
                after->list[i].value -= before->list[j].value;
}

/* ---- the report: the same figures as JSON, one flat key a line, or as text ---- */

/* -1: undefined */
static void print_figure(const char *key, double value)
{
    char text[32] = "null";
    if (value >= 0)
        snprintf(text, sizeof text, value == (double)(uint64_t)value ? "%.0f" : "%.6g", value);
    if (options.json)
        printf("  \"%s\": %s,\n", key, text);
    else if (value >= 0)
        printf("%-30s %12s\n", key, text);
}

/* Entries of an inner object stay on one line in JSON; `name` NULL ends it. */
static void print_entry(const char *name, int64_t value)
{
    static bool first = true;
    if (name == NULL)
        fputs(options.json ? "}" : "", stdout);
    else if (options.json)
        printf("%s\"%s\": %" PRId64, first ? "" : ", ", name, value);
    else
        printf("  %-28s %12" PRId64 "\n", name, value);
    first = name == NULL;
}

static void print_heading(const char *name, bool is_first)
{
    printf(options.json ? "%s  \"%s\": {" : "%s%s:\n", options.json && !is_first ? ",\n" : "", name);
}

static void print_histogram(const char *name, const struct histogram *histogram)
{
    static const struct { const char *name; double share; } quantiles[] = {
        { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 }, { "worst", 1 } };
    for (size_t i = 0; i < COUNT_OF(quantiles); i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s_us", name, quantiles[i].name);
        print_figure(key, percentile_us(histogram, quantiles[i].share));
    }
}

/* A slot that was seen, or that --slots says exists. */
static bool is_counted(size_t slot) { return results.slots[slot] > 0 || slot < options.slots; }

/* Jain's fairness index: 1 if all have the same, 1/n if one has all. */
static void print_balance(void)
{
    double sum = 0, squares = 0, members = 0, most = 0, least = -1;
    for (size_t slot = 0; slot < SLOTS_MAX; slot++) {
        if (!is_counted(slot))
            continue;
        const double share = (double)results.slots[slot];
        members++;
        sum += share;
        squares += share * share;
        most = share > most ? share : most;
        least = least < 0 || share < least ? share : least;
    }
    print_figure("jain", squares > 0 ? sum * sum / (members * squares) : -1);
    print_figure("max_min_ratio", least > 0 ? most / least : -1);
}

static double per_connection(double total)
{
    return results.completed > 0 && total >= 0 ? total / (double)results.completed : -1;
}

static double counted(const struct counters *counters, const char *name)
{
    for (size_t i = 0; i < counters->count; i++)
        if (strcmp(counters->list[i].name, name) == 0)
            return (double)counters->list[i].value;
    return -1;
}

/* `server_tasks` 0: its use was not asked for. */
static void print_report(size_t server_tasks, const struct task *use, const struct counters *counters)
{
    const uint64_t opening_us = run.holding ? results.opened_us : results.elapsed_us;
    char name[32];
    printf(options.json ? "{\n  \"mode\": \"%s\",\n  \"stopped\": \"%s\",\n" : "mode %s, %s\n", options.mode_name,
           results.stopped != NULL ? results.stopped : "done");
    print_figure("connections", (double)results.completed);
    print_figure("failed", (double)results.failed);
    print_figure("seconds", (double)results.elapsed_us / US_PER_S);
    print_figure("connections_per_second",
                 opening_us > 0 ? (double)results.completed * US_PER_S / (double)opening_us : -1);
    print_figure("requests", (double)results.requests);
    print_figure("slow_count", (double)results.slow);
    print_figure("backlog_full", (double)results.backlog_full);
    print_figure("ports_exhausted", (double)results.ports_exhausted);
    print_histogram("latency", &results.latency);
    print_histogram("first_byte", &results.first_byte);
    print_histogram("held_latency", &results.held_latency);
    print_balance();
    print_figure("server_tasks", (double)server_tasks);
    print_figure("sleeps_per_connection", per_connection(server_tasks > 0 ? (double)use->sleeps : -1));
    print_figure("server_cpu_us_per_connection", per_connection(server_tasks > 0 ? (double)use->cpu_ns / 1000 : -1));
    print_figure("wakeups_per_connection", per_connection(counted(counters, "wakeups")));
    print_figure("wasted_wakeups_per_connection", per_connection(counted(counters, "wasted_wakeups")));
    print_heading("slots", true);
    for (size_t slot = 0; slot < SLOTS_MAX; slot++) {
        snprintf(name, sizeof name, "%zu", slot);
        if (is_counted(slot))
            print_entry(name, (int64_t)results.slots[slot]);
    }
    print_entry(NULL, 0);
    print_heading("errors", false);
    for (int kind = 0; kind < FAILURES_END; kind++) {
        snprintf(name, sizeof name, "other_errno_%d", kind - FAILURE_OTHER);
        if (results.failures[kind] > 0)
            print_entry(kind < FAILURE_OTHER ? failure_names[kind] : name, (int64_t)results.failures[kind]);
    }
    print_entry(NULL, 0);
    print_heading("counters", false);
    for (size_t i = 0; i < counters->count; i++)
        print_entry(counters->list[i].name, counters->list[i].value);
    print_entry(NULL, 0);
    fputs(options.json ? "\n}\n" : "", stdout);
}

/* ---- all together ---- */

int main(int argc, char **argv)
{
    static struct counters before, after;
    static struct sample tasks_before, tasks_after;
    parse_options(argc, argv);
    parse_address(options.address);

    sigset_t stop_signals, unblocked;
    sigemptyset(&stop_signals);
    sigaddset(&stop_signals, SIGINT);
    sigaddset(&stop_signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop_signals, &unblocked);
    sigdelset(&unblocked, SIGINT);
    sigdelset(&unblocked, SIGTERM);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    struct connection *connections = prepare_run();

    bool have_counters = options.counters && fetch_counters(&before);
    if (options.server_pid != 0) {
        usleep(SETTLE_US);
        add_process(&tasks_before, (int)options.server_pid);
        if (tasks_before.count == 0)
            die("--server-pid %.0f: no such process", options.server_pid);
    }
    perform_run(&unblocked);
    if (options.server_pid != 0) {
        usleep(SETTLE_US);
        add_process(&tasks_after, (int)options.server_pid);
        for (size_t i = 0; i < tasks_before.count; i++) /* a killed master's workers have another parent now */
            add_process(&tasks_after, tasks_before.tasks[i].pid);
    }
    have_counters = have_counters && fetch_counters(&after);
    subtract_counters(&after, &before);
    end_run(connections);

    const struct task use = used_between(&tasks_before, &tasks_after);
    print_report(tasks_after.count, &use, &after);
    return results.failed > 0 || (options.counters && !have_counters) ? EXIT_ANY_FAILED : EXIT_SUCCESS;
}
