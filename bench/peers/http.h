/* The job that all peers do, which is that of c_examples/hello_prefork: the same requests, the same answers. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEAD_MAX_BYTES = 8192, ANSWER_MAX_BYTES = 2048, SLOW_MAX_MS = 60000 };

/* A connection's bytes: what came in and was not answered yet, what goes out and was not sent yet. */
struct exchange {
    bool closing; /* after what is in out */
    size_t in_bytes, out_begin, out_bytes;
    char in[HEAD_MAX_BYTES + 1], out[ANSWER_MAX_BYTES];
};

static int slot, own_pid; /* the worker's */

static void answer(struct exchange *exchange, const char *status, const char *body)
{
    int bytes = snprintf(exchange->out, sizeof exchange->out,
        "HTTP/1.1 %s\r\nX-Herd-Slot: %d\r\nX-Herd-Pid: %d\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
        "Connection: %s\r\n\r\n%s",
        status, slot, own_pid, strlen(body), exchange->closing ? "close" : "keep-alive", body);
    exchange->out_begin = 0;
    exchange->out_bytes = (size_t)bytes;
}

static const char *header(const char *head, const char *name)
{
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0 && line[2 + strlen(name)] == ':')
            return line + 3 + strlen(name) + strspn(line + 3 + strlen(name), " \t");
    return NULL;
}

static void refuse(struct exchange *exchange, const char *status)
{
    exchange->closing = true;
    answer(exchange, status, status);
}

static void answer_request(struct exchange *exchange, const char *head)
{
    char method[16], target[1024], after[2], slow_ms[10];
    int minor = 0;
    if (sscanf(head, "%15[A-Z] %1023[!-~] HTTP/1.%1d%1[\r]", method, target, &minor, after) != 4) {
        refuse(exchange, "400 Bad Request");
        return;
    }
    const char *wish = header(head, "Connection"), *body_bytes = header(head, "Content-Length");
    if (strcmp(method, "GET") != 0) {
        refuse(exchange, "405 Method Not Allowed");
        return;
    }
    if (header(head, "Transfer-Encoding") != NULL || (body_bytes != NULL && strtoull(body_bytes, NULL, 10) != 0)) {
        refuse(exchange, "400 Bad Request");
        return;
    }
    exchange->closing = minor == 0 ? wish == NULL || strncasecmp(wish, "keep-alive", 10) != 0
                                   : wish != NULL && strncasecmp(wish, "close", 5) == 0;
    if (sscanf(target, "/slow?ms=%9[0-9]%1c", slow_ms, after) == 1) {
        const int ms = atoi(slow_ms) < SLOW_MAX_MS ? atoi(slow_ms) : SLOW_MAX_MS;
        nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
        answer(exchange, "200 OK", "slow\n");
    } else {
        target[strcspn(target, "?")] = '\0';
        const bool found = strcmp(target, "/") == 0;
        answer(exchange, found ? "200 OK" : "404 Not Found", found ? "hello\n" : "not found\n");
    }
}

/* Answers the next complete request; false: more of it has to come. */
static bool answer_next(struct exchange *exchange)
{
    char *end = memmem(exchange->in, exchange->in_bytes, "\r\n\r\n", 4);
    if (end == NULL && exchange->in_bytes < HEAD_MAX_BYTES)
        return false;
    if (end == NULL) {
        refuse(exchange, "431 Request Header Fields Too Large");
        return true;
    }
    end[2] = '\0';
    answer_request(exchange, exchange->in);
    exchange->in_bytes -= (size_t)(end + 4 - exchange->in);
    memmove(exchange->in, end + 4, exchange->in_bytes);
    return true;
}
