/*
 * The HTTP/1.1 of these servers: what one connection has received and has to send. A server of your own has its
 * protocol in this place. Knows the worker's state and the herd's figures; not how accepts and readiness come.
 *
 * A program calls begin_exchange for a new connection, serve when its descriptor is ready, and end_exchange. A loop that
 * reads and writes itself has take_in, answer_next and has_ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <herd.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX_BYTES = 8192, ANSWER_MAX_BYTES = 2048, ANSWER_HEAD_BYTES = 512, DISCARD_MAX_BYTES = 1 << 20,
       SLOW_MAX_MS = 60000, SLICE_MS = 10 };

static struct herd *herd; /* the program's */

struct exchange {
    struct herd_worker *worker;
    bool answered, closing, lingering; /* lingering: closed for the peer, and what it still sends is thrown away */
    size_t in_bytes, out_begin, out_bytes, discarded_bytes;
    char *out; /* short_out, or memory of its own for an answer that is longer */
    char in[HEAD_MAX_BYTES + 1], short_out[ANSWER_MAX_BYTES];
};

static void begin_exchange(struct exchange *exchange, struct herd_worker *worker)
{
    memset(exchange, 0, offsetof(struct exchange, in)); /* the buffers can stay as they are */
    exchange->worker = worker;
    exchange->out = exchange->short_out;
}

static void end_exchange(struct exchange *exchange)
{
    if (exchange->out != exchange->short_out)
        free(exchange->out);
    exchange->out = exchange->short_out;
}

static bool is_leaving(const struct exchange *exchange)
{
    return herd_worker_state(exchange->worker) != HERD_WORKER_RUNNING;
}

/* ---- answers ---- */

static void answer(struct exchange *exchange, const char *status, const char *body, bool with_body)
{
    static __thread pid_t pid; /* getpid(2) is a system call, and nobody forks who has answered */
    size_t room = sizeof exchange->short_out;
    const size_t wanted = ANSWER_HEAD_BYTES + (with_body ? strlen(body) : 0);
    pid = pid != 0 ? pid : getpid();
    exchange->closing = exchange->closing || is_leaving(exchange);
    end_exchange(exchange);
    if (wanted > room && (exchange->out = malloc(room = wanted)) == NULL) {
        exchange->out = exchange->short_out;
        status = "500 Internal Server Error", body = "", room = sizeof exchange->short_out;
    }
    int bytes = snprintf(exchange->out, room,
        "HTTP/1.1 %s\r\nX-Herd-Slot: %d\r\nX-Herd-Pid: %d\r\n"
        "Content-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
        "%sConnection: %s\r\n\r\n%s",
        status, herd_worker_slot(exchange->worker), (int)pid, strlen(body),
        strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "", exchange->closing ? "close" : "keep-alive",
        with_body ? body : "");
    exchange->out_begin = 0;
    exchange->out_bytes = (size_t)bytes < room ? (size_t)bytes : room - 1;
    exchange->answered = true;
}

/* What cannot be answered ends the connection. The peer may still be sending: closing at once would reset the
 * connection (RFC 9112, 9.6), and the peer might never see why. */
static void refuse(struct exchange *exchange, const char *status)
{
    exchange->closing = exchange->lingering = true;
    exchange->in_bytes = 0;
    answer(exchange, status, status, true);
}

/* A handler that blocks, as handlers do: its worker serves nobody meanwhile. In slices, to end soon if the worker is
 * stopped, and up to fixed times, so that on a busy machine many slices take no longer than one. */
static void answer_slowly(struct exchange *exchange, int ms, bool with_body)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    for (; ms > 0 && herd_worker_state(exchange->worker) != HERD_WORKER_STOPPED; ms -= SLICE_MS) {
        until.tv_nsec += (ms < SLICE_MS ? ms : SLICE_MS) * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    if (ms <= 0) {
        answer(exchange, "200 OK", "slow\n", with_body);
        return;
    }
    exchange->closing = true; /* without an answer */
    exchange->out_begin = exchange->out_bytes = 0;
}

#define EACH_COUNTER(DO) DO(connections_open) DO(accepted) DO(closed) DO(turns) DO(wakeups) DO(wasted_wakeups) \
    DO(accept_eagain) DO(accept_retries) DO(backoffs) DO(acquisitions) DO(failed_tries) DO(handovers) DO(reorders) \
    DO(guard_ticks) DO(guard_useful) DO(blind_accepts) DO(thefts) DO(reaps) DO(stale_events)
#define COUNTER_LINE(member) #member " %" PRIu64 "\n"
#define COUNTER_VALUE(member) , stats.member
static void answer_counters(struct exchange *exchange, bool with_body)
{
    char text[ANSWER_MAX_BYTES / 2];
    struct herd_stats stats = { .size = sizeof stats };
    herd_stats_total(herd, &stats);
    snprintf(text, sizeof text, "workers %" PRIu32 "\n" EACH_COUNTER(COUNTER_LINE),
             stats.workers EACH_COUNTER(COUNTER_VALUE));
    answer(exchange, "200 OK", text, with_body);
}

static void answer_metrics(struct exchange *exchange, bool with_body)
{
    const int room = herd_stats_text(herd, NULL, 0);
    char *text = room > 0 ? malloc((size_t)room) : NULL;
    if (text != NULL && herd_stats_text(herd, text, (size_t)room) >= 0)
        answer(exchange, "200 OK", text, with_body);
    else
        answer(exchange, "500 Internal Server Error", "no metrics\n", with_body);
    free(text);
}

/* ---- requests ---- */

static const char *header(const char *head, const char *name) /* its value, up to the end of the line; or NULL */
{
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0 && line[2 + strlen(name)] == ':')
            return line + 3 + strlen(name) + strspn(line + 3 + strlen(name), " \t");
    return NULL;
}

/* `head` goes up to the empty line; `bytes` tells whether there is a NUL within. */
static void answer_request(struct exchange *exchange, const char *head, size_t bytes)
{
    char method[16], target[1024], after[2], slow_ms[10];
    int minor = 0;
    int found_parts = sscanf(head, "%15[A-Z] %1023[!-~] HTTP/1.%1d%1[\r]", method, target, &minor, after);
    if (strlen(head) != bytes || found_parts != 4 || target[0] != '/') {
        refuse(exchange, "400 Bad Request");
        return;
    }
    const char *wish = header(head, "Connection"), *body_bytes = header(head, "Content-Length");
    const bool with_body = strcmp(method, "HEAD") != 0;
    if (with_body && strcmp(method, "GET") != 0) {
        refuse(exchange, "405 Method Not Allowed");
        return;
    }
    if (header(head, "Transfer-Encoding") != NULL || (body_bytes != NULL && strtoull(body_bytes, NULL, 10) != 0)) {
        refuse(exchange, "400 Bad Request"); /* a body would be taken for the next request */
        return;
    }
    exchange->closing = minor == 0 ? wish == NULL || strncasecmp(wish, "keep-alive", 10) != 0
                                   : wish != NULL && strncasecmp(wish, "close", 5) == 0;
    herd_request_done(exchange->worker);
    if (strcmp(target, "/counters") == 0) {
        answer_counters(exchange, with_body);
    } else if (strcmp(target, "/metrics") == 0) {
        answer_metrics(exchange, with_body);
    } else if (sscanf(target, "/slow?ms=%9[0-9]%1c", slow_ms, after) == 1) {
        const int ms = atoi(slow_ms);
        answer_slowly(exchange, ms < SLOW_MAX_MS ? ms : SLOW_MAX_MS, with_body);
    } else {
        const bool found = target[1] == '\0' || target[1] == '?';
        answer(exchange, found ? "200 OK" : "404 Not Found", found ? "hello\n" : "not found\n", with_body);
    }
}

static bool answer_next(struct exchange *exchange) /* false: more of the request has to come */
{
    char *end = memmem(exchange->in, exchange->in_bytes, "\r\n\r\n", 4);
    if (end == NULL && exchange->in_bytes < HEAD_MAX_BYTES)
        return false;
    if (end == NULL) {
        refuse(exchange, "431 Request Header Fields Too Large");
        return true;
    }
    end[2] = '\0';
    answer_request(exchange, exchange->in, (size_t)(end + 2 - exchange->in));
    if (exchange->in_bytes > 0) { /* not refused */
        exchange->in_bytes -= (size_t)(end + 4 - exchange->in);
        memmove(exchange->in, end + 4, exchange->in_bytes);
    }
    return true;
}

/* Takes in what has been read into the buffer. False: the peer has sent too much. */
static bool take_in(struct exchange *exchange, size_t bytes)
{
    if (exchange->lingering)
        return (exchange->discarded_bytes += bytes) < DISCARD_MAX_BYTES;
    exchange->in_bytes += bytes;
    return true;
}

/* The worker leaves, and no request has begun. */
static bool has_idled_out(const struct exchange *exchange)
{
    return exchange->answered && exchange->in_bytes == 0 && is_leaving(exchange);
}

static bool has_ended(const struct exchange *exchange) /* all is sent, and nothing more will be */
{
    return has_idled_out(exchange) || (exchange->closing && !exchange->lingering);
}

/* ---- for loops that say when a descriptor is ready; others leave this out (hence inline) ---- */

enum next { NEXT_CLOSE, NEXT_READ, NEXT_WRITE };

/* 1: all is sent; 0: the peer has to read first; -1: it is gone */
static inline int flush_out(struct exchange *exchange, int fd)
{
    while (exchange->out_begin < exchange->out_bytes) {
        ssize_t sent = send(fd, exchange->out + exchange->out_begin, exchange->out_bytes - exchange->out_begin,
                            MSG_NOSIGNAL);
        if (sent >= 0)
            exchange->out_begin += (size_t)sent;
        else if (errno != EINTR)
            return errno == EAGAIN ? 0 : -1;
    }
    return 1;
}

/* Reads once, so that a peer that never stops sending does not keep the worker from the others, and answers what is
 * complete. Returns what to wait for. */
static inline enum next serve(struct exchange *exchange, int fd, bool readable)
{
    if (readable) {
        ssize_t got = recv(fd, exchange->in + exchange->in_bytes, HEAD_MAX_BYTES - exchange->in_bytes, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)
            || (got > 0 && !take_in(exchange, (size_t)got)))
            return NEXT_CLOSE;
    }
    int flushed;
    while ((flushed = flush_out(exchange, fd)) == 1 && !exchange->closing && answer_next(exchange)) { }
    if (flushed < 0 || (flushed == 1 && has_ended(exchange)))
        return NEXT_CLOSE;
    if (flushed == 1 && exchange->lingering)
        shutdown(fd, SHUT_WR);
    return flushed == 1 ? NEXT_READ : NEXT_WRITE;
}
