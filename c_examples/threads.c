/*
 * threads: a small HTTP/1.1 server with a worker in each thread. One process, or with --processes several that have
 * so many threads each, which share their listeners all the same: to libherd a worker is a worker.
 *
 * In order: the state, connections, a thread, a process, the parent of several, options and main.
 * What a thread changes is its own (its worker, its connections); what threads share is made before they start.
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

enum { LISTENERS_MAX = 64, RESTART_MS = 100, DRAIN_MAX_S = 30, STOP_MAX_S = 1, EXIT_USAGE = 2 };

struct connection {
    struct herd_event event; /* within, so that a connection is one allocation */
    LIST_ENTRY(connection) link;
    struct exchange exchange;
};

static struct thread {
    pthread_t pthread;
    struct herd_worker *worker;
    LIST_HEAD(, connection) connections;
} threads[HERD_MAX_WORKERS]; /* by slot; a process uses those of its own workers */
static uint32_t thread_count = 2, process_count = 1; /* threads of each process */
static const char *const modes[] = { "auto", "exclusive", "mutex", "reuseport", "handoff", "shared", NULL };
static const char *const balances[] = { "default", "spread", "pack", NULL };

static void die(int code, const char *what, const char *why)
{
    fprintf(stderr, "threads: %s: %s\n", what, why);
    exit(code);
}

/* ---- connections ---- */

static void close_connection(struct herd_worker *worker, struct connection *connection)
{
    const int fd = connection->event.fd;
    herd_event_del(worker, &connection->event); /* before close, which does not do it */
    close(fd);
    herd_conn_closed(worker);
    LIST_REMOVE(connection, link);
    end_exchange(&connection->exchange);
    free(connection);
}

static void on_ready(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    struct connection *connection = event->data;
    const enum next next = serve(&connection->exchange, event->fd, (ready & HERD_READ) != 0);
    const uint32_t interest = next == NEXT_WRITE ? HERD_WRITE : HERD_READ;
    if (next == NEXT_CLOSE || (event->interest != interest && herd_event_mod(worker, event, interest) < 0))
        close_connection(worker, connection);
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t peer_length, void *data)
{
    struct connection *connection = malloc(sizeof *connection);
    (void)peer, (void)peer_length, (void)data;
    if (connection != NULL) {
        herd_event_init(&connection->event, on_ready, connection);
        if (herd_event_add(worker, &connection->event, fd, HERD_READ) == 0) {
            begin_exchange(&connection->exchange, worker);
            LIST_INSERT_HEAD(&threads[herd_worker_slot(worker)].connections, connection, link);
            return;
        }
    }
    free(connection);
    close(fd);
    herd_conn_closed(worker);
}

/* ---- a thread ---- */

static void *run_thread(void *data)
{
    struct thread *thread = data;
    struct connection *at;
    int state, result = 0;
    while ((state = herd_worker_state(thread->worker)) < HERD_WORKER_DRAINED && result > HERD_EFORKED) {
        if (state == HERD_WORKER_DRAINING)
            LIST_FOREACH(at, &thread->connections, link) /* idle ones: what has arrived is answered, then they end */
                if (at->exchange.answered && at->exchange.in_bytes == 0)
                    shutdown(at->event.fd, SHUT_RD);
        result = herd_run_once(thread->worker, -1); /* an errno: a listener failed, and the log has it */
    }
    while ((at = LIST_FIRST(&thread->connections)) != NULL)
        close_connection(thread->worker, at);
    if (result <= HERD_EFORKED)
        die(EXIT_FAILURE, "worker", herd_strerror(result));
    return NULL;
}

/* ---- a process ---- */

static void print_ready(void)
{
    char address[256];
    for (int listener = 0; herd_listener_address(herd, listener, address, sizeof address) >= 0; listener++)
        printf("%s%s", listener == 0 ? "threads: ready on " : ", ", address);
    printf(", %" PRIu32 " workers, mode %s, balance %s, pid %d\n", thread_count * process_count, modes[herd_mode(herd)],
           balances[herd_balance(herd)], (int)getpid());
    fflush(stdout);
}

/* Runs its threads until a signal. All have the signals blocked, so that only sigwaitinfo gets them. Workers are made
 * before the first thread starts, and ended after the last one has: nobody asks one to stop that is gone. */
static int run_process(uint32_t process, const sigset_t *signals)
{
    struct thread *own = &threads[process * thread_count];
    for (uint32_t i = 0; i < thread_count; i++) {
        int result = herd_worker_create(herd, (int)(process * thread_count + i), &own[i].worker);
        if (result < 0)
            die(EXIT_FAILURE, "worker", herd_strerror(result));
    }
    for (uint32_t i = 0; i < thread_count; i++)
        if ((errno = pthread_create(&own[i].pthread, NULL, run_thread, &own[i])) != 0)
            die(EXIT_FAILURE, "pthread_create", strerror(errno));
    if (process_count == 1)
        print_ready();
    int number;
    do
        number = sigwaitinfo(signals, NULL);
    while (number != SIGTERM && number != SIGINT);
    for (uint32_t i = 0; i < thread_count; i++) /* from another thread: both calls may be */
        number == SIGTERM ? herd_drain(own[i].worker) : herd_stop(own[i].worker);
    alarm(number == SIGTERM ? DRAIN_MAX_S : STOP_MAX_S); /* it kills, and so does the next signal */
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    for (uint32_t i = 0; i < thread_count; i++)
        pthread_join(own[i].pthread, NULL);
    for (uint32_t i = 0; i < thread_count; i++)
        herd_worker_destroy(own[i].worker);
    return EXIT_SUCCESS;
}

/* ---- the parent of several: it has no threads, since a child has only the one that called fork ---- */

static int run_parent(const sigset_t *signals)
{
    static pid_t pids[HERD_MAX_WORKERS];
    const struct timespec tick = { 0, RESTART_MS * 1000000L };
    bool ready = false, stopping = false, failed = false;
    for (uint32_t running = 0; !stopping || running > 0;) {
        for (uint32_t i = 0; i < process_count && !stopping; i++)
            if (pids[i] <= 0 && (pids[i] = fork()) == 0)
                _exit(run_process(i, signals));
            else if (pids[i] < 0)
                fprintf(stderr, "threads: fork: %s\n", strerror(errno)); /* tried again at the next tick */
        struct herd_stats stats = { .size = sizeof stats };
        if (!ready && !stopping && herd_stats_total(herd, &stats) == 0 && stats.workers == thread_count * process_count)
            ready = true, print_ready();
        int number = sigtimedwait(signals, NULL, &tick);
        for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
            herd_reap(herd, pid); /* frees the slots of all its threads */
            for (uint32_t i = 0; i < process_count; i++)
                pids[i] = pids[i] == pid ? 0 : pids[i];
            if (!ready && !stopping)
                number = SIGINT, failed = true; /* a server that cannot start says so, and does not try for ever */
            nanosleep(&tick, NULL); /* nor does one whose processes die at once burn the processor */
        }
        stopping = stopping || number == SIGTERM || number == SIGINT;
        running = 0;
        for (uint32_t i = 0; i < process_count; i++) {
            running += pids[i] > 0;
            if (pids[i] > 0 && (number == SIGTERM || number == SIGINT))
                kill(pids[i], number); /* the second one kills it: see run_process */
        }
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- options and main ---- */

static uint32_t value_of(const char *name, const char *const *names)
{
    for (uint32_t value = 0; names[value] != NULL; value++)
        if (strcmp(names[value], name) == 0)
            return value;
    die(EXIT_USAGE, name, "not a known name (see --help)");
    return 0;
}

static uint32_t number_of(const char *text, uint32_t most)
{
    unsigned long value = strtoul(text, NULL, 10);
    if (text[strspn(text, "0123456789")] != '\0' || value < 1 || value > most)
        die(EXIT_USAGE, text, "not a number in the range of its option (see --help)");
    return (uint32_t)value;
}

static const char help[] =
    "threads [options]               serves GET /, /slow?ms=N (blocks its thread), /counters and /metrics\n\n"
    "  --listen ADDR                 127.0.0.1:8080 (default), [::1]:8080 or unix:/path; repeatable\n"
    "  --workers N                   threads of a process (2)\n"
    "  --processes N                 processes (1); at most 1024 threads in all\n"
    "  --mode MODE                   auto (default), mutex, shared, exclusive, reuseport or handoff\n"
    "  --balance POLICY              default, pack or spread\n"
    "  --connections N               of one worker, to 1073741824 (1024)\n"
    "  --accept-batch N              connections accepted in one turn, 1 to 1024 (1)\n"
    "  --accept-delay-ms N           longest wait of a connection while a worker is idle, 1 to 60000 (500)\n"
    "  --handover-delay-us N         how long who accepts may stand still, 1 to 1000000 (500)\n"
    "  --name NAME                   of the herd in messages\n\n"
    "SIGTERM: finish the connections, then end (again: end now). SIGINT: end now.";
static const struct option options[] = {
    { "listen", 1, NULL, 'l' }, { "workers", 1, NULL, 'w' }, { "processes", 1, NULL, 'p' }, { "mode", 1, NULL, 'm' },
    { "balance", 1, NULL, 'b' }, { "connections", 1, NULL, 'c' }, { "accept-batch", 1, NULL, 'a' },
    { "accept-delay-ms", 1, NULL, 'd' }, { "handover-delay-us", 1, NULL, 'o' }, { "name", 1, NULL, 'n' },
    { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 }
};

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    fprintf(stderr, "threads: %s%s\n", level == HERD_LOG_ERROR ? "error: " : "", message);
}

int main(int argc, char **argv)
{
    struct herd_config config = HERD_CONFIG_INIT;
    const char *addresses[LISTENERS_MAX] = { "127.0.0.1:8080" };
    size_t address_count = 0;
    config.log = on_log;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'l':
            if (address_count == LISTENERS_MAX)
                die(EXIT_USAGE, optarg, "more addresses than this program takes");
            addresses[address_count++] = optarg;
            break;
        case 'w': thread_count = number_of(optarg, HERD_MAX_WORKERS); break;
        case 'p': process_count = number_of(optarg, HERD_MAX_WORKERS); break;
        case 'm': config.mode = value_of(optarg, modes); break;
        case 'b': config.balance = value_of(optarg, balances); break;
        case 'c': config.worker_connections = number_of(optarg, 1 << 30); break;
        case 'a': config.accept_batch = number_of(optarg, 1024); break;
        case 'd': config.accept_delay_ms = number_of(optarg, 60000); break;
        case 'o': config.handover_delay_us = number_of(optarg, 1000000); break;
        case 'n': config.name = optarg; break;
        case 'h': puts(help); return EXIT_SUCCESS;
        default: return EXIT_USAGE; /* getopt_long has said why */
        }
    if (optind < argc || thread_count * process_count > HERD_MAX_WORKERS)
        die(EXIT_USAGE, optind < argc ? argv[optind] : "--processes", "not possible (see --help)");
    config.max_workers = thread_count * process_count;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* all threads of the process share it */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (herd_create(&config, &herd) < 0)
        return EXIT_FAILURE; /* the log has said why */
    for (size_t i = 0; i == 0 || i < address_count; i++) {
        int listener = herd_listen(herd, addresses[i], NULL, on_accept, NULL);
        if (listener < 0)
            return EXIT_FAILURE;
        /* Connections inherit it. A Unix socket does not know it. */
        for (int slot = 0, fd; (fd = herd_slot_listener_fd(herd, listener, slot)) >= 0; slot++)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before the first thread, which inherits it */
    const int result = process_count == 1 ? run_process(0, &signals) : run_parent(&signals);
    herd_destroy(herd);
    return result;
}
