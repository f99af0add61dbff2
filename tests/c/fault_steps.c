/* timeout: 3600
 * Every system call that the library makes, from herd_create to herd_destroy, fails with every error of its
 * man page, in every mode. A call of the host's that fails says with what, has changed nothing, and works
 * when it is made again; a turn goes on, unless accept4 or the wait itself says that it cannot; every client
 * is served once; nothing is left behind. HERD_TEST_SLOW=1: all errors of all calls, and some for a while;
 * else a sample. */
#include "inject.h"

#include <sys/epoll.h>
#include <sys/stat.h>

enum { delay_ms = 2, workers = 2, slots = 3, turn_calls_most = 2000, wait_most_ms = 20000 };

/* Who waits for worker 1: it does, or a loop of the host's, on the library's descriptors or on its set. */
enum way { itself, attached, nested, ways };
static const char *const way_names[] = {"itself", "attached", "nested"};

static uint32_t mode;
static enum way way;
static int is_over;
/* The fault strikes more than once: what is to be removed may stay. */
static int is_lasting;
static const char *step = "";

static struct herd *herd;
static struct herd_worker *worker[workers];
static int host_set = -1; /* the epoll set of worker 1's host */
static int sent_arrived;
static char socket_path[64], herd_name[32], herd_path[96];

/* --- The fault ------------------------------------------------------------------------------ */

static void say_where(void)
{
    if (!is_over && !check_in_child) {
        fprintf(stderr, "mode %s, %s, %s, %d times failed: %s with %s\n", mode_name(mode), way_names[way],
                step, script->hits, armed_name(), strerror(script->error));
        unlink(herd_path);
        unlink(socket_path);
    }
}

/* What a call of the host's says when `call` fails with `error`. */
static int is_told_by(int code, int call, int error)
{
    if (call == FAULT_FALLOCATE && error == ENOSPC) {
        return code == -ENOMEM;
    }
    if (call == FAULT_FCNTL_SETLK && (error == EAGAIN || error == EACCES)) {
        return code == -EBUSY || code == -EADDRINUSE; /* another has it */
    }
    /* The kernel's word for a number that leads to another file by now. */
    if (error == ENOENT && (call == FAULT_EPOLL_MOD || call == FAULT_EPOLL_DEL)) {
        return code == -EBADF;
    }
    if (call == FAULT_SENDMMSG && (error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM)) {
        return code == -EAGAIN;
    }
    /* The probe of a Unix socket's file: it seems to be in use. */
    if (code == -EADDRINUSE && (call == FAULT_CONNECT || call == FAULT_SOCKET || call == FAULT_STATX ||
                                call == FAULT_LSTAT || call == FAULT_UNLINK)) {
        return 1;
    }
    return code == -error;
}

/* What lies under a path; 0: nothing. */
static ino_t file_at(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 ? found.st_ino : 0;
}

static void check_no_new_file(const char *path, ino_t before)
{
    ino_t after = file_at(path);
    CHECK(after == 0 || after == before || is_lasting);
}

/* A call of the host's. The fault may make it fail, once: then it has changed nothing. Returns its code. */
#define STEP(expression)                                                                        \
    do {                                                                                        \
        step = #expression;                                                                     \
        int step_fds = open_fds(), step_call = script->call, step_error = script->error;        \
        long step_blocks = shim->blocks;                                                        \
        ino_t step_socket = file_at(socket_path), step_herd = file_at(herd_path);               \
        int step_code = (expression);                                                           \
        if (step_code < 0) {                                                                    \
            CHECK(script->hits > 0);                                                            \
            if (!is_told_by(step_code, step_call, step_error)) {                                \
                fprintf(stderr, "it said %s\n", herd_strerror(step_code));                      \
                test_exit(1);                                                                   \
            }                                                                                   \
            CHECK_EQ(open_fds(), step_fds);                                                     \
            CHECK_EQ(shim->blocks, step_blocks);                                                \
            check_no_new_file(socket_path, step_socket);                                        \
            check_no_new_file(herd_path, step_herd);                                            \
            disarm();                                                                           \
            step_code = (expression);                                                           \
        }                                                                                       \
        if (step_code < 0) {                                                                    \
            fprintf(stderr, "made again it said %s\n", herd_strerror(step_code));               \
            test_exit(1);                                                                       \
        }                                                                                       \
    } while (0)

/* --- The server ------------------------------------------------------------------------------ */

/* herd_event_del removes the event in any case. */
static void check_deleted(int code)
{
    CHECK(code == 0 || (script->hits > 0 && is_told_by(code, FAULT_EPOLL_DEL, script->error)));
}

static int is_hosted(int number)
{
    return number == 1 && way != itself;
}

static void host_watches(int fd, struct connection *connection)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.ptr = connection;
    CHECK_EQ(epoll_ctl(host_set, EPOLL_CTL_ADD, fd, &event), 0);
}

static void end_connection(struct connection *connection)
{
    struct herd_worker *of = worker[connection->slot];
    if (is_hosted(connection->slot)) {
        CHECK_EQ(epoll_ctl(host_set, EPOLL_CTL_DEL, connection->fd, NULL), 0);
    } else {
        int code = herd_event_del(of, &connection->event);
        if (code == HERD_EPOISONED && script->call == FAULT_EPOLL_WAIT) {
            return; /* the new worker sees to it */
        }
        check_deleted(code);
    }
    close(connection->fd);
    connection->fd = -1;
    CHECK(herd_conn_closed(of) >= 0);
}

static void serve(struct connection *connection)
{
    char byte;
    ssize_t got = recv(connection->fd, &byte, 1, MSG_DONTWAIT);
    if (got == 1) {
        CHECK_EQ(send(connection->fd, &byte, 1, MSG_NOSIGNAL), 1);
    } else if (got == 0 || errno != EAGAIN) {
        end_connection(connection);
    }
}

static void on_ready(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)ready;
    serve((struct connection *)event->data);
}

static void watch(struct connection *connection)
{
    if (is_hosted(connection->slot)) {
        host_watches(connection->fd, connection);
        return;
    }
    CHECK_CODE(herd_event_init(&connection->event, on_ready, connection), 0);
    int code = herd_event_add(worker[connection->slot], &connection->event, connection->fd, HERD_READ);
    if (code == HERD_EPOISONED && script->call == FAULT_EPOLL_WAIT) {
        return;
    }
    if (code != 0) {
        CHECK(script->hits > 0 && code == -script->error);
        disarm();
        code = herd_event_add(worker[connection->slot], &connection->event, connection->fd, HERD_READ);
    }
    CHECK_CODE(code, 0);
}

static void on_sent(struct herd_worker *of, int fd, const struct sockaddr *peer, uint32_t peer_length,
                    const void *tag, size_t tag_bytes, void *data)
{
    CHECK(tag_bytes == 3 && memcmp(tag, "tag", 3) == 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    sent_arrived++;
    inject_on_accept(of, fd, peer, peer_length, data);
}

/* Has a loop of the host's wait for worker 1. */
static void host_worker(void)
{
    host_set = epoll_create1(EPOLL_CLOEXEC);
    if (way == attached) {
        STEP(herd_attach_epoll(worker[1], host_set, 0));
    } else {
        STEP(herd_worker_fd(worker[1]));
        host_watches(herd_worker_fd(worker[1]), NULL);
    }
}

/* Returns what the library said; `*events` those that the host's wait found. */
static int hosted_turn(int timeout_ms, int *events)
{
    struct epoll_event ready[16];
    int code = herd_prepare(worker[1], timeout_ms);
    if (code < 0) {
        return code;
    }
    *events = epoll_wait(host_set, ready, 16, code);
    CHECK(*events >= 0);
    code = herd_check(worker[1]);
    /* What a worker that cannot be used any more has left the new one finds. */
    for (int i = 0; code >= 0 && i < *events; i++) {
        struct connection *connection = (struct connection *)ready[i].data.ptr;
        if (connection != NULL && connection->fd >= 0) {
            serve(connection);
        }
    }
    return code;
}

/* A worker that cannot be used any more, or has given a listener up: a new one begins afresh. */
static void make_worker_anew(int number)
{
    CHECK_CODE(herd_worker_destroy(worker[number]), 0);
    disarm();
    CHECK_CODE(herd_worker_create(herd, number, &worker[number]), 0);
    if (is_hosted(number)) {
        close(host_set);
        host_worker();
    }
    for (int i = 0; i < connections_most; i++) {
        if (connections[i].fd >= 0 && connections[i].slot == number) {
            CHECK(herd_conn_opened(worker[number]) >= 0);
            watch(&connections[i]);
        }
    }
}

static int is_fatal(int error)
{
    return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EOPNOTSUPP;
}

static void run_turn(int number, int timeout_ms)
{
    long long made = calls_made();
    int events, code = is_hosted(number) ? hosted_turn(timeout_ms, &events)
                                         : herd_run_once(worker[number], timeout_ms);
    CHECK(calls_made() - made < turn_calls_most);
    if (code >= 0) {
        return;
    }
    int of_wait = script->call == FAULT_EPOLL_WAIT;
    int of_listener = script->call == FAULT_ACCEPT4 && is_fatal(script->error);
    if (!(script->hits > 0 && (of_wait || of_listener))) {
        fprintf(stderr, "the turn said %s\n", herd_strerror(code));
        test_exit(1);
    }
    CHECK_EQ(code, -script->error);
    disarm();
    if (of_wait) {
        CHECK_CODE(is_hosted(number) ? hosted_turn(0, &events) : herd_run_once(worker[number], 0),
                   HERD_EPOISONED);
    }
    make_worker_anew(number);
}

/* After a turn: the host's set reports nothing. */
static int host_is_quiet(void)
{
    struct epoll_event ready;
    run_turn(1, 0);
    return epoll_wait(host_set, &ready, 1, 0) == 0;
}

/* Turns of all workers until `fd` has a byte to read. */
static char next_byte(int fd)
{
    int64_t deadline = now_ms() + wait_most_ms;
    for (int turn = 0; now_ms() < deadline; turn++) {
        char byte;
        ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 1) {
            return byte;
        }
        CHECK(got < 0 && errno == EAGAIN);
        run_turn(turn % workers, turn % 4 == 0);
    }
    fprintf(stderr, "the client is not served\n");
    test_exit(1);
}

static void expect_greeting(int fd)
{
    char slot = next_byte(fd);
    CHECK(slot >= 0 && slot < workers);
}

static int open_connections(void)
{
    int count = 0;
    for (int i = 0; i < connections_most; i++) {
        count += connections[i].fd >= 0;
    }
    return count;
}

/* It is served once, and ends. */
static void expect_service(int fd)
{
    char byte;
    expect_greeting(fd);
    CHECK_EQ(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    CHECK_EQ(next_byte(fd), 'x');
    CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) < 0);
    shutdown(fd, SHUT_WR);
    int64_t deadline = now_ms() + wait_most_ms;
    for (int turn = 0; open_connections() > 0; turn++) {
        CHECK(now_ms() < deadline);
        run_turn(turn % workers, 0);
    }
    CHECK_EQ(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

/* --- The steps ------------------------------------------------------------------------------- */

static int create(const char *name)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.max_workers = slots;
    config.accept_delay_ms = delay_ms;
    config.name = name;
    return herd_create(&config, &herd);
}

/* The file of a Unix socket as a crashed server leaves it. */
static void leave_socket_file(void)
{
    struct sockaddr_un name;
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, socket_path, strlen(socket_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(socket_path);
    CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    close(fd);
}

static int listen_unix(void)
{
    char address[80];
    struct herd_listen_options options = HERD_LISTEN_OPTIONS_INIT;
    options.unix_mode = 0666; /* more than the umask leaves */
    snprintf(address, sizeof address, "unix:%s", socket_path);
    return herd_listen(herd, address, &options, inject_on_accept, NULL);
}

/* A worker of another process, which dies. */
static void lose_a_worker(void)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *of_child;
        step = "herd_worker_create in a child";
        int code = herd_worker_create(herd, slots - 1, &of_child);
        if (code < 0) {
            CHECK(script->hits > 0);
            disarm();
            CHECK_CODE(herd_worker_create(herd, slots - 1, &of_child), 0);
        }
        _exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
    STEP(herd_reap(herd, pid));
    STEP(herd_free_slots(herd));
    CHECK_CODE(herd_free_slots(herd), slots - workers);
}

/* The host closes a descriptor that is still watched, and whose file is open elsewhere. */
static void close_without_del(void)
{
    struct connection host;
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    host.fd = pair[0];
    host.slot = 0;
    watch(&host);
    STEP(herd_event_mod(worker[0], &host.event, HERD_READ | HERD_WRITE));
    int kept = fcntl(host.fd, F_DUPFD_CLOEXEC, 0);
    close(host.fd);
    int code = herd_event_del(worker[0], &host.event);
    CHECK(code != 0);
    if (code != -EBADF) {
        check_deleted(code);
    }
    CHECK_EQ(send(pair[1], "x", 1, MSG_NOSIGNAL), 1);
    step = "turns with a stale event";
    for (int turn = 0; turn < 4; turn++) {
        run_turn(0, 0);
    }
    close(kept);
    close(pair[1]);
}

static void hand_off(void)
{
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    sent_arrived = 0;
    STEP(herd_handoff_send(herd, HERD_PICK, pair[0], "tag", 3));
    CHECK(fcntl(pair[0], F_GETFD) < 0);
    step = "turns after herd_handoff_send";
    expect_service(pair[1]);
    CHECK_EQ(sent_arrived, 1);
}

static void observe(void)
{
    struct herd *observed = NULL;
    struct herd_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    STEP(herd_open(herd_name, &observed));
    STEP(herd_is_alive(observed));
    STEP(herd_stats_total(observed, &stats));
    CHECK_EQ(stats.slots, slots);
    step = "herd_destroy of an observer";
    CHECK_CODE((herd_destroy)(observed), 0);
}

static void serve_clients(void)
{
    step = "turns with a TCP client";
    expect_service(connect_to(address_of(herd, 0)));
    step = "turns with a Unix client";
    expect_service(connect_to(address_of(herd, 1)));
    step = "turns with two TCP clients";
    int first = connect_to(address_of(herd, 0)), second = connect_to(address_of(herd, 2));
    expect_greeting(first);
    expect_greeting(second);
    close(first);
    close(second);
    if (way != itself) {
        /* Nothing that nobody wants any more wakes the host. */
        step = "turns of an idle host";
        int64_t quiet_by = now_ms() + wait_most_ms;
        while (!host_is_quiet()) {
            CHECK(now_ms() < quiet_by);
            run_turn(0, 0);
        }
    }
    step = "turns after a tick of the guard";
    sleep_ms(2 * delay_ms);
    int64_t deadline = now_ms() + wait_most_ms;
    for (int turn = 0; turn < 6 || open_connections() > 0; turn++) {
        CHECK(now_ms() < deadline);
        run_turn(turn % workers, turn % 3);
    }
}

static void whole_life(void)
{
    leave_socket_file();
    int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(listen(host, 64), 0);
    int fds = open_fds();
    long blocks = shim->blocks;

    STEP(create(NULL));
    CHECK_CODE(herd_destroy(herd), 0);
    STEP(create(herd_name));
    STEP(herd_listen(herd, "127.0.0.1:0", NULL, inject_on_accept, NULL));
    STEP(listen_unix());
    STEP(herd_add_listener(herd, host, inject_on_accept, NULL));
    STEP(herd_listen(herd, "127.0.0.1:0", NULL, inject_on_accept, NULL));
    STEP(herd_remove_listener(herd, 3));
    if (herd_mode(herd) == HERD_MODE_HANDOFF) {
        STEP(herd_on_handoff(herd, on_sent, NULL));
    }
    STEP(herd_worker_create(herd, 0, &worker[0]));
    STEP(herd_worker_create(herd, 1, &worker[1]));
    if (way != itself) {
        host_worker();
    }
    serve_clients();
    lose_a_worker();
    close_without_del();
    if (herd_mode(herd) == HERD_MODE_HANDOFF) {
        hand_off();
    }
    observe();
    serve_clients();

    step = "herd_worker_destroy";
    CHECK_CODE(herd_worker_destroy(worker[1]), 0);
    CHECK_CODE(herd_worker_destroy(worker[0]), 0);
    if (way != itself) {
        struct epoll_event ready;
        CHECK_EQ(epoll_wait(host_set, &ready, 1, 0), 0);
        close(host_set);
    }
    step = "herd_destroy";
    int hits = script->hits;
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
    CHECK_EQ(shim->blocks, blocks);
    /* What cannot be removed stays. */
    if (script->hits == hits) {
        CHECK(access(socket_path, F_OK) < 0);
        CHECK(access(herd_path, F_OK) < 0);
    }
    close(host);
}

/* --- All faults ------------------------------------------------------------------------------ */

static long long rounds, hits_of[FAULT_CALLS];

static void round_with(int call, int error, int before, int failing)
{
    is_lasting = failing > 1;
    arm(call, error, before, failing);
    whole_life();
    hits_of[call] += script->hits;
    rounds++;
}

/* Where the others' connections wake a polled set the library refuses it. */
static int is_possible(enum way wanted)
{
    return wanted != nested || (mode != HERD_MODE_EXCLUSIVE && mode != HERD_MODE_REUSEPORT);
}

/* A sample: a quarter of the calls, with one of their errors. */
static void some_faults(const long long *made)
{
    for (int call = 0; call < FAULT_CALLS; call++) {
        if (made[call] > 0 && (call + (int)mode) % 4 == 0) {
            int error = shim->calls[call].errnos[(call / 2 + (int)mode) % error_count(call)];
            way = (enum way)((call / 2 + (int)mode) % ways);
            way = is_possible(way) ? way : itself;
            round_with(call, error, (int)((7 * (int)mode + call) % made[call]), 1);
        }
    }
}

static void all_faults(const long long *made)
{
    for (int call = 0; call < FAULT_CALLS; call++) {
        int count = made[call] < 60 ? (int)made[call] : 60, stride = way == itself ? 1 : 3;
        for (int before = 0; before < count; before += stride) {
            for (int i = 0; i < error_count(call); i++) {
                int error = shim->calls[call].errnos[i];
                round_with(call, error, before, 1);
                if (before % 4 == 0 && can_last(error)) {
                    round_with(call, error, before, 30);
                }
            }
        }
    }
}

static void run_mode(int is_slow)
{
    for (int number = itself; number < (is_slow ? ways : attached); number++) {
        way = (enum way)number;
        if (!is_possible(way)) {
            continue;
        }
        int64_t began_ms = now_ms();
        disarm();
        /* Some memory is made once in a process. */
        CHECK_CODE(create(NULL), 0);
        CHECK_CODE(herd_destroy(herd), 0);
        whole_life();
        memset(script->made, 0, sizeof script->made);
        whole_life();
        long long made[FAULT_CALLS];
        memcpy(made, script->made, sizeof made);
        if (is_slow) {
            all_faults(made);
        } else {
            some_faults(made);
        }
        printf("%s, %s: %lld rounds, %d ms\n", mode_name(mode), is_slow ? way_names[way] : "some of each",
               rounds, (int)(now_ms() - began_ms));
    }
}

/* What is made once in a process, by the first call that needs it. */
static void first_use(int is_slow)
{
    static const int once[] = {FAULT_MMAP, FAULT_MADVISE};
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < (is_slow ? error_count(once[which]) : 2); i++) {
            pid_t pid = test_fork();
            if (pid == 0) {
                STEP(create(NULL));
                arm(once[which], shim->calls[once[which]].errnos[i], 0, 1);
                STEP(herd_listen(herd, "127.0.0.1:0", NULL, inject_on_accept, NULL));
                CHECK_EQ(script->hits, 1);
                CHECK_CODE(herd_destroy(herd), 0);
                test_exit(0);
            }
            CHECK_EQ(test_join(pid), 0);
            hits_of[once[which]] += script->hits;
        }
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(test_is_slow() ? 3580 : 55);
    inject_begin(argv);
    atexit(say_where);
    snprintf(herd_name, sizeof herd_name, "faults-%d", (int)getpid());
    snprintf(herd_path, sizeof herd_path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), herd_name);
    snprintf(socket_path, sizeof socket_path, "/tmp/herd-faults-%d", (int)getpid());
    inject_connections(watch);
    first_use(test_is_slow());
    for (int i = 0; i < mode_count; i++) {
        mode = all_modes[i];
        run_mode(test_is_slow());
    }
    unlink(herd_path);
    unlink(socket_path);
    CHECK_EQ(script->unknown, 0);
    is_over = 1;
    for (int call = 0; call < FAULT_CALLS; call++) {
        printf("%-40s failed %lld times\n", shim->calls[call].name, hits_of[call]);
    }
    test_exit(0);
}
