/* raw_client HOST PORT READ_AFTER_MS [keep]: sends its input, and prints all that the peer answers until it closes.
 * After the last byte it closes its sending side, unless `keep` is given. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    char bytes[65536];
    alarm(20);
    if (argc < 4 || getaddrinfo(argv[1], argv[2], &hints, &found) != 0)
        return 2;
    int fd = socket(found->ai_family, found->ai_socktype, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
        return 1;
    pid_t sender = fork(); /* so that a peer that answers before it reads on is no deadlock */
    if (sender == 0) {
        alarm(20);
        for (ssize_t got; (got = read(STDIN_FILENO, bytes, sizeof bytes)) > 0;)
            for (ssize_t done = 0, sent; done < got; done += sent)
                if ((sent = send(fd, bytes + done, (size_t)(got - done), MSG_NOSIGNAL)) < 0)
                    _exit(0); /* the peer has had enough */
        if (argc < 5)
            shutdown(fd, SHUT_WR);
        _exit(0);
    }
    const long read_after_ms = atol(argv[3]);
    const struct timespec delay = { read_after_ms / 1000, read_after_ms % 1000 * 1000000 };
    nanosleep(&delay, NULL);
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        if (fwrite(bytes, 1, (size_t)got, stdout) != (size_t)got || fflush(stdout) != 0)
            return 1;
    return got == 0 ? 0 : 1; /* 1: the connection was reset */
}
