/*
 * load: drives an HTTP server from outside and reports what its clients, and the kernel, see of it.
 *
 * A program of its own: it knows sockets, a little HTTP and /proc; it must not know libherd, so that every
 * mode, and every other server which names its slots, is measured by the same ruler. One thread, one epoll.
 *
 * In order: options, address, latencies, /proc, requests and answers, results, the run, counters, report, main.
 * The run is a loop of: start what is due, fail what is overdue, set the timer, wait. A connection is in one list
 * at a time (free, in flight, retry, held), and that is its state.
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
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NEVER UINT64_MAX

enum {
    EXIT_ANY_FAILED = 1,
    EXIT_USAGE = 2,
    US_PER_MS = 1000,
    US_PER_S = 1000000,
    EVENTS_PER_WAIT = 256,
    LONGEST_WAIT_MS = 1000,       /* the timer wakes us; this only bounds the damage if it ever did not */
    READS_PER_EVENT = 16,         /* an endless answer must not keep the loop from its timeouts */
    RETRY_DELAY_US = 1000,        /* after a full backlog, or no free local port */
    FAILURE_PAUSE_US = 1000,      /* short and hold: a server that refuses everything must not make us spin */
    FAILURES_TO_GIVE_UP = 100,    /* short and hold: so many more than clients, in a row */
    SWEEP_INTERVAL_US = 20000,    /* how exact --timeout-ms is */
    SETTLE_MS = 20,               /* the server's workers finish and go to sleep before they are counted */
    RESERVED_FDS = 32,            /* stdio, epoll, timer, /proc and what the caller left open */
    IN_FLIGHT_MARGIN = 64,        /* rate: connections beyond rate * timeout */
    SOURCE_ADDRESSES = 200,       /* 127.0.0.1 to 127.0.0.200 */
    PATH_MAX_BYTES = 512,
    REQUEST_MAX_BYTES = PATH_MAX_BYTES + 128,
    HEAD_MAX_BYTES = 1024,
    BODY_SCRATCH_BYTES = 65536,
    SLOTS_MAX = 1024,
    SLOT_UNKNOWN = -1,
    COUNTERS_MAX = 128,
    COUNTER_NAME_BYTES = 64,
    BAR_WIDTH = 40
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

static void sleep_us(uint64_t duration_us)
{
    struct timespec duration = { (time_t)(duration_us / US_PER_S), (long)(duration_us % US_PER_S) * 1000 };
    nanosleep(&duration, NULL);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

#define die(...) stop_with("", __VA_ARGS__)
#define usage_error(...) stop_with(" (see load --help)", __VA_ARGS__)
static void __attribute__((format(printf, 2, 3), noreturn)) stop_with(const char *hint, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "%s\n", hint);
    va_end(arguments);
    exit(EXIT_USAGE);
}

/* ---- options: one table gives parsing, limits, defaults' text and --help ---- */

enum mode { MODE_SHORT, MODE_RATE, MODE_HOLD, MODE_COUNT };
static const char *const mode_names[MODE_COUNT] = { "short", "rate", "hold" };

#define IN(mode) (1u << (mode))
#define IN_ALL (IN(MODE_SHORT) | IN(MODE_RATE) | IN(MODE_HOLD))

struct options {
    enum mode mode;
    uint64_t clients, count, gap_us, slow_every, slow_ms, timeout_ms, slots, server_pid; /* 0: not asked for */
    double seconds, rate;
    const char *path, *address;
    bool json, counters;
    unsigned given; /* bit i: rules[i] was on the command line */
};

enum option_kind { OPTION_MODE, OPTION_INTEGER, OPTION_DECIMAL, OPTION_TEXT, OPTION_FLAG, OPTION_HELP };

static const struct option_rule {
    const char *name, *value_name;
    enum option_kind kind;
    unsigned modes;
    size_t offset;
    uint64_t least, most;
    const char *help;
} rules[] = {
    { "mode", "short|rate|hold", OPTION_MODE, IN_ALL, 0, 0, 0, "scenario (short)" },
    { "clients", "N", OPTION_INTEGER, IN(MODE_SHORT) | IN(MODE_HOLD), offsetof(struct options, clients), 1, 100000,
      "concurrent clients; in hold: connects in flight (16)" },
    { "seconds", "S", OPTION_DECIMAL, IN_ALL, offsetof(struct options, seconds), 0, 86400,
      "how long (short, rate: 3, or what --count takes; hold: stay open, 0)" },
    { "count", "N", OPTION_INTEGER, IN_ALL, offsetof(struct options, count), 1, 1000000000,
      "how many connections (hold: 2000)" },
    { "rate", "R", OPTION_DECIMAL, IN(MODE_RATE) | IN(MODE_HOLD), offsetof(struct options, rate), 0, 1000000,
      "connections a second (100); in hold: requests a second while open (0)" },
    { "slow-every", "K", OPTION_INTEGER, IN(MODE_RATE), offsetof(struct options, slow_every), 1, 1000000000,
      "every K-th request is GET /slow?ms=M, and kept out of the latencies" },
    { "slow-ms", "M", OPTION_INTEGER, IN(MODE_RATE), offsetof(struct options, slow_ms), 0, 60000, "M of it (200)" },
    { "gap-us", "G", OPTION_INTEGER, IN(MODE_HOLD), offsetof(struct options, gap_us), 0, 10000000,
      "time between two connects (0)" },
    { "path", "PATH", OPTION_TEXT, IN_ALL, offsetof(struct options, path), 0, 0, "what to GET (/)" },
    { "timeout-ms", "T", OPTION_INTEGER, IN_ALL, offsetof(struct options, timeout_ms), 1, 600000,
      "no full answer by then is an error (5000)" },
    { "slots", "N", OPTION_INTEGER, IN_ALL, offsetof(struct options, slots), 1, SLOTS_MAX,
      "workers there are, so that unused ones count as zero" },
    { "server-pid", "PID", OPTION_INTEGER, IN_ALL, offsetof(struct options, server_pid), 1, INT32_MAX,
      "count sleeps and CPU time of it and all its descendants" },
    { "counters", NULL, OPTION_FLAG, IN_ALL, offsetof(struct options, counters), 0, 0,
      "GET /counters before and after, report differences" },
    { "json", NULL, OPTION_FLAG, IN_ALL, offsetof(struct options, json), 0, 0, "one JSON object, one key a line" },
    { "help", NULL, OPTION_HELP, IN_ALL, 0, 0, 0, "this text" },
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

static void parse_value(struct options *options, const struct option_rule *rule, const char *text)
{
    void *field = (char *)options + rule->offset;
    char *end = NULL;
    double value = 0;
    errno = 0;
    switch (rule->kind) {
    case OPTION_MODE:
        for (int mode = 0; mode < MODE_COUNT; mode++)
            if (strcmp(text, mode_names[mode]) == 0) {
                options->mode = (enum mode)mode;
                return;
            }
        usage_error("--mode %s: not one of short, rate, hold", text);
    case OPTION_INTEGER: /* exact: the largest limit is far below 2^53 */
    case OPTION_DECIMAL:
        value = isdigit((unsigned char)text[0]) ? strtod(text, &end) : 0;
        if (end == NULL || *end != '\0' || errno != 0)
            usage_error("--%s %s: not a number", rule->name, text);
        if (!(value >= (double)rule->least && value <= (double)rule->most))
            usage_error("--%s %s: not in %" PRIu64 " to %" PRIu64, rule->name, text, rule->least, rule->most);
        if (rule->kind == OPTION_DECIMAL)
            *(double *)field = value;
        else if (value == (double)(uint64_t)value)
            *(uint64_t *)field = (uint64_t)value;
        else
            usage_error("--%s %s: not a whole number", rule->name, text);
        return;
    case OPTION_TEXT:
        *(const char **)field = text;
        return;
    case OPTION_FLAG:
        *(bool *)field = true;
        return;
    case OPTION_HELP:
        print_help();
        exit(EXIT_SUCCESS);
    }
}

static void check_path(const char *path)
{
    if (path[0] != '/' || strlen(path) > PATH_MAX_BYTES)
        usage_error("--path %s: must start with / and have at most %d bytes", path, PATH_MAX_BYTES);
    for (const char *at = path; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            usage_error("--path %s: only printable characters without spaces", path);
}

static void settle_defaults(struct options *options)
{
    const bool hold = options->mode == MODE_HOLD, rate = options->mode == MODE_RATE;
    if (options->seconds < 0) /* a run limited by count alone needs no clock */
        options->seconds = hold || options->count != 0 ? 0 : 3;
    else if (options->seconds == 0 && !hold)
        usage_error("--seconds 0: must be more");
    if (options->rate < 0)
        options->rate = rate ? 100 : 0;
    else if (options->rate == 0 && rate)
        usage_error("--rate 0: must be more");
    if (hold && options->count == 0)
        options->count = 2000;
    if (rate && options->seconds > 0) {
        uint64_t arrivals = larger(1, (uint64_t)(options->rate * options->seconds + 0.5));
        options->count = options->count == 0 ? arrivals : smaller(arrivals, options->count);
    }
}

static struct options parse_options(int argc, char **argv)
{
    struct options options = { .clients = 16, .seconds = -1, .rate = -1, .slow_ms = 200, .timeout_ms = 5000,
                               .path = "/" }; /* -1: settle_defaults chooses */
    struct option long_options[COUNT_OF(rules) + 1] = { { 0 } };
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        long_options[i] = (struct option){ .name = rules[i].name,
                                           .has_arg = rules[i].value_name ? required_argument : no_argument };
    for (;;) {
        int index = 0;
        opterr = 0;
        int found = getopt_long(argc, argv, ":", long_options, &index);
        if (found == -1)
            break;
        if (found == ':')
            usage_error("%s: needs a value", argv[optind - 1]);
        if (found != 0)
            usage_error("%s: no such option", argv[optind - 1]);
        if (rules[index].kind == OPTION_MODE && (options.given & (1u << index)))
            usage_error("--mode: given twice");
        options.given |= 1u << index;
        parse_value(&options, &rules[index], optarg);
    }
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if ((options.given & (1u << i)) && !(rules[i].modes & IN(options.mode)))
            usage_error("--%s: has no meaning in mode %s", rules[i].name, mode_names[options.mode]);
    if (optind + 1 != argc)
        usage_error(optind == argc ? "no address" : "more than one address");
    options.address = argv[optind];
    check_path(options.path);
    settle_defaults(&options);
    return options;
}

/* ---- the address of the server ---- */

struct target {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } address;
    socklen_t address_bytes;
    bool many_sources; /* 127/8: all of it is ours, so each source address has its own ephemeral ports */
};

static struct target parse_address(const char *text)
{
    struct target target = { .address_bytes = 0 };
    if (strncmp(text, "unix:", strlen("unix:")) == 0) {
        const char *path = text + strlen("unix:");
        if (path[0] != '/' || strlen(path) >= sizeof target.address.local.sun_path)
            usage_error("%s: a unix address needs an absolute path of less than %zu bytes", text,
                sizeof target.address.local.sun_path);
        target.address.local.sun_family = AF_UNIX;
        strcpy(target.address.local.sun_path, path);
        target.address_bytes = sizeof target.address.local;
        return target;
    }
    const bool v6 = text[0] == '[';
    const char *separator = v6 ? "]:" : ":", *host_end = strstr(text, separator);
    char host[INET6_ADDRSTRLEN] = "";
    const char *host_begin = text + (v6 ? 1 : 0);
    if (host_end == NULL || host_end - host_begin >= (ptrdiff_t)sizeof host)
        usage_error("%s: not an address like 127.0.0.1:8080, [::1]:8080 or unix:/path", text);
    memcpy(host, host_begin, (size_t)(host_end - host_begin));
    char *port_end = NULL;
    const char *port_text = host_end + strlen(separator);
    unsigned long port = isdigit((unsigned char)port_text[0]) ? strtoul(port_text, &port_end, 10) : 0;
    if (port == 0 || port > UINT16_MAX || *port_end != '\0')
        usage_error("%s: no port from 1 to 65535", text);
    target.address.any.sa_family = v6 ? AF_INET6 : AF_INET;
    *(v6 ? &target.address.v6.sin6_port : &target.address.v4.sin_port) = htons((uint16_t)port);
    void *number = v6 ? (void *)&target.address.v6.sin6_addr : (void *)&target.address.v4.sin_addr;
    if (inet_pton(target.address.any.sa_family, host, number) != 1)
        usage_error("%s: \"%s\" is not an IPv%c address (names are not looked up)", text, host, v6 ? '6' : '4');
    if (v6 ? !IN6_IS_ADDR_LOOPBACK(&target.address.v6.sin6_addr)
           : ntohl(target.address.v4.sin_addr.s_addr) >> IN_CLASSA_NSHIFT != IN_LOOPBACKNET)
        usage_error("%s: refused, load sends traffic only to loopback and unix addresses", text);
    target.address_bytes = v6 ? sizeof target.address.v6 : sizeof target.address.v4;
    target.many_sources = !v6;
    return target;
}

/* Starts a connect that may still be in progress; returns the socket or a negated errno. */
static int open_connection(const struct target *target, unsigned source)
{
    int fd = socket(target->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int failed = 0;
    if (target->many_sources) {
        /* NO_PORT: connect picks the port, knowing the peer (ip(7)); one picked by bind must be free for all peers. */
        const int on = 1;
        struct sockaddr_in from = { .sin_family = AF_INET };
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + source % SOURCE_ADDRESSES);
        failed = setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0
                 || bind(fd, (struct sockaddr *)&from, sizeof from) != 0;
    }
    if (!failed)
        failed = connect(fd, &target->address.any, target->address_bytes) != 0 && errno != EINPROGRESS;
    if (failed) {
        int why = errno;
        close(fd);
        return -why;
    }
    return fd;
}

/* A unix listener with a full backlog says EAGAIN (unix(7)); EADDRNOTAVAIL: all local ports in use (ip(7)). */
static bool connect_may_work_later(int error) { return error == EAGAIN || error == EADDRNOTAVAIL; }

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

/* The upper edge of the bucket in which the share of all samples is reached. */
static uint64_t percentile_us(const struct histogram *histogram, double share)
{
    const double wanted = share * (double)histogram->count;
    uint64_t seen = 0;
    for (unsigned index = 0; index < BUCKETS; index++) {
        seen += histogram->buckets[index];
        if ((double)seen >= wanted && seen > 0) {
            unsigned shift = index < 2 * STEPS ? 0 : index / STEPS - 1;
            uint64_t edge_us = ((uint64_t)(index - shift * STEPS + 1) << shift) - 1;
            return smaller(edge_us, histogram->worst_us);
        }
    }
    return 0;
}

/* ---- the server's tasks in /proc: how often they slept, how long they ran ---- */

struct process {
    pid_t pid, parent;
    bool member;
};

struct task {
    pid_t tid, pid;
    uint64_t sleeps, cpu_ns;
};

struct task_sample {
    struct task *tasks;
    size_t count;
};

struct server_use {
    uint64_t sleeps, cpu_ns;
    size_t tasks;
};

/* Makes room for one more element; a driver without memory has nothing to report. */
static void *grown(void *array, size_t count, size_t element_bytes)
{
    if (count != 0 && (count & (count - 1)) != 0)
        return array; /* room doubles at each power of two */
    array = realloc(array, (count == 0 ? 1 : 2 * count) * element_bytes);
    if (array == NULL)
        die("out of memory");
    return array;
}

static bool __attribute__((format(printf, 3, 4))) read_proc(char *buffer, size_t bytes, const char *format, ...)
{
    char path[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* it died meanwhile */
    ssize_t got = read(fd, buffer, bytes - 1);
    close(fd);
    buffer[got > 0 ? got : 0] = '\0';
    return got > 0;
}

static struct process *list_processes(size_t *count)
{
    struct process *processes = NULL;
    DIR *proc = opendir("/proc");
    *count = 0;
    for (struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        char stat[512];
        int parent;
        int pid = atoi(entry->d_name);
        if (pid <= 0 || !read_proc(stat, sizeof stat, "/proc/%d/stat", pid))
            continue;
        const char *name_end = strrchr(stat, ')'); /* the name may hold anything, blanks and ')' too */
        if (name_end == NULL || sscanf(name_end + 1, " %*c %d", &parent) != 1)
            continue;
        processes = grown(processes, *count, sizeof *processes);
        processes[(*count)++] = (struct process){ .pid = pid, .parent = parent };
    }
    if (proc != NULL)
        closedir(proc);
    return processes;
}

static struct process *find_process(struct process *processes, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (processes[i].pid == pid)
            return &processes[i];
    return NULL;
}

static const struct task *find_task(const struct task_sample *sample, pid_t tid)
{
    for (size_t i = 0; i < sample->count; i++)
        if (sample->tasks[i].tid == tid)
            return &sample->tasks[i];
    return NULL;
}

/* Members: the server, its descendants, and who was one before: a killed master's workers have another parent now. */
static void mark_members(struct process *processes, size_t count, pid_t server, const struct task_sample *earlier)
{
    struct process *found = find_process(processes, count, server);
    if (found != NULL)
        found->member = true;
    for (size_t i = 0; earlier != NULL && i < earlier->count; i++)
        if ((found = find_process(processes, count, earlier->tasks[i].pid)) != NULL)
            found->member = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            if (processes[i].member)
                continue;
            found = find_process(processes, count, processes[i].parent);
            if (found != NULL && found->member)
                changed = processes[i].member = true;
        }
    }
}

static uint64_t task_cpu_ns(int pid, int tid)
{
    char text[512];
    unsigned long long run_ns, user, system;
    /* utime and stime are in ticks of 10 ms, too coarse for some hundred connections; schedstat has their exact sum. */
    if (read_proc(text, sizeof text, "/proc/%d/task/%d/schedstat", pid, tid) && sscanf(text, "%llu", &run_ns) == 1)
        return run_ns;
    if (!read_proc(text, sizeof text, "/proc/%d/task/%d/stat", pid, tid))
        return 0;
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL
        || sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
        return 0;
    return (user + system) * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void sample_process(struct task_sample *sample, pid_t pid)
{
    static const char key[] = "\nvoluntary_ctxt_switches:";
    char path[64], status[4096];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        int tid = atoi(entry->d_name);
        if (tid <= 0 || !read_proc(status, sizeof status, "/proc/%d/task/%d/status", (int)pid, tid))
            continue;
        const char *line = strstr(status, key);
        if (line == NULL)
            continue;
        sample->tasks = grown(sample->tasks, sample->count, sizeof *sample->tasks);
        sample->tasks[sample->count++] = (struct task){ .tid = tid, .pid = pid,
            .sleeps = strtoull(line + strlen(key), NULL, 10), .cpu_ns = task_cpu_ns(pid, tid) };
    }
    if (tasks != NULL)
        closedir(tasks);
}

static struct task_sample sample_server(pid_t server, const struct task_sample *earlier)
{
    struct task_sample sample = { .count = 0 };
    size_t count;
    struct process *processes = list_processes(&count);
    mark_members(processes, count, server, earlier);
    for (size_t i = 0; i < count; i++)
        if (processes[i].member)
            sample_process(&sample, processes[i].pid);
    free(processes);
    return sample;
}

/* A task that came in between counts from 0, one that went not at all; a smaller figure means its id was reused. */
static struct server_use used_between(const struct task_sample *before, const struct task_sample *after)
{
    struct server_use use = { .tasks = after->count };
    for (size_t i = 0; i < after->count; i++) {
        const struct task *now = &after->tasks[i], *then = find_task(before, now->tid);
        const bool same = then != NULL && then->sleeps <= now->sleeps && then->cpu_ns <= now->cpu_ns;
        use.sleeps += now->sleeps - (same ? then->sleeps : 0);
        use.cpu_ns += now->cpu_ns - (same ? then->cpu_ns : 0);
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
    int status, slot;
    uint64_t body_bytes, length_bytes; /* length: NEVER if the end of the stream is the end of the body */
};

static void reset_answer(struct answer *answer)
{
    answer->head_bytes = 0;
    answer->body_bytes = 0;
    answer->head_complete = false;
}

static uint64_t header_value(const char *head, const char *name, uint64_t without)
{
    const size_t name_bytes = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += strlen("\r\n");
        if (strncasecmp(line, name, name_bytes) != 0 || line[name_bytes] != ':')
            continue;
        const char *value = line + name_bytes + 1;
        value += strspn(value, " \t");
        return isdigit((unsigned char)*value) ? strtoull(value, NULL, 10) : without;
    }
    return without;
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
    if (sscanf(answer->head, "HTTP/1.%*1d %3d", &answer->status) != 1)
        return false;
    uint64_t slot = header_value(answer->head, "X-Herd-Slot", NEVER);
    answer->slot = slot < SLOTS_MAX ? (int)slot : SLOT_UNKNOWN;
    answer->length_bytes = header_value(answer->head, "Content-Length", NEVER);
    answer->body_bytes = answer->head_bytes - (size_t)(end + 4 - answer->head);
    answer->head_complete = true;
    return true;
}

/* ---- results ---- */

/* Indices of results.failures; behind the kinds that have a name of their own comes FAILURE_OTHER + errno. */
enum { CONNECT_REFUSED, RESET, TIMED_OUT, SHORT_ANSWER, BAD_STATUS, BAD_ANSWER, CLOSED_WHILE_HELD, FAILURE_OTHER };
enum { ERRNO_END = 160, FAILURES_END = FAILURE_OTHER + ERRNO_END };

static const char *failure_name(size_t failure)
{
    static const char *const names[FAILURE_OTHER] = { "connect_refused", "reset", "timeout", "short_answer",
                                                      "bad_status", "bad_answer", "closed_while_held" };
    static char other[32];
    if (failure < FAILURE_OTHER)
        return names[failure];
    const char *errno_name = strerrorname_np((int)failure - FAILURE_OTHER);
    snprintf(other, sizeof other, "other_%s", errno_name != NULL ? errno_name : "unknown");
    return other;
}

enum stop { STOP_DONE, STOP_INTERRUPTED, STOP_GAVE_UP };
static const char *const stop_names[] = { "done", "interrupted", "gave_up" };

struct results {
    enum stop stop;
    uint64_t completed, failed, requests, slow, abandoned;
    uint64_t backlog_full, ports_exhausted, without_slot; /* retries and oddities, no failures */
    uint64_t failures[FAILURES_END];
    uint64_t slots[SLOTS_MAX];
    uint64_t elapsed_us, opened_us; /* opened: hold, until all were open */
    uint64_t worst_start_delay_us;  /* rate: how late the driver itself was */
    struct histogram latency, first_byte, held_latency;
};

/* ---- the run ---- */

struct list {
    TAILQ_HEAD(, connection) head;
    size_t count;
};

struct connection { /* always in exactly one list of the run */
    TAILQ_ENTRY(connection) link;
    struct list *list;
    int fd; /* -1: waits for another try to connect */
    const struct request *request;
    size_t sent_bytes;
    bool waits_for_out, answered_before;
    uint64_t latency_from_us, connect_us, retry_us, deadline_us;
    struct answer answer;
};

/* So many starts, one every interval; the n-th is due at a time that no answer can move. */
struct schedule {
    uint64_t begin_us, total, started, stop_us;
    double interval_us;
};

struct run {
    const struct options *options;
    const struct target *target;
    struct request request, slow_request;
    int epoll_fd, timer_fd, signal_fd;
    struct connection *connections;
    size_t in_flight_max;
    struct list free, in_flight, retry, held;
    struct schedule connects, held_requests;
    bool holding; /* hold: all are open */
    uint64_t timer_us, next_sweep_us, paused_until_us, failures_in_a_row;
    unsigned next_source;
    struct results *results;
};

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
    TAILQ_INSERT_TAIL(&list->head, connection, link);
    list->count++;
    connection->list = list;
}

/* To the front of the free list: the next connection finds its memory in the cache. Close also ends the interest
 * of epoll, as nobody else has the file; so an event can never meet another connection in the same place. */
static void release(struct run *run, struct connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    move_to(&run->free, connection);
    TAILQ_REMOVE(&run->free.head, connection, link);
    TAILQ_INSERT_HEAD(&run->free.head, connection, link);
}

static void fail(struct run *run, struct connection *connection, size_t kind)
{
    run->results->failed++;
    run->results->failures[kind]++;
    run->failures_in_a_row++;
    run->paused_until_us = now_us() + FAILURE_PAUSE_US;
    release(run, connection);
}

static void fail_errno(struct run *run, struct connection *connection, int error)
{
    size_t kind = FAILURE_OTHER + (error < ERRNO_END ? (size_t)error : 0);
    if (error == ECONNREFUSED)
        kind = CONNECT_REFUSED;
    if (error == ECONNRESET || error == EPIPE)
        kind = RESET;
    if (error == ETIMEDOUT)
        kind = TIMED_OUT;
    fail(run, connection, kind);
}

static bool record_answer(struct run *run, struct connection *connection)
{
    struct results *results = run->results;
    if (connection->answer.status != 200) {
        fail(run, connection, BAD_STATUS);
        return false;
    }
    results->requests++;
    run->failures_in_a_row = 0;
    if (connection->request == &run->slow_request)
        results->slow++;
    else
        record(run->holding ? &results->held_latency : &results->latency, now_us() - connection->latency_from_us);
    return true;
}

static void complete(struct run *run, struct connection *connection)
{
    run->results->completed++;
    if (connection->answer.slot == SLOT_UNKNOWN)
        run->results->without_slot++;
    else
        run->results->slots[connection->answer.slot]++;
    release(run, connection);
}

static void watch(struct run *run, struct connection *connection, int operation)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = connection };
    if (connection->waits_for_out)
        event.events |= EPOLLOUT;
    if (epoll_ctl(run->epoll_fd, operation, connection->fd, &event) != 0)
        fail_errno(run, connection, errno);
}

/* Returns 0, or an errno: EAGAIN while the connect is in progress, and the connect's own error once it failed. */
static int send_request(struct connection *connection)
{
    const struct request *request = connection->request;
    while (connection->sent_bytes < request->bytes) {
        ssize_t sent = send(connection->fd, request->text + connection->sent_bytes,
                            request->bytes - connection->sent_bytes, MSG_NOSIGNAL);
        if (sent >= 0)
            connection->sent_bytes += (size_t)sent;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

static void begin_request(struct run *run, struct connection *connection, int epoll_operation)
{
    /* On loopback the handshake is over when connect returns, so this saves a wait and EPOLLOUT for most. */
    int error = send_request(connection);
    if (error != 0 && error != EAGAIN) {
        fail_errno(run, connection, error);
        return;
    }
    const bool watched_right = epoll_operation == EPOLL_CTL_MOD && connection->waits_for_out == (error == EAGAIN);
    connection->waits_for_out = error == EAGAIN;
    if (!watched_right)
        watch(run, connection, epoll_operation);
}

static void try_connect(struct run *run, struct connection *connection)
{
    connection->connect_us = now_us();
    int fd = connection->connect_us < connection->deadline_us ? open_connection(run->target, run->next_source++)
                                                              : -ETIMEDOUT;
    if (fd >= 0) {
        connection->fd = fd;
        move_to(&run->in_flight, connection);
        begin_request(run, connection, EPOLL_CTL_ADD);
    } else if (connect_may_work_later(-fd)) {
        (*(fd == -EAGAIN ? &run->results->backlog_full : &run->results->ports_exhausted))++;
        connection->retry_us = connection->connect_us + RETRY_DELAY_US;
        move_to(&run->retry, connection);
    } else {
        fail_errno(run, connection, -fd);
    }
}

static void start_connection(struct run *run)
{
    const struct options *options = run->options;
    struct connection *connection = TAILQ_FIRST(&run->free.head);
    uint64_t from_us = now_us();
    if (options->mode == MODE_RATE) { /* from when it was due: a slow server must not make its own figures better */
        const uint64_t scheduled_us = due_us(&run->connects);
        run->results->worst_start_delay_us = larger(run->results->worst_start_delay_us, from_us - scheduled_us);
        from_us = scheduled_us;
    }
    run->connects.started++;
    const bool slow = options->slow_every != 0 && run->connects.started % options->slow_every == 0;
    connection->request = slow ? &run->slow_request : &run->request;
    connection->sent_bytes = 0;
    connection->waits_for_out = connection->answered_before = false;
    connection->latency_from_us = from_us;
    connection->deadline_us = from_us + options->timeout_ms * US_PER_MS;
    reset_answer(&connection->answer);
    try_connect(run, connection);
}

static void start_held_request(struct run *run)
{
    struct connection *connection = TAILQ_FIRST(&run->held.head); /* the one that was idle longest */
    connection->latency_from_us = due_us(&run->held_requests);
    connection->deadline_us = now_us() + run->options->timeout_ms * US_PER_MS;
    run->held_requests.started++;
    connection->sent_bytes = 0;
    reset_answer(&connection->answer);
    move_to(&run->in_flight, connection);
    begin_request(run, connection, EPOLL_CTL_MOD);
}

/* The peer has closed. */
static void on_end_of_stream(struct run *run, struct connection *connection)
{
    const struct answer *answer = &connection->answer;
    if (connection->list == &run->held)
        fail(run, connection, CLOSED_WHILE_HELD);
    else if (!answer->head_complete || (answer->length_bytes != NEVER && answer->body_bytes < answer->length_bytes)
             || connection->request->keep_alive)
        fail(run, connection, SHORT_ANSWER);
    else if (record_answer(run, connection))
        complete(run, connection);
}

/* Returns false if the connection is not to be read any more: failed, or has all of a keep-alive answer. */
static bool take_bytes(struct run *run, struct connection *connection, size_t bytes)
{
    struct answer *answer = &connection->answer;
    if (answer->head_complete)
        answer->body_bytes += bytes;
    else {
        if (answer->head_bytes == 0 && !connection->answered_before && connection->request != &run->slow_request)
            record(&run->results->first_byte, now_us() - connection->connect_us);
        connection->answered_before = true;
        if (!take_head_bytes(answer, bytes)) {
            fail(run, connection, BAD_ANSWER);
            return false;
        }
        if (!answer->head_complete)
            return true;
    }
    if (connection->list == &run->held || answer->body_bytes > answer->length_bytes
        || (connection->request->keep_alive && answer->length_bytes == NEVER)) {
        fail(run, connection, BAD_ANSWER);
        return false;
    }
    if (!connection->request->keep_alive || answer->body_bytes < answer->length_bytes)
        return true;
    if (record_answer(run, connection))
        move_to(&run->held, connection);
    return false;
}

static void on_readable(struct run *run, struct connection *connection, bool peer_closed)
{
    static char scratch[BODY_SCRATCH_BYTES]; /* bodies are counted, not kept */
    for (int reads = 0; reads < READS_PER_EVENT; reads++) {
        struct answer *answer = &connection->answer;
        char *into = answer->head_complete ? scratch : answer->head + answer->head_bytes;
        size_t room = answer->head_complete ? sizeof scratch : HEAD_MAX_BYTES - answer->head_bytes;
        ssize_t got = recv(connection->fd, into, room, 0);
        if (got > 0) {
            /* Level-triggered: after a short read only the end of the stream is worth another call. */
            if (!take_bytes(run, connection, (size_t)got) || ((size_t)got < room && !peer_closed))
                return;
        } else if (got == 0) {
            on_end_of_stream(run, connection);
            return;
        } else if (errno != EINTR) {
            if (errno != EAGAIN)
                fail_errno(run, connection, errno);
            return;
        }
    }
}

static void on_event(struct run *run, struct connection *connection, uint32_t events)
{
    if (connection->sent_bytes < connection->request->bytes) {
        begin_request(run, connection, EPOLL_CTL_MOD);
        if (connection->fd < 0 || connection->waits_for_out)
            return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        on_readable(run, connection, (events & (EPOLLRDHUP | EPOLLHUP)) != 0);
}

static void fail_overdue(struct run *run, struct list *list, uint64_t now)
{
    struct connection *next;
    for (struct connection *at = TAILQ_FIRST(&list->head); at != NULL; at = next) {
        next = TAILQ_NEXT(at, link);
        if (now >= at->deadline_us)
            fail(run, at, TIMED_OUT);
    }
}

/* When the next connect may start, or NEVER if only an answer can allow one. */
static uint64_t next_connect_us(const struct run *run, uint64_t now)
{
    if (is_over(&run->connects, now) || run->free.count == 0
        || run->in_flight.count + run->retry.count >= run->in_flight_max)
        return NEVER;
    uint64_t due = due_us(&run->connects);
    return run->options->mode == MODE_RATE ? due : larger(due, run->paused_until_us);
}

static uint64_t next_held_request_us(const struct run *run, uint64_t now)
{
    bool none = !run->holding || is_over(&run->held_requests, now) || run->held.count == 0;
    return none ? NEVER : due_us(&run->held_requests);
}

static uint64_t next_retry_us(const struct run *run)
{
    return run->retry.count == 0 ? NEVER : TAILQ_FIRST(&run->retry.head)->retry_us;
}

static void do_what_is_due(struct run *run)
{
    uint64_t now = now_us();
    for (; next_connect_us(run, now) <= now; now = now_us())
        start_connection(run);
    for (size_t tries = run->retry.count; tries > 0 && next_retry_us(run) <= now; tries--)
        try_connect(run, TAILQ_FIRST(&run->retry.head));
    for (; next_held_request_us(run, now) <= now; now = now_us())
        start_held_request(run);
    if (now >= run->next_sweep_us) {
        fail_overdue(run, &run->in_flight, now);
        fail_overdue(run, &run->retry, now);
        run->next_sweep_us = now + SWEEP_INTERVAL_US;
    }
    const struct options *options = run->options;
    if (options->mode != MODE_RATE && run->failures_in_a_row > options->clients + FAILURES_TO_GIVE_UP)
        run->results->stop = STOP_GAVE_UP;
}

/* True when nothing is left to do; also takes hold from opening to staying open. */
static bool is_finished(struct run *run)
{
    uint64_t now = now_us();
    if (run->results->stop != STOP_DONE)
        return true;
    if (!is_over(&run->connects, now) || run->in_flight.count + run->retry.count > 0)
        return false;
    if (run->options->mode != MODE_HOLD)
        return true;
    if (!run->holding) {
        const double rate = run->options->rate, seconds = run->options->seconds;
        run->holding = true;
        run->results->opened_us = now - run->connects.begin_us;
        run->held_requests = (struct schedule){ .begin_us = now, .interval_us = rate > 0 ? US_PER_S / rate : 0,
            .total = (uint64_t)(rate * seconds + 0.5), .stop_us = now + (uint64_t)(seconds * US_PER_S) };
    }
    return run->held.count == 0 || now >= run->held_requests.stop_us;
}

/* A timerfd, since epoll_wait's own timeout is in ms: a schedule kept to 1 ms would measure itself. */
static void set_timer(struct run *run)
{
    uint64_t now = now_us();
    uint64_t wake = smaller(next_connect_us(run, now), smaller(next_held_request_us(run, now), next_retry_us(run)));
    if (run->in_flight.count + run->retry.count > 0)
        wake = smaller(wake, run->next_sweep_us);
    if (run->holding && now < run->held_requests.stop_us) /* once it has passed, only the last answers count */
        wake = smaller(wake, run->held_requests.stop_us);
    if (wake >= run->timer_us)
        return; /* an earlier one is set; waking once too often is cheaper than setting it each turn */
    wake = larger(wake, 1); /* 0 would switch it off */
    struct itimerspec when = { .it_value = { (time_t)(wake / US_PER_S), (long)(wake % US_PER_S) * 1000 } };
    timerfd_settime(run->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    run->timer_us = wake;
}

static void wait_for_events(struct run *run)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    int count = epoll_wait(run->epoll_fd, events, EVENTS_PER_WAIT, LONGEST_WAIT_MS);
    for (int i = 0; i < count; i++) {
        uint64_t expirations;
        if (events[i].data.ptr == &run->timer_fd) {
            if (read(run->timer_fd, &expirations, sizeof expirations) > 0)
                run->timer_us = NEVER;
        } else if (events[i].data.ptr == &run->signal_fd) {
            run->results->stop = STOP_INTERRUPTED;
        } else {
            on_event(run, events[i].data.ptr, events[i].events);
        }
    }
}

static void watch_own(struct run *run, int *fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = fd };
    if (*fd < 0 || epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, *fd, &event) != 0)
        die("epoll, timerfd or signalfd: %s", strerror(errno));
}

static size_t raise_fd_limit(size_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        die("getrlimit: %s", strerror(errno));
    if (limit.rlim_cur < wanted) {
        const struct rlimit higher = { wanted, larger(wanted, limit.rlim_max) }; /* root may, up to fs.nr_open */
        const struct rlimit highest = { limit.rlim_max, limit.rlim_max };
        if (setrlimit(RLIMIT_NOFILE, &higher) != 0)
            setrlimit(RLIMIT_NOFILE, &highest);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return (size_t)limit.rlim_cur;
}

/* Connections that may exist at one time. */
static size_t table_size(const struct options *options)
{
    size_t wanted = (size_t)options->clients;
    if (options->mode == MODE_HOLD)
        wanted = (size_t)options->count;
    if (options->mode == MODE_RATE) {
        double in_flight = options->rate * (double)options->timeout_ms / US_PER_MS + IN_FLIGHT_MARGIN;
        wanted = (size_t)smaller(options->count != 0 ? options->count : NEVER, (uint64_t)in_flight);
    }
    size_t limit = raise_fd_limit(wanted + RESERVED_FDS);
    if (limit >= wanted + RESERVED_FDS)
        return wanted;
    if (options->mode != MODE_RATE || limit <= RESERVED_FDS) /* rate: the next one waits, and its latency counts on */
        die("%zu connections need %zu open files, the limit is %zu: raise it with ulimit -n", wanted,
            wanted + RESERVED_FDS, limit);
    return limit - RESERVED_FDS;
}

static void prepare_run(struct run *run, const sigset_t *stop_signals)
{
    const struct options *options = run->options;
    const bool rate = options->mode == MODE_RATE, hold = options->mode == MODE_HOLD;
    char slow_path[PATH_MAX_BYTES];
    snprintf(slow_path, sizeof slow_path, "/slow?ms=%" PRIu64, options->slow_ms);
    run->request = make_request(options->path, hold);
    run->slow_request = make_request(slow_path, false);
    run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    run->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    run->signal_fd = signalfd(-1, stop_signals, SFD_NONBLOCK | SFD_CLOEXEC);
    run->timer_us = NEVER;
    watch_own(run, &run->timer_fd);
    watch_own(run, &run->signal_fd);
    size_t connections = table_size(options);
    run->in_flight_max = rate ? connections : (size_t)options->clients;
    run->connections = calloc(connections, sizeof *run->connections);
    if (run->connections == NULL)
        die("no memory for %zu connections", connections);
    TAILQ_INIT(&run->free.head);
    TAILQ_INIT(&run->in_flight.head);
    TAILQ_INIT(&run->retry.head);
    TAILQ_INIT(&run->held.head);
    for (size_t i = 0; i < connections; i++) {
        run->connections[i].fd = -1;
        move_to(&run->free, &run->connections[i]);
    }
    run->connects = (struct schedule){ .total = options->count != 0 ? options->count : NEVER,
        .interval_us = rate ? US_PER_S / options->rate : (double)options->gap_us };
}

static void perform_run(struct run *run)
{
    const struct options *options = run->options;
    run->connects.begin_us = now_us();
    run->connects.stop_us = NEVER;
    if (options->mode == MODE_SHORT && options->seconds > 0)
        run->connects.stop_us = run->connects.begin_us + (uint64_t)(options->seconds * US_PER_S);
    while (!is_finished(run)) {
        do_what_is_due(run);
        set_timer(run);
        wait_for_events(run);
    }
    run->results->elapsed_us = now_us() - run->connects.begin_us;
    run->results->abandoned = run->in_flight.count + run->retry.count;
}

static void close_all(struct run *run)
{
    while (run->held.count > 0)
        complete(run, TAILQ_FIRST(&run->held.head));
    while (run->in_flight.count > 0)
        release(run, TAILQ_FIRST(&run->in_flight.head));
    close(run->signal_fd);
    close(run->timer_fd);
    close(run->epoll_fd);
}

/* ---- the server's counters ---- */

struct counter {
    char name[COUNTER_NAME_BYTES];
    int64_t value;
};

struct counters {
    size_t count;
    struct counter list[COUNTERS_MAX];
};

/* Returns 0 or an errno. */
static int wait_until(int fd, short events, uint64_t deadline_us)
{
    struct pollfd waited = { .fd = fd, .events = events };
    uint64_t now = now_us();
    if (now >= deadline_us)
        return ETIMEDOUT;
    int ready = poll(&waited, 1, (int)((deadline_us - now) / US_PER_MS + 1));
    return ready < 0 && errno != EINTR ? errno : 0;
}

/* One GET on a connection of its own, outside the measured part; fills a string, returns 0 or an errno. */
static int fetch(const struct target *target, const char *path, char *text, size_t text_bytes, uint64_t deadline_us)
{
    const struct request request = make_request(path, false);
    struct connection connection = { .request = &request };
    int error = 0;
    while ((connection.fd = open_connection(target, 0)) < 0) {
        if (!connect_may_work_later(-connection.fd) || now_us() >= deadline_us)
            return -connection.fd;
        sleep_us(RETRY_DELAY_US);
    }
    while (error == 0 && (error = send_request(&connection)) == EAGAIN)
        error = wait_until(connection.fd, POLLOUT, deadline_us);
    for (size_t bytes = 0; error == 0;) {
        ssize_t got = recv(connection.fd, text + bytes, text_bytes - 1 - bytes, 0);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            error = errno;
        else if (got < 0)
            error = wait_until(connection.fd, POLLIN, deadline_us);
        else {
            bytes += (size_t)got;
            text[bytes] = '\0';
            if (got == 0) /* the end, or no room left */
                break;
        }
    }
    close(connection.fd);
    return error;
}

static bool fetch_counters(const struct run *run, struct counters *counters)
{
    static char text[BODY_SCRATCH_BYTES];
    text[0] = '\0';
    counters->count = 0;
    int error = fetch(run->target, "/counters", text, sizeof text, now_us() + run->options->timeout_ms * US_PER_MS);
    const char *line = strstr(text, "\r\n\r\n");
    if (error != 0 || line == NULL || strncmp(text + strlen("HTTP/1.1"), " 200", 4) != 0) {
        fprintf(stderr, "load: GET /counters: %s\n", error != 0 ? strerror(error) : "no answer with status 200");
        return false;
    }
    for (line += strspn(line, "\r\n"); line != NULL && counters->count < COUNTERS_MAX; line = strchr(line, '\n')) {
        struct counter *counter = &counters->list[counters->count];
        line += strspn(line, "\n");
        /* Names go into our JSON as they are, so nothing that would need quoting; 63 is COUNTER_NAME_BYTES - 1. */
        if (sscanf(line, "%63[A-Za-z0-9_.] %" SCNd64, counter->name, &counter->value) == 2)
            counters->count++;
    }
    return true;
}

static void subtract_counters(struct counters *after, const struct counters *before)
{
    for (size_t i = 0; i < after->count; i++)
        for (size_t j = 0; j < before->count; j++)
            if (strcmp(after->list[i].name, before->list[j].name) == 0) {
                after->list[i].value -= before->list[j].value;
                break;
            }
}

/* ---- the report ---- */

struct report {
    const struct options *options;
    const struct results *results;
    const struct server_use *server;  /* NULL: not asked for */
    const struct counters *counters; /* differences; NULL: not asked for, or not to be had */
    uint64_t slot_end;               /* slots from here on are not counted */
    double jain, max_min_ratio, connections_per_second; /* -1: undefined */
};

/* A slot that was seen, or that --slots says exists. */
static bool is_counted(const struct report *report, uint64_t slot)
{
    return report->results->slots[slot] > 0 || slot < report->options->slots;
}

/* Jain's fairness index: 1 if all have the same, 1/n if one has all. */
static void judge_slots(struct report *report)
{
    double sum = 0, squares = 0, members = 0, most = 0, least = -1;
    for (uint64_t slot = 0; slot < SLOTS_MAX; slot++) {
        if (!is_counted(report, slot))
            continue;
        const double share = (double)report->results->slots[slot];
        report->slot_end = slot + 1;
        members++;
        sum += share;
        squares += share * share;
        most = share > most ? share : most;
        least = least < 0 || share < least ? share : least;
    }
    report->jain = squares > 0 ? sum * sum / (members * squares) : -1;
    report->max_min_ratio = least > 0 ? most / least : -1;
}

static double per_connection(const struct report *report, double total)
{
    return report->results->completed > 0 && total >= 0 ? total / (double)report->results->completed : -1;
}

static double counter_per_connection(const struct report *report, const char *name)
{
    for (size_t i = 0; report->counters != NULL && i < report->counters->count; i++)
        if (strcmp(report->counters->list[i].name, name) == 0)
            return per_connection(report, (double)report->counters->list[i].value);
    return -1;
}

static const struct quantile {
    const char *name;
    double share;
} quantiles[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 }, { "worst", 1 } };

static void json_integer(const char *key, uint64_t value) { printf("  \"%s\": %" PRIu64 ",\n", key, value); }

static void json_decimal(const char *key, double value)
{
    if (value < 0)
        printf("  \"%s\": null,\n", key);
    else
        printf("  \"%s\": %.6g,\n", key, value);
}

static void json_histogram(const char *name, const struct histogram *histogram)
{
    for (size_t i = 0; i < COUNT_OF(quantiles); i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s_us", name, quantiles[i].name);
        char *dot = strchr(key, '.'); /* p99.9 is p999 in a key */
        if (dot != NULL)
            memmove(dot, dot + 1, strlen(dot));
        if (histogram->count > 0)
            json_integer(key, percentile_us(histogram, quantiles[i].share));
        else
            json_decimal(key, -1);
    }
}

/* An entry of an inner object; they stay on one line, so that a line at this depth is always a flat key. */
static void json_entry(bool *first, const char *name, int64_t value)
{
    printf("%s\"%s\": %" PRId64, *first ? "" : ", ", name, value);
    *first = false;
}

static void report_json(const struct report *report)
{
    const struct options *options = report->options;
    const struct results *results = report->results;
    printf("{\n  \"mode\": \"%s\",\n  \"stopped\": \"%s\",\n", mode_names[options->mode], stop_names[results->stop]);
    json_integer("connections", results->completed);
    json_integer("failed", results->failed);
    json_integer("abandoned", results->abandoned);
    json_decimal("seconds", (double)results->elapsed_us / US_PER_S);
    json_decimal("connections_per_second", report->connections_per_second);
    json_integer("requests", results->requests);
    json_integer("slow_count", results->slow);
    json_integer("backlog_full", results->backlog_full);
    json_integer("ports_exhausted", results->ports_exhausted);
    json_integer("without_slot", results->without_slot);
    json_integer("worst_start_delay_us", results->worst_start_delay_us);
    json_histogram("latency", &results->latency);
    json_histogram("first_byte", &results->first_byte);
    json_histogram("held_latency", &results->held_latency);
    json_decimal("jain", report->jain);
    json_decimal("max_min_ratio", report->max_min_ratio);
    const struct server_use *server = report->server;
    json_integer("server_tasks", server != NULL ? server->tasks : 0);
    const double sleeps = server != NULL ? (double)server->sleeps : -1;
    const double cpu_us = server != NULL ? (double)server->cpu_ns / 1000 : -1;
    json_decimal("sleeps_per_connection", per_connection(report, sleeps));
    json_decimal("server_cpu_us_per_connection", per_connection(report, cpu_us));
    json_decimal("wakeups_per_connection", counter_per_connection(report, "wakeups"));
    json_decimal("wasted_wakeups_per_connection", counter_per_connection(report, "wasted_wakeups"));
    bool first = true;
    fputs("  \"slots\": {", stdout);
    for (uint64_t slot = 0; slot < report->slot_end; slot++) {
        char name[16];
        snprintf(name, sizeof name, "%d", (int)slot);
        if (is_counted(report, slot))
            json_entry(&first, name, (int64_t)results->slots[slot]);
    }
    fputs("},\n  \"errors\": {", stdout);
    first = true;
    for (size_t i = 0; i < FAILURES_END; i++)
        if (results->failures[i] > 0)
            json_entry(&first, failure_name(i), (int64_t)results->failures[i]);
    fputs("},\n  \"counters\": {", stdout);
    first = true;
    for (size_t i = 0; report->counters != NULL && i < report->counters->count; i++)
        json_entry(&first, report->counters->list[i].name, report->counters->list[i].value);
    puts("}\n}");
}

static void text_histogram(const char *name, const struct histogram *histogram)
{
    if (histogram->count == 0)
        return;
    printf("%-12s", name);
    for (size_t i = 0; i < COUNT_OF(quantiles); i++)
        printf(" %9" PRIu64, percentile_us(histogram, quantiles[i].share));
    puts(" us");
}

static void text_slots(const struct report *report)
{
    static const char full_bar[BAR_WIDTH + 1] = "########################################";
    const uint64_t *slots = report->results->slots;
    uint64_t most = 1;
    for (uint64_t slot = 0; slot < report->slot_end; slot++)
        most = larger(most, slots[slot]);
    for (uint64_t slot = 0; slot < report->slot_end; slot++)
        if (is_counted(report, slot)) {
            int bar = (int)((slots[slot] * BAR_WIDTH + most - 1) / most);
            printf("  slot %-5" PRIu64 " %9" PRIu64 "  %.*s\n", slot, slots[slot], bar, full_bar);
        }
    if (report->jain >= 0)
        printf("%-12s %9.4f  (1 is even)\n", "Jain's index", report->jain);
    if (report->max_min_ratio >= 0)
        printf("%-12s %9.2f\n", "max/min", report->max_min_ratio);
}

static void report_text(const struct report *report)
{
    const struct results *results = report->results;
    printf("%s, %s: %s\n", mode_names[report->options->mode], report->options->address, stop_names[results->stop]);
    printf("%-12s %9" PRIu64 "  completed in %.2f s, %.0f a second\n", "connections", results->completed,
           (double)results->elapsed_us / US_PER_S, report->connections_per_second);
    printf("%-12s %9" PRIu64 "\n", "failed", results->failed);
    for (size_t i = 0; i < FAILURES_END; i++)
        if (results->failures[i] > 0) {
            printf("  %-20s %" PRIu64 "\n", failure_name(i), results->failures[i]);
        }
    printf("%-12s %9" PRIu64 "  of them slow: %" PRIu64 "\n", "requests", results->requests, results->slow);
    if (results->abandoned + results->backlog_full + results->ports_exhausted + results->without_slot > 0)
        printf("%-12s           backlog full %" PRIu64 ", no local port %" PRIu64 ", answers without slot %" PRIu64
               ", abandoned %" PRIu64 "\n", "notes", results->backlog_full, results->ports_exhausted,
               results->without_slot, results->abandoned);
    printf("%-12s", "");
    for (size_t i = 0; i < COUNT_OF(quantiles); i++)
        printf(" %9s", quantiles[i].name);
    putchar('\n');
    text_histogram("latency", &results->latency);
    text_histogram("first byte", &results->first_byte);
    text_histogram("while held", &results->held_latency);
    if (report->options->mode == MODE_RATE)
        printf("%-12s %9" PRIu64 " us at worst, by load itself\n", "late starts", results->worst_start_delay_us);
    text_slots(report);
    if (report->server != NULL && results->completed > 0)
        printf("%-12s %9.2f  a connection, and %.1f us of CPU (%zu tasks)\n", "sleeps",
               per_connection(report, (double)report->server->sleeps),
               per_connection(report, (double)report->server->cpu_ns / 1000), report->server->tasks);
    for (size_t i = 0; report->counters != NULL && i < report->counters->count; i++)
        printf("  %-28s %12" PRId64 " %12.3f a connection\n", report->counters->list[i].name,
               report->counters->list[i].value,
               (double)report->counters->list[i].value / (double)larger(1, results->completed));
}

/* ---- all together ---- */

int main(int argc, char **argv)
{
    const struct options options = parse_options(argc, argv);
    const struct target target = parse_address(options.address);
    static struct results results;
    static struct counters before, after;
    struct run run = { .options = &options, .target = &target, .results = &results };
    struct report report = { .options = &options, .results = &results };
    struct server_use server_use;

    sigset_t stop_signals;
    sigemptyset(&stop_signals);
    sigaddset(&stop_signals, SIGINT);
    sigaddset(&stop_signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop_signals, NULL);
    prepare_run(&run, &stop_signals);

    bool have_counters = options.counters && fetch_counters(&run, &before);
    struct task_sample tasks_before = { .count = 0 };
    if (options.server_pid != 0) {
        sleep_us(SETTLE_MS * US_PER_MS);
        tasks_before = sample_server((pid_t)options.server_pid, NULL);
        if (tasks_before.count == 0)
            die("--server-pid %" PRIu64 ": no such process", options.server_pid);
    }
    perform_run(&run);
    if (options.server_pid != 0) {
        sleep_us(SETTLE_MS * US_PER_MS);
        struct task_sample tasks_after = sample_server((pid_t)options.server_pid, &tasks_before);
        server_use = used_between(&tasks_before, &tasks_after);
        report.server = &server_use;
        free(tasks_after.tasks);
        free(tasks_before.tasks);
    }
    if (have_counters && (have_counters = fetch_counters(&run, &after))) {
        subtract_counters(&after, &before);
        report.counters = &after;
    }
    close_all(&run);
    free(run.connections);

    const uint64_t opening_us = options.mode == MODE_HOLD && run.holding ? results.opened_us : results.elapsed_us;
    report.connections_per_second = opening_us > 0 ? (double)results.completed * US_PER_S / (double)opening_us : -1;
    judge_slots(&report);
    if (options.json)
        report_json(&report);
    else
        report_text(&report);
    return results.failed > 0 || (options.counters && !have_counters) ? EXIT_ANY_FAILED : EXIT_SUCCESS;
}
