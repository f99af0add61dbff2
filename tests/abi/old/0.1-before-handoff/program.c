/*
 * A server as it would have been written with this header: workers that it forks, events, timers, posted
 * events, pulled connections. Every struct with a size ends where the process has no memory any more: one
 * byte written or read behind its end is a SIGSEGV. Not to be changed: it is old.
 */
#define _GNU_SOURCE
#include "herd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

enum { workers = 2, clients = 12 };

static struct herd_worker *own; /* for the signal handler */
static int messages;

/* Memory of that size which ends at a page that cannot be touched. */
static void *at_the_end(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    memset(pages, 0x5a, page);
    return pages + page - bytes;
}

static struct herd_config *new_config(uint32_t mode)
{
    struct herd_config *config = at_the_end(sizeof *config);
    const struct herd_config defaults = HERD_CONFIG_INIT;
    CHECK(herd_config_init(config, sizeof *config) == 0);
    CHECK(config->size == sizeof *config && config->mode == defaults.mode && config->name == NULL);
    CHECK(config->balance_callback == NULL && config->balance_data == NULL && config->accept_batch == 0);
    *config = defaults;
    config->mode = mode;
    config->max_workers = workers;
    return config;
}

static int connect_to(const char *address)
{
    struct sockaddr_in to;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* --- The server: what a client sends comes back after a timer and a posted event ----------- */

/* The structs of the library lie in the host's own, with the host's data between them. */
struct connection {
    uint32_t before;
    struct herd_event event;
    uint32_t between;
    struct herd_timer timer;
    uint32_t after;
    struct herd_worker *worker;
    struct herd_event reply;
    char byte;
    uint32_t last;
};

static void on_reply(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    struct connection *connection = event->data;
    int fd = connection->event.fd;
    (void)ready;
    CHECK(connection->before == 1 && connection->between == 2 && connection->after == 3 && connection->last == 4);
    CHECK(write(fd, &connection->byte, 1) == 1);
    CHECK(herd_event_del(worker, &connection->event) == 0);
    CHECK(connection->event.fd == -1);
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
    free(connection);
}

static void on_timer(struct herd_worker *worker, struct herd_timer *timer)
{
    struct connection *connection = timer->data;
    CHECK(herd_post(worker, &connection->reply, HERD_POSTED_EVENTS) >= 0);
}

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    struct connection *connection = event->data;
    CHECK(ready & HERD_READ);
    CHECK(read(event->fd, &connection->byte, 1) == 1);
    CHECK(herd_event_mod(worker, event, HERD_PEER_CLOSED) == 0);
    CHECK(herd_timer_start(worker, &connection->timer, 1) == 0);
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t peer_length,
                      void *accept_data)
{
    struct connection *connection = calloc(1, sizeof *connection);
    CHECK(connection != NULL && peer->sa_family == AF_INET && peer_length == sizeof(struct sockaddr_in));
    CHECK(accept_data == &messages);
    connection->before = 1, connection->between = 2, connection->after = 3, connection->last = 4;
    CHECK(herd_event_init(&connection->event, on_event, connection) == 0);
    CHECK(herd_event_init(&connection->reply, on_reply, connection) == 0);
    CHECK(herd_timer_init(&connection->timer, on_timer, connection) == 0);
    CHECK(herd_event_add(worker, &connection->event, fd, HERD_READ) == 0);
}

static void on_log(void *log_data, int level, const char *message)
{
    CHECK(log_data == &messages && level >= HERD_LOG_ERROR && level <= HERD_LOG_INFO && message[0] != '\0');
    messages++;
}

static void on_term(int signal_number)
{
    (void)signal_number;
    herd_stop(own);
}

static pid_t fork_worker(struct herd *herd)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct sigaction action;
        sigset_t term;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(20);
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        memset(&action, 0, sizeof action);
        action.sa_handler = on_term;
        CHECK(sigaction(SIGTERM, &action, NULL) == 0);
        CHECK(herd_worker_create(herd, HERD_ANY_SLOT, &own) == 0);
        CHECK(herd_worker_state(own) == HERD_WORKER_RUNNING);
        CHECK(sigprocmask(SIG_UNBLOCK, &term, NULL) == 0); /* blocked since before fork */
        CHECK(herd_run(own) == 0);
        CHECK(herd_worker_state(own) == HERD_WORKER_STOPPED);
        CHECK(herd_worker_destroy(own) == 0);
        _exit(0);
    }
    return pid;
}

/* The counters that this header knows, of struct and library. */
static struct herd_stats total(const struct herd *herd)
{
    struct herd_stats *stats = at_the_end(sizeof *stats), copy;
    stats->size = sizeof *stats;
    CHECK(herd_stats_total(herd, stats) == 0 && stats->size == sizeof *stats);
    copy = *stats;
    stats->size = sizeof *stats;
    CHECK(herd_stats_worker(herd, 0, stats) == 0 && stats->accepted <= copy.accepted);
    return copy;
}

static void serve(uint32_t mode)
{
    struct herd_config *config = new_config(mode);
    struct herd_listen_options *options = at_the_end(sizeof *options);
    struct herd *herd = NULL;
    char address[64];
    pid_t pids[workers];
    sigset_t term;
    config->log = on_log;
    config->log_data = &messages;
    CHECK(herd_create(config, &herd) == 0);
    CHECK(mode == HERD_MODE_AUTO ? herd_mode(herd) > 0 : herd_mode(herd) == (int)mode);
    CHECK(herd_listen_options_init(options, sizeof *options) == 0 && options->size == sizeof *options);
    options->backlog = 64;
    int listener = herd_listen(herd, "127.0.0.1:0", options, on_accept, &messages);
    CHECK(listener == 0 && herd_listener_address(herd, listener, address, sizeof address) > 0);

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &term, NULL) == 0);
    for (int i = 0; i < workers; i++) {
        pids[i] = fork_worker(herd);
    }
    for (int i = 0; i < clients; i++) {
        char sent = (char)('a' + i), got = 0;
        int fd = connect_to(address);
        CHECK(write(fd, &sent, 1) == 1 && read(fd, &got, 1) == 1 && got == sent);
        CHECK(read(fd, &got, 1) == 0);
        close(fd);
    }
    while (total(herd).closed < clients) {
        usleep(1000); /* the client sees the end before the worker has counted it */
    }
    CHECK(total(herd).accepted == clients && total(herd).connections_open == 0);
    CHECK(total(herd).workers <= workers && total(herd).turns > 0);
    for (int i = 0; i < workers; i++) {
        int status;
        CHECK(kill(pids[i], SIGTERM) == 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        CHECK(herd_reap(herd, pids[i]) >= 0);
    }
    CHECK(herd_free_slots(herd) == workers && herd_destroy(herd) == 0);
}

/* --- Connections that the host takes, in its own thread ------------------------------------ */

static void pull(void)
{
    struct herd *herd = NULL;
    struct herd_worker *worker = NULL;
    struct herd_accepted *accepted = at_the_end(sizeof *accepted);
    char address[64];
    int code;
    CHECK(herd_create(new_config(HERD_MODE_MUTEX), &herd) == 0);
    CHECK(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) == 0);
    CHECK(herd_listener_address(herd, 0, address, sizeof address) > 0);
    CHECK(herd_worker_create(herd, 0, &worker) == 0);
    int client = connect_to(address);
    accepted->size = sizeof *accepted;
    do {
        CHECK(herd_trylock(worker) == 1);
        CHECK(herd_process_events(worker, 5000, HERD_POST_EVENTS) >= 0);
        code = herd_accept(worker, accepted);
        CHECK(herd_unlock(worker) >= 0);
    } while (code == -EAGAIN);
    CHECK(code == 0 && accepted->size == sizeof *accepted && accepted->listener == 0);
    CHECK(accepted->peer.ss_family == AF_INET && accepted->peer_length == sizeof(struct sockaddr_in));
    close(accepted->fd);
    CHECK(herd_conn_closed(worker) >= 0);
    close(client);
    CHECK(herd_worker_destroy(worker) == 0 && herd_destroy(herd) == 0);
}

int main(void)
{
    static const uint32_t modes[] = { HERD_MODE_AUTO, HERD_MODE_EXCLUSIVE, HERD_MODE_MUTEX, HERD_MODE_SHARED,
                                      HERD_MODE_REUSEPORT, HERD_MODE_HANDOFF };
    alarm(50);
    CHECK(herd_abi() == HERD_ABI && herd_version_number() >= HERD_VERSION_NUMBER);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        serve(modes[i]);
    }
    pull();
    CHECK(strcmp(herd_strerror(HERD_EFORKED), herd_strerror(HERD_EABI)) != 0);
    return 0;
}
