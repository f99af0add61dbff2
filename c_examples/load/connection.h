/* A connection of a client: one request, one answer. */
#ifndef LOAD_CONNECTION_H
#define LOAD_CONNECTION_H

#include "http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* What has become of it. From OTHER_ERRNO on: OTHER_ERRNO + errno; an errno of ERRNO_END or more counts as 0. */
enum { UNDECIDED, ANSWERED, CONNECT_REFUSED, RESET, TIMED_OUT, SHORT_ANSWER, BAD_STATUS, BAD_ANSWER, CLOSED_WHILE_HELD,
       OTHER_ERRNO, ERRNO_END = 160, OUTCOMES = OTHER_ERRNO + ERRNO_END };

struct connection {
    /* Its own. */
    int fd;
    const struct request *request;
    size_t sent_bytes;
    bool waits_for_out, is_answered;
    struct answer answer;
    /* Of the run, which has it in one of its lists. */
    TAILQ_ENTRY(connection) link;
    struct connection_list *list;
    uint64_t latency_from_us, deadline_us;
};

/* The calls return an outcome. `fd` is a socket that may still connect, or a negated errno; closing it is up to the
 * caller. Events come with the connection as data. */
int begin_request(struct connection *connection, int fd, const struct request *request, int epoll_fd);
int continue_connection(struct connection *connection, uint32_t events, int epoll_fd);

#endif
