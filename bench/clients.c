/*
 * clients: what c_examples/load cannot see. Knows sockets, /proc and sock_diag(7), and not libherd, so that libherd
 * and its peers are measured by the same ruler.
 *
 *   clients wakeups ADDR SERVER_PID COUNT GAP_US
 *       COUNT connections, one every GAP_US, without a request; then a request on each. Prints sleeps_open (voluntary
 *       context switches of the server, a connection) and sleeps_request (both parts together).
 *   clients wait ADDR SERVER_PID RATE MS [SLOW_EVERY SLOW_MS | none|kill|stop|orphan_kill|orphan_stop]
 *       A connection with one request at fixed times. One in SLOW_EVERY asks for /slow?ms=SLOW_MS; or after a third of the
 *       time the worker that accepted last gets SIGKILL or SIGSTOP, orphan_: the master SIGKILL before.
 *       From a slow request to the next there are two to four thirds of SLOW_EVERY, drawn: at fixed distances they keep
 *       step with a server that tries again at fixed times, and what is measured is the phase between the two.
 *       A client's time to be accepted ends when the kernel says that its connection has an owner (the inode of the
 *       server's end, asked every 250 us) or when its answer comes; its wait ends with the answer. Those that the
 *       killed or stopped worker had accepted are counted as taken_along and not as waiting.
 *       Prints: clients, accept_p999_us, accept_worst_us, wait_p999_us, wait_worst_us, over_50ms (share, without slow
 *       requests), lost (never accepted), taken_along, late_worst_us (of this program itself).
 * Exit 1: it could not be measured.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 20000, WORKERS_MAX = 1024, ANSWER_MAX_BYTES = 2048, LOOK_US = 250, GRACE_US = 600000,
       SETTLE_US = 30000, LONG_US = 50000, ORPHAN_US = 20000, US_PER_S = 1000000 };

static struct sockaddr_in server;
static int workers[WORKERS_MAX], worker_count;

static void fail(const char *what)
{
    fprintf(stderr, "clients: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

static void parse_address(const char *text)
{
    char host[64];
    unsigned port;
    server.sin_family = AF_INET;
    if (sscanf(text, "%63[^:]:%5u", host, &port) != 2 || inet_pton(AF_INET, host, &server.sin_addr) != 1
        || ntohl(server.sin_addr.s_addr) >> IN_CLASSA_NSHIFT != IN_LOOPBACKNET)
        fail(text);
    server.sin_port = htons((uint16_t)port);
}

/* The workers are the children of the master. */
static void find_workers(int master)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", master, master);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail(path);
    for (worker_count = 0; worker_count < WORKERS_MAX && fscanf(file, "%d", &workers[worker_count]) == 1;)
        worker_count++;
    fclose(file);
}

/* ---- wakeups ---- */

static long worker_sleeps(void)
{
    long total = 0;
    for (int i = 0; i < worker_count; i++) {
        char path[64], line[256];
        long sleeps = 0;
        snprintf(path, sizeof path, "/proc/%d/status", workers[i]);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            fail(path);
        while (fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps) == 1)
                total += sleeps;
        fclose(file);
    }
    return total;
}

static const char request_text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

static void send_request(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        fail("send");
}

static int open_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&server, sizeof server) == 0)
        return fd;
    if (fd < 0 || errno != ECONNREFUSED)
        fail("connect");
    close(fd);
    return -1; /* nobody listens: where the master accepts, it takes the listener along */
}

static int measure_wakeups(int count, int gap_us)
{
    static int fds[CLIENTS_MAX];
    char answer[ANSWER_MAX_BYTES];
    if (count < 1 || count > CLIENTS_MAX)
        fail("count");
    usleep(SETTLE_US);
    const long before = worker_sleeps();
    for (int i = 0; i < count; i++) {
        if ((fds[i] = open_connection()) < 0)
            fail("connect");
        usleep((useconds_t)gap_us);
    }
    usleep(SETTLE_US);
    const long opened = worker_sleeps();
    for (int i = 0; i < count; i++) {
        send_request(fds[i], request_text);
        if (recv(fds[i], answer, sizeof answer, 0) <= 0)
            fail("no answer");
        usleep((useconds_t)gap_us);
    }
    usleep(SETTLE_US);
    const long answered = worker_sleeps();
    printf("sleeps_open %.4f\nsleeps_request %.4f\n", (double)(opened - before) / count,
           (double)(answered - before) / count);
    return EXIT_SUCCESS;
}

/* ---- wait ---- */

static struct client {
    int fd, port;
    bool slow, is_done, taken_along;
    int64_t from_us, accepted_us, answered_us, look_us; /* accepted, answered: 0 not yet */
} clients[CLIENTS_MAX];

static int diag_fd = -1;

/* Whether the server's end of a connection has an owner, which a connection in the backlog has not. */
static bool is_accepted(const struct client *client)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = { .head = { .nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                             .nlmsg_flags = NLM_F_REQUEST },
                   .body = { .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u } };
    question.body.id.idiag_sport = server.sin_port;
    question.body.id.idiag_dport = (uint16_t)client->port;
    question.body.id.idiag_src[0] = question.body.id.idiag_dst[0] = server.sin_addr.s_addr;
    question.body.id.idiag_cookie[0] = question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    if (send(diag_fd, &question, sizeof question, 0) < 0 || recv(diag_fd, &answer, sizeof answer, 0) < 0)
        fail("sock_diag");
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return true; /* gone already: it was accepted and closed, or reset */
    return ((struct inet_diag_msg *)NLMSG_DATA(&answer.head))->idiag_inode != 0;
}

static int last_worker; /* who answered last */

static void take_answer(struct client *client)
{
    char answer[ANSWER_MAX_BYTES + 1];
    ssize_t got = recv(client->fd, answer, ANSWER_MAX_BYTES, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    client->is_done = true;
    close(client->fd);
    if (got <= 0) {
        client->taken_along = true;
        return;
    }
    answer[got] = '\0';
    const char *pid = strstr(answer, "X-Herd-Pid: ");
    client->answered_us = now_us();
    if (client->accepted_us == 0)
        client->accepted_us = client->answered_us;
    if (pid != NULL)
        last_worker = atoi(pid + strlen("X-Herd-Pid: "));
}

static void start_client(struct client *client, bool slow, const char *slow_request)
{
    struct sockaddr_in own;
    socklen_t bytes = sizeof own;
    client->slow = slow;
    client->from_us = now_us(); /* this program's own lateness is not the server's */
    if ((client->fd = open_connection()) < 0) {
        client->is_done = true; /* and neither accepted nor answered */
        return;
    }
    getsockname(client->fd, (struct sockaddr *)&own, &bytes);
    client->port = own.sin_port;
    send_request(client->fd, slow ? slow_request
                                  : "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client->look_us = now_us() + LOOK_US;
}

/* After how many requests the next slow one comes: SLOW_EVERY on average. */
static int next_slow(int slow_every)
{
    return slow_every * 2 / 3 + (int)(random() % (slow_every * 2 / 3 + 1));
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, int64_t *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare);
    const int at = (int)((double)count * 0.999);
    printf("%s_p999_us %lld\n%s_worst_us %lld\n", name, count > 0 ? (long long)times[at < count ? at : count - 1] : 0,
           name, count > 0 ? (long long)times[count - 1] : 0);
}

static int measure_wait(int master, double rate, int64_t length_us, int slow_every, int slow_ms, const char *event)
{
    static int64_t accept_times[CLIENTS_MAX], wait_times[CLIENTS_MAX];
    static struct pollfd waiting[CLIENTS_MAX];
    static int waiting_client[CLIENTS_MAX];
    const int total = (int)(rate * (double)length_us / US_PER_S);
    const bool orphans = strncmp(event, "orphan_", 7) == 0;
    const char *const what = orphans ? event + 7 : event;
    char slow_request[128];
    if (total < 1 || total > CLIENTS_MAX)
        fail("too many clients");
    snprintf(slow_request, sizeof slow_request,
             "GET /slow?ms=%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", slow_ms);
    if ((diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) < 0)
        fail("sock_diag");
    prctl(PR_SET_TIMERSLACK, 1UL);

    const int64_t begin_us = now_us(), end_us = begin_us + length_us + GRACE_US;
    int64_t orphan_at_us = orphans ? begin_us + length_us / 3 : INT64_MAX, late_worst_us = 0;
    int64_t event_at_us = strcmp(what, "none") == 0 ? INT64_MAX
                                                    : begin_us + length_us / 3 + (orphans ? ORPHAN_US : 0);
    int started = 0, first_open = 0, slow_at = slow_every > 0 ? next_slow(slow_every) : -1;
    for (int64_t now = begin_us; now < end_us; now = now_us()) {
        if (now >= orphan_at_us) {
            kill(master, SIGKILL);
            orphan_at_us = INT64_MAX;
        }
        if (now >= event_at_us && last_worker != 0) {
            kill(last_worker, strcmp(what, "kill") == 0 ? SIGKILL : SIGSTOP);
            event_at_us = INT64_MAX;
        }
        int64_t due_us = begin_us + (int64_t)(started * (US_PER_S / rate));
        if (started < total && now >= due_us) {
            late_worst_us = now - due_us > late_worst_us ? now - due_us : late_worst_us;
            const bool slow = started == slow_at;
            slow_at += slow ? next_slow(slow_every) : 0;
            start_client(&clients[started++], slow, slow_request);
            continue;
        }
        int64_t wake_us = started < total ? due_us : end_us;
        wake_us = orphan_at_us < wake_us ? orphan_at_us : wake_us;
        wake_us = event_at_us < wake_us ? event_at_us : wake_us;
        nfds_t count = 0;
        while (first_open < started && clients[first_open].is_done)
            first_open++;
        if (first_open == total)
            break;
        for (int i = first_open; i < started; i++) {
            struct client *client = &clients[i];
            if (client->is_done)
                continue;
            if (client->accepted_us == 0 && now >= client->look_us) {
                client->look_us = now_us() + LOOK_US;
                if (is_accepted(client))
                    client->accepted_us = now_us();
            }
            if (client->accepted_us == 0)
                wake_us = client->look_us < wake_us ? client->look_us : wake_us;
            waiting[count] = (struct pollfd){ .fd = client->fd, .events = POLLIN };
            waiting_client[count++] = i;
        }
        now = now_us();
        const int64_t left_us = wake_us > now ? wake_us - now : 0;
        const struct timespec timeout = { left_us / US_PER_S, left_us % US_PER_S * 1000 };
        if (ppoll(waiting, count, &timeout, NULL) > 0)
            for (nfds_t i = 0; i < count; i++)
                if (waiting[i].revents != 0)
                    take_answer(&clients[waiting_client[i]]);
    }

    int accepts = 0, waits = 0, over = 0, lost = 0, taken_along = 0;
    for (int i = 0; i < started; i++) {
        const struct client *client = &clients[i];
        const bool unanswered = client->answered_us == 0;
        lost += unanswered && !client->taken_along && client->accepted_us == 0;
        taken_along += unanswered && (client->taken_along || client->accepted_us != 0);
        const int64_t until_us = client->accepted_us != 0 ? client->accepted_us : end_us;
        if (!client->taken_along || client->accepted_us != 0)
            accept_times[accepts++] = until_us - client->from_us;
        if (client->slow || (unanswered && (client->taken_along || client->accepted_us != 0)))
            continue;
        const int64_t wait_us = (unanswered ? end_us : client->answered_us) - client->from_us;
        over += wait_us > LONG_US;
        wait_times[waits++] = wait_us;
    }
    printf("clients %d\n", started);
    print_times("accept", accept_times, accepts);
    print_times("wait", wait_times, waits);
    printf("over_50ms %.6f\nlost %d\ntaken_along %d\nlate_worst_us %lld\n", waits > 0 ? (double)over / waits : 0.0, lost,
           taken_along, (long long)late_worst_us);
    /* Stopped workers, and those without a master, would stay. */
    if (strcmp(what, "none") != 0)
        for (int i = 0; i < worker_count; i++)
            if (orphans || workers[i] == last_worker || strcmp(what, "stop") == 0)
                kill(workers[i], SIGKILL);
    if (event_at_us != INT64_MAX) {
        errno = ESRCH;
        fail("no worker answered before the event");
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (argc < 6) {
        fputs("usage: clients wakeups ADDR PID COUNT GAP_US | clients wait ADDR PID RATE MS [...]\n", stderr);
        return 2;
    }
    parse_address(argv[2]);
    const int master = atoi(argv[3]);
    find_workers(master);
    if (strcmp(argv[1], "wakeups") == 0)
        return measure_wakeups(atoi(argv[4]), atoi(argv[5]));
    const bool slow = argc == 8;
    srandom((unsigned)now_us());
    return measure_wait(master, atof(argv[4]), atoll(argv[5]) * 1000, slow ? atoi(argv[6]) : 0,
                        slow ? atoi(argv[7]) : 0, argc == 7 ? argv[6] : "none");
}
