/* What the peers that do their own recv and send have in common. Include http.h before. */
#include <errno.h>
#include <sys/socket.h>

enum progress { GONE = -1, SEND_LATER, IDLE };

/* Reads once, answers what is complete, sends what it can. GONE: close the connection; SEND_LATER: the peer has to
 * read first, wait until the socket is writable; IDLE: all is sent, wait for more. */
static enum progress serve(int fd, struct exchange *exchange, bool readable)
{
    if (readable) {
        ssize_t got = recv(fd, exchange->in + exchange->in_bytes, HEAD_MAX_BYTES - exchange->in_bytes, 0);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR) ? IDLE : GONE;
        exchange->in_bytes += (size_t)got;
    }
    do
        while (exchange->out_begin < exchange->out_bytes) {
            ssize_t sent = send(fd, exchange->out + exchange->out_begin, exchange->out_bytes - exchange->out_begin,
                                MSG_NOSIGNAL);
            if (sent >= 0)
                exchange->out_begin += (size_t)sent;
            else if (errno != EINTR)
                return errno == EAGAIN ? SEND_LATER : GONE;
        }
    while (!exchange->closing && answer_next(exchange));
    return exchange->closing ? GONE : IDLE;
}
