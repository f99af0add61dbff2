/*
 * hello_prefork: a small HTTP/1.1 server whose workers, processes or threads, share their listeners by libherd.
 *
 * In order: the state, connections, a worker, the parent of processes, threads, options and main.
 * A server of your own keeps these, and puts its protocol in place of exchange.h.
 */
#include "exchange.h"
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    LISTENERS_MAX = 1024, RESTART_MS = 100, TICK_MS = 10, DRAIN_MAX_S = 30, STOP_MAX_S = 1, EXIT_USAGE = 2
};

static struct worker {
    struct herd_worker *herd_worker;
    LIST_HEAD(, connection) connections;
    pid_t pid; /* parent: 0 if there is none now */
    pthread_t thread;
    uint64_t start_at_ms;
} workers[HERD_MAX_WORKERS]; /* by slot */
static uint32_t worker_count;

static void die(int code, const char *what, const char *why)
{
    fprintf(stderr, "hello_prefork: %s: %s\n", what, why);
    exit(code);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- connections ---- */

struct connection {
    struct herd_event event; /* within, so that a connection is one allocation */
    LIST_ENTRY(connection) link; /* in the list of its worker */
    struct exchange exchange;
};

static void close_connection(struct herd_worker *herd_worker, struct connection *connection)
{
    int fd = connection->event.fd;
    herd_event_del(herd_worker, &connection->event); /* before close, which does not do it */
    close(fd);
    herd_conn_closed(herd_worker);
    LIST_REMOVE(connection, link);
    end_exchange(&connection->exchange);
    free(connection);
}

static void on_ready(struct herd_worker *herd_worker, struct herd_event *event, uint32_t ready)
{
    struct connection *connection = event->data;
    const enum next next = serve(&connection->exchange, event->fd, (ready & HERD_READ) != 0);
    const uint32_t interest = next == NEXT_WRITE ? HERD_WRITE : HERD_READ;
    if (next == NEXT_CLOSE || (event->interest != interest && herd_event_mod(herd_worker, event, interest) < 0))
        close_connection(herd_worker, connection);
}

static void on_accept(struct herd_worker *herd_worker, int fd, const struct sockaddr *peer, uint32_t peer_length,
                      void *data)
{
    struct connection *connection = malloc(sizeof *connection);
    (void)peer, (void)peer_length, (void)data;
    if (connection != NULL) {
        herd_event_init(&connection->event, on_ready, connection);
        if (herd_event_add(herd_worker, &connection->event, fd, HERD_READ) == 0) {
            begin_exchange(&connection->exchange, herd_worker);
            LIST_INSERT_HEAD(&workers[herd_worker_slot(herd_worker)].connections, connection, link);
            return;
        }
    }
    free(connection);
    close(fd);
    herd_conn_closed(herd_worker);
}

/* ---- a worker ---- */

/* Answers what has arrived on connections that wait for a request, and closes those where nothing has. */
static void leave_idle(struct worker *worker)
{
    for (struct connection *at = LIST_FIRST(&worker->connections), *next; at != NULL; at = next) {
        next = LIST_NEXT(at, link);
        if (at->event.interest == HERD_READ)
            on_ready(worker->herd_worker, &at->event, HERD_READ);
    }
}

static int run_worker(struct worker *worker)
{
    int state, result = 0;
    bool left_idle = false;
    while ((state = herd_worker_state(worker->herd_worker)) < HERD_WORKER_DRAINED && result > HERD_EFORKED) {
        if (state == HERD_WORKER_DRAINING && !left_idle) {
            left_idle = true;
            leave_idle(worker);
            continue;
        }
        result = herd_run_once(worker->herd_worker, -1); /* an errno: a listener failed, and the log has it */
    }
    while (!LIST_EMPTY(&worker->connections))
        close_connection(worker->herd_worker, LIST_FIRST(&worker->connections));
    herd_worker_destroy(worker->herd_worker);
    if (result <= HERD_EFORKED)
        fprintf(stderr, "hello_prefork: slot %d: %s\n", (int)(worker - workers), herd_strerror(result));
    return result <= HERD_EFORKED ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void create_worker(struct worker *worker)
{
    int result = herd_worker_create(herd, (int)(worker - workers), &worker->herd_worker);
    if (result < 0)
        die(EXIT_FAILURE, "worker", herd_strerror(result));
}

static void print_ready(void);

/* ---- the parent of processes ---- */

static struct herd_worker *volatile signalled; /* the worker of this process */

static void on_signal(int number) /* both calls may be made in a signal handler */
{
    number == SIGTERM ? herd_drain(signalled) : herd_stop(signalled);
}

static void start_process(struct worker *worker, const sigset_t *signals)
{
    worker->start_at_ms = now_ms() + RESTART_MS; /* the next one, if this one dies at once */
    pid_t pid = fork();
    if (pid != 0) {
        worker->pid = pid > 0 ? pid : 0;
        if (pid < 0)
            fprintf(stderr, "hello_prefork: fork: %s\n", strerror(errno));
        return;
    }
    create_worker(worker);
    signalled = worker->herd_worker;
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    sigprocmask(SIG_UNBLOCK, signals, NULL); /* a signal that came meanwhile is delivered now */
    _exit(run_worker(worker));
}

static void signal_workers(int number)
{
    for (uint32_t slot = 0; slot < worker_count; slot++)
        if (workers[slot].pid != 0)
            kill(workers[slot].pid, number);
}

static bool reap_processes(void) /* false: none has died */
{
    bool any = false;
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0; any = true) {
        herd_reap(herd, pid);
        for (uint32_t slot = 0; slot < worker_count; slot++)
            if (workers[slot].pid == pid)
                workers[slot].pid = 0;
    }
    return any;
}

/* The signals stay blocked but for the wait, so that none can come at a bad time. */
static int run_processes(const sigset_t *signals)
{
    bool ready = false, failed = false, stopping = false;
    for (uint64_t kill_at_ms = 0;;) {
        const struct timespec tick = { 0, TICK_MS * 1000000 };
        struct herd_stats stats = { .size = sizeof stats };
        uint32_t running = 0;
        for (uint32_t slot = 0; slot < worker_count; slot++) {
            if (workers[slot].pid == 0 && !stopping && now_ms() >= workers[slot].start_at_ms)
                start_process(&workers[slot], signals);
            running += workers[slot].pid != 0;
        }
        if (stopping && running == 0)
            return failed ? EXIT_FAILURE : EXIT_SUCCESS;
        if (!ready && !stopping && herd_stats_total(herd, &stats) == 0 && stats.workers == worker_count) {
            ready = true;
            print_ready();
        }
        const bool settled = ready && !stopping && running == worker_count;
        int number = settled ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &tick);
        if (number == SIGCHLD && reap_processes() && !ready && !stopping) {
            failed = true; /* a server that cannot start says so, and does not try for ever */
            number = SIGINT;
        }
        if (number == SIGTERM || number == SIGINT) {
            signal_workers(stopping ? SIGKILL : number);
            failed = failed || (stopping && number == SIGTERM);
            kill_at_ms = now_ms() + 1000 * (number == SIGTERM ? DRAIN_MAX_S : STOP_MAX_S);
            stopping = true;
        } else if (stopping && now_ms() >= kill_at_ms) {
            signal_workers(SIGKILL);
            failed = true;
        }
    }
}

/* ---- threads ---- */

static void *run_thread(void *worker)
{
    if (run_worker(worker) != EXIT_SUCCESS)
        exit(EXIT_FAILURE);
    return NULL;
}

static int run_threads(const sigset_t *signals)
{
    int number;
    for (uint32_t slot = 0; slot < worker_count; slot++)
        create_worker(&workers[slot]);
    for (uint32_t slot = 0; slot < worker_count; slot++)
        if ((errno = pthread_create(&workers[slot].thread, NULL, run_thread, &workers[slot])) != 0)
            die(EXIT_FAILURE, "pthread_create", strerror(errno));
    print_ready();
    do
        number = sigwaitinfo(signals, NULL);
    while (number != SIGTERM && number != SIGINT);
    for (uint32_t slot = 0; slot < worker_count; slot++)
        number == SIGTERM ? herd_drain(workers[slot].herd_worker) : herd_stop(workers[slot].herd_worker);
    alarm(number == SIGTERM ? DRAIN_MAX_S : STOP_MAX_S); /* it kills, and so does the next signal */
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    for (uint32_t slot = 0; slot < worker_count; slot++)
        pthread_join(workers[slot].thread, NULL);
    return EXIT_SUCCESS;
}

/* ---- options and main ---- */

struct name { const char *name; uint32_t value; };
static const struct name modes[] = {
    { "auto", HERD_MODE_AUTO }, { "mutex", HERD_MODE_MUTEX }, { "shared", HERD_MODE_SHARED },
    { "exclusive", HERD_MODE_EXCLUSIVE }, { "reuseport", HERD_MODE_REUSEPORT }, { "handoff", HERD_MODE_HANDOFF },
    { NULL, 0 }
};
static const struct name balances[] = {
    { "default", HERD_BALANCE_DEFAULT }, { "pack", HERD_BALANCE_PACK }, { "spread", HERD_BALANCE_SPREAD },
    { "round-robin", HERD_BALANCE_ROUND_ROBIN }, { NULL, 0 }
};

static uint32_t value_of(const struct name *names, const char *name)
{
    for (; names->name != NULL; names++)
        if (strcmp(names->name, name) == 0)
            return names->value;
    die(EXIT_USAGE, name, "not a known name (see --help)");
    return 0;
}

static const char *name_of(const struct name *names, uint32_t value)
{
    while (names->name != NULL && names->value != value)
        names++;
    return names->name != NULL ? names->name : "unknown";
}

static uint32_t number(const char *text, uint32_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (text[strspn(text, "0123456789")] != '\0' || end == text || value < 1 || value > most)
        die(EXIT_USAGE, text, "not a number in the range of its option (see --help)");
    return (uint32_t)value;
}

static const char help[] =
    "hello_prefork [options]         serves GET /, /slow?ms=N (blocks its worker), /counters and /metrics\n\n"
    "  --listen ADDR                 127.0.0.1:8080 (default), [::1]:8080 or unix:/path; repeatable\n"
    "  --workers N                   1 to 1024 (one for each core)\n"
    "  --threads                     workers are threads of one process\n"
    "  --mode MODE                   auto (default), mutex, shared, exclusive, reuseport or handoff\n"
    "  --balance POLICY              default, pack, spread or (handoff) round-robin\n"
    "  --connections N               of one worker, to 1073741824 (1024)\n"
    "  --accept-batch N              connections accepted in one turn, 1 to 1024 (1)\n"
    "  --accept-delay-ms N           longest wait of a connection while a worker is idle, 1 to 60000 (500)\n"
    "  --handover-delay-us N         how long who accepts may stand still, 1 to 1000000 (500)\n"
    "  --name NAME                   of the herd in messages, and for herdtop\n\n"
    "SIGTERM: finish the connections, then end (again: end now). SIGINT: end now.";
static const struct option options[] = {
    { "listen", 1, NULL, 'l' }, { "workers", 1, NULL, 'w' }, { "threads", 0, NULL, 't' }, { "mode", 1, NULL, 'm' },
    { "balance", 1, NULL, 'b' }, { "connections", 1, NULL, 'c' }, { "accept-batch", 1, NULL, 'a' },
    { "accept-delay-ms", 1, NULL, 'd' }, { "handover-delay-us", 1, NULL, 'o' }, { "name", 1, NULL, 'n' },
    { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 }
};

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    fprintf(stderr, "hello_prefork: %s%s\n", level == HERD_LOG_ERROR ? "error: " : "", message);
}

static void listen_on(const char *address)
{
    const int on = 1;
    int listener = herd_listen(herd, address, NULL, on_accept, NULL);
    if (listener < 0)
        exit(EXIT_FAILURE); /* the log has it already */
    /* Connections inherit it. A Unix socket does not know it. */
    for (int slot = 0, fd; (fd = herd_slot_listener_fd(herd, listener, slot)) >= 0; slot++)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void print_ready(void)
{
    char address[256];
    for (int listener = 0; herd_listener_address(herd, listener, address, sizeof address) >= 0; listener++)
        printf("%s%s", listener == 0 ? "hello_prefork: ready on " : ", ", address);
    printf(", %" PRIu32 " workers, mode %s, balance %s, pid %d\n", worker_count,
           name_of(modes, (uint32_t)herd_mode(herd)), name_of(balances, (uint32_t)herd_balance(herd)), (int)getpid());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct herd_config config = HERD_CONFIG_INIT;
    const char *addresses[LISTENERS_MAX] = { "127.0.0.1:8080" };
    size_t address_count = 0;
    bool threads = false;
    config.log = on_log;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    config.max_workers = cores < 1 ? 1 : cores > HERD_MAX_WORKERS ? HERD_MAX_WORKERS : (uint32_t)cores;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'l':
            if (address_count == LISTENERS_MAX)
                die(EXIT_USAGE, optarg, "too many addresses");
            addresses[address_count++] = optarg;
            break;
        case 'w': config.max_workers = number(optarg, HERD_MAX_WORKERS); break;
        case 't': threads = true; break;
        case 'm': config.mode = value_of(modes, optarg); break;
        case 'b': config.balance = value_of(balances, optarg); break;
        case 'c': config.worker_connections = number(optarg, 1 << 30); break;
        case 'a': config.accept_batch = number(optarg, 1024); break;
        case 'd': config.accept_delay_ms = number(optarg, 60000); break;
        case 'o': config.handover_delay_us = number(optarg, 1000000); break;
        case 'n': config.name = optarg; break;
        case 'h': puts(help); return EXIT_SUCCESS;
        default: return EXIT_USAGE; /* getopt_long has said why */
        }
    if (optind < argc)
        die(EXIT_USAGE, argv[optind], "not an option (see --help)");
    worker_count = config.max_workers;

    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* the usual 1024 is less than a worker's connections */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (herd_create(&config, &herd) < 0)
        return EXIT_FAILURE; /* the log has said why */
    for (size_t i = 0; i == 0 || i < address_count; i++)
        listen_on(addresses[i]);

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* and taken with sigwaitinfo */
    const int result = threads ? run_threads(&signals) : run_processes(&signals);
    herd_destroy(herd);
    return result;
}
