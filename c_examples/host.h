/*
 * What the host_ examples have in common, and what a server has already before libherd comes: requests (exchange.h),
 * the parent of the worker processes, options. How loop and libherd go together is in host_*.c alone.
 *
 * A program defines run_worker and calls host_main.
 */
#include "exchange.h"
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LISTENERS_MAX = 64, RESTART_MS = 100, TICK_MS = 10, DRAIN_MAX_S = 30, STOP_MAX_S = 1, EXIT_USAGE = 2 };

static struct herd_worker *volatile worker; /* of this process; also for the signal handler */

/* Runs the worker of this process until it is drained or stopped. Returns 0, or a code of libherd. */
static int run_worker(void);

/* ---- the parent, as in hello_prefork ---- */

static pid_t pids[HERD_MAX_WORKERS]; /* by slot; 0 if there is none now */
static uint32_t worker_count;
/* By the numbers of HERD_MODE_... and HERD_BALANCE_... */
static const char *const modes[] = { "auto", "exclusive", "mutex", "reuseport", "handoff", "shared" };
static const char *const balances[] = { "default", "spread", "pack" };

static void die(int code, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(code);
}

static int checked(int result, const char *what)
{
    if (result < 0)
        die(EXIT_FAILURE, what, herd_strerror(result));
    return result;
}

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    fprintf(stderr, "%s: %s%s\n", program_invocation_short_name, level == HERD_LOG_ERROR ? "error: " : "", message);
}

static void on_signal(int number) /* both calls may be made in a signal handler */
{
    number == SIGTERM ? herd_drain(worker) : herd_stop(worker);
    alarm(number == SIGTERM ? DRAIN_MAX_S : STOP_MAX_S);
}

static void start_worker(uint32_t slot, const sigset_t *signals)
{
    struct herd_worker *made;
    const pid_t pid = fork();
    if (pid != 0) {
        pids[slot] = pid > 0 ? pid : 0;
        if (pid < 0)
            fprintf(stderr, "%s: fork: %s\n", program_invocation_short_name, strerror(errno));
        return;
    }
    checked(herd_worker_create(herd, (int)slot, &made), "worker");
    worker = made;
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    sigprocmask(SIG_UNBLOCK, signals, NULL); /* a signal that came meanwhile is delivered now */
    const int result = run_worker();
    herd_worker_destroy(worker);
    if (result < 0)
        fprintf(stderr, "%s: slot %d: %s\n", program_invocation_short_name, (int)slot, herd_strerror(result));
    _exit(result < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void print_ready(void)
{
    char address[256];
    printf("%s: ready on ", program_invocation_short_name);
    for (int listener = 0; herd_listener_address(herd, listener, address, sizeof address) >= 0; listener++)
        printf("%s%s", listener == 0 ? "" : ", ", address);
    printf(", %" PRIu32 " workers, mode %s, balance %s, pid %d\n", worker_count, modes[herd_mode(herd)],
           balances[herd_balance(herd)], (int)getpid());
    fflush(stdout);
}

static int run_parent(const sigset_t *signals) /* which stay blocked but for the wait */
{
    const struct timespec tick = { 0, TICK_MS * 1000000L }, restart = { 0, RESTART_MS * 1000000L };
    bool ready = false, failed = false, stopping = false;
    for (;;) {
        struct herd_stats stats = { .size = sizeof stats };
        uint32_t running = 0;
        for (uint32_t slot = 0; slot < worker_count; running += pids[slot++] != 0)
            if (pids[slot] == 0 && !stopping)
                start_worker(slot, signals);
        if (running == 0)
            return failed || !stopping ? EXIT_FAILURE : EXIT_SUCCESS;
        if (!ready && herd_stats_total(herd, &stats) == 0 && stats.workers == worker_count) {
            ready = true;
            print_ready();
        }
        const bool settled = ready && running == worker_count;
        int status, number = settled || stopping ? sigwaitinfo(signals, NULL)
                                                 : sigtimedwait(signals, NULL, ready ? &restart : &tick);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            herd_reap(herd, pid);
            for (uint32_t slot = 0; slot < worker_count; slot++)
                pids[slot] = pids[slot] == pid ? 0 : pids[slot];
            failed = failed || ((stopping || !ready) && status != 0);
            if (!stopping && !ready)
                number = SIGINT; /* a server that cannot start says so, and does not try for ever */
            else if (!stopping)
                nanosleep(&restart, NULL);
        }
        if (number == SIGTERM || number == SIGINT) {
            for (uint32_t slot = 0; slot < worker_count; slot++)
                if (pids[slot] != 0)
                    kill(pids[slot], stopping ? SIGKILL : number);
            stopping = true;
        }
    }
}

/* ---- options and main ---- */

static const char help[] =
    "[options]: serves GET /, /slow?ms=N (blocks its worker), /counters and /metrics\n\n"
    "  --listen ADDR                 127.0.0.1:8080 (default), [::1]:8080 or unix:/path; repeatable\n"
    "  --workers N                   1 to 1024 (one for each core)\n"
    "  --mode MODE                   auto, exclusive, mutex, reuseport, handoff or shared\n"
    "  --balance POLICY              default, spread or pack\n"
    "  --connections N               of one worker, to 1073741824 (1024)\n"
    "  --accept-batch N              connections accepted in one turn, 1 to 1024 (1)\n"
    "  --accept-delay-ms N           longest wait of a connection while a worker is idle, 1 to 60000 (500)\n"
    "  --handover-delay-us N         how long who accepts may stand still, 1 to 1000000 (500)\n"
    "  --name NAME                   of the herd in messages\n\n"
    "SIGTERM: finish the connections, then end (again: end now). SIGINT: end now.";
static const struct option options[] = {
    { "listen", 1, NULL, 'l' }, { "workers", 1, NULL, 'w' }, { "mode", 1, NULL, 'm' }, { "balance", 1, NULL, 'b' },
    { "connections", 1, NULL, 'c' }, { "accept-batch", 1, NULL, 'a' }, { "accept-delay-ms", 1, NULL, 'd' },
    { "handover-delay-us", 1, NULL, 'o' }, { "name", 1, NULL, 'n' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 }
};

static uint32_t number(const char *text, uint32_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (text[strspn(text, "0123456789")] != '\0' || end == text || value < 1 || value > most)
        die(EXIT_USAGE, text, "not a number in the range of its option (see --help)");
    return (uint32_t)value;
}

static uint32_t place(const char *name, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    die(EXIT_USAGE, name, "not a known name (see --help)");
    return 0;
}

static uint32_t mode_of(const char *name, uint32_t auto_mode)
{
    uint32_t mode = place(name, modes, sizeof modes / sizeof modes[0]);
    return mode == HERD_MODE_AUTO ? auto_mode : mode;
}

/* `on_accept`: NULL if the worker takes connections with herd_accept. `mode`: what --mode auto stands for. */
static int host_main(int argc, char **argv, uint32_t mode, herd_accept_fn on_accept)
{
    struct herd_config config = HERD_CONFIG_INIT;
    const char *addresses[LISTENERS_MAX] = { "127.0.0.1:8080" };
    size_t address_count = 0;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    config.log = on_log;
    config.mode = mode;
    config.max_workers = cores < 1 ? 1 : cores > HERD_MAX_WORKERS ? HERD_MAX_WORKERS : (uint32_t)cores;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'l':
            if (address_count == LISTENERS_MAX)
                die(EXIT_USAGE, optarg, "more addresses than this program takes");
            addresses[address_count++] = optarg;
            break;
        case 'w': config.max_workers = number(optarg, HERD_MAX_WORKERS); break;
        case 'm': config.mode = mode_of(optarg, mode); break;
        case 'b': config.balance = place(optarg, balances, sizeof balances / sizeof balances[0]); break;
        case 'c': config.worker_connections = number(optarg, 1 << 30); break;
        case 'a': config.accept_batch = number(optarg, 1024); break;
        case 'd': config.accept_delay_ms = number(optarg, 60000); break;
        case 'o': config.handover_delay_us = number(optarg, 1000000); break;
        case 'n': config.name = optarg; break;
        case 'h': printf("%s %s\n", program_invocation_short_name, help); return EXIT_SUCCESS;
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
    for (size_t i = 0; i == 0 || i < address_count; i++) {
        const int listener = herd_listen(herd, addresses[i], NULL, on_accept, NULL), on = 1;
        if (listener < 0)
            return EXIT_FAILURE; /* as above */
        /* Connections inherit it. A Unix socket does not know it. */
        for (int slot = 0, fd; (fd = herd_slot_listener_fd(herd, listener, slot)) >= 0; slot++)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* and taken with sigwaitinfo */
    const int result = run_parent(&signals);
    herd_destroy(herd);
    return result;
}
