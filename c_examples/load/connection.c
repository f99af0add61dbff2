/*
 * Connection: sends one request and takes the answer to its end, which is the stream's or, if the connection is kept,
 * that of the length. Knows sockets, epoll and HTTP; not when a connection is due, nor who counts it.
 */
#define _GNU_SOURCE
#include "connection.h"
#include "load.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { READS_PER_EVENT = 16 /* an endless answer must not keep the loop from its timeouts */, SCRATCH_BYTES = 65536 };

static int outcome_of(int error)
{
    switch (error) {
    case ECONNREFUSED: return CONNECT_REFUSED;
    case ECONNRESET:
    case EPIPE: return RESET;
    case ETIMEDOUT: return TIMED_OUT;
    default: return OTHER_ERRNO + (error < ERRNO_END ? error : 0);
    }
}

/* Sends what is left. On loopback the handshake is over when connect returns, so most need no EPOLLOUT. */
static int send_request(struct connection *connection, int epoll_fd, int epoll_operation)
{
    const struct request *request = connection->request;
    const bool waited = connection->waits_for_out;
    ssize_t sent = send(connection->fd, request->text + connection->sent_bytes, request->bytes - connection->sent_bytes,
                        MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        return outcome_of(errno);
    connection->sent_bytes += sent > 0 ? (size_t)sent : 0;
    connection->waits_for_out = connection->sent_bytes < request->bytes;
    if (epoll_operation == EPOLL_CTL_MOD && waited == connection->waits_for_out)
        return UNDECIDED;
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = connection };
    event.events |= connection->waits_for_out ? EPOLLOUT : 0;
    return epoll_ctl(epoll_fd, epoll_operation, connection->fd, &event) != 0 ? outcome_of(errno) : UNDECIDED;
}

int begin_request(struct connection *connection, int fd, const struct request *request, int epoll_fd)
{
    connection->fd = fd;
    connection->request = request;
    connection->sent_bytes = connection->answer.head_bytes = 0;
    connection->answer.head_complete = connection->waits_for_out = connection->is_answered = false;
    return fd < 0 ? outcome_of(-fd) : send_request(connection, epoll_fd, EPOLL_CTL_ADD);
}

static int whole_answer(struct connection *connection)
{
    connection->is_answered = true;
    return connection->answer.status == 200 ? ANSWERED : BAD_STATUS;
}

static int take_end_of_stream(struct connection *connection)
{
    const struct answer *answer = &connection->answer;
    if (connection->is_answered)
        return CLOSED_WHILE_HELD;
    if (!answer->head_complete || (answer->length_bytes != NEVER && answer->body_bytes < answer->length_bytes)
        || connection->request->keep_alive)
        return SHORT_ANSWER;
    return whole_answer(connection);
}

static int take_bytes(struct connection *connection, size_t bytes)
{
    struct answer *answer = &connection->answer;
    const bool keep_alive = connection->request->keep_alive;
    if (connection->is_answered)
        return BAD_ANSWER;
    if (answer->head_complete)
        answer->body_bytes += bytes;
    else if (!take_head_bytes(answer, bytes))
        return BAD_ANSWER;
    if (!answer->head_complete)
        return UNDECIDED;
    if (answer->body_bytes > answer->length_bytes || (keep_alive && answer->length_bytes == NEVER))
        return BAD_ANSWER;
    return keep_alive && answer->body_bytes == answer->length_bytes ? whole_answer(connection) : UNDECIDED;
}

int continue_connection(struct connection *connection, uint32_t events, int epoll_fd)
{
    static char scratch[SCRATCH_BYTES]; /* bodies are counted, not kept */
    if (connection->waits_for_out) /* what there is to read is still there in the next wait */
        return send_request(connection, epoll_fd, EPOLL_CTL_MOD);
    int outcome = UNDECIDED;
    for (int reads = 0; reads < READS_PER_EVENT && outcome == UNDECIDED; reads++) {
        struct answer *answer = &connection->answer;
        char *into = answer->head_complete ? scratch : answer->head + answer->head_bytes;
        size_t room = answer->head_complete ? sizeof scratch : HEAD_MAX_BYTES - answer->head_bytes;
        ssize_t got = recv(connection->fd, into, room, 0);
        if (got < 0)
            return errno == EAGAIN ? UNDECIDED : outcome_of(errno);
        if (got == 0)
            return take_end_of_stream(connection);
        outcome = take_bytes(connection, (size_t)got);
        if ((size_t)got < room && !(events & (EPOLLRDHUP | EPOLLHUP)))
            break; /* after a short read only the end of the stream is worth another call */
    }
    return outcome;
}
