/* Target: an address of this machine, and sockets that connect to it. Knows nothing of what is sent there. */
#define _GNU_SOURCE
#include "target.h"
#include "load.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SOURCE_ADDRESSES = 200 }; /* 127.0.0.1 to 127.0.0.200 */

static struct target parse_unix(const char *text)
{
    struct target target = { .address.local.sun_family = AF_UNIX, .address_bytes = sizeof target.address.local };
    const char *path = text + strlen("unix:");
    if (strlen(path) >= sizeof target.address.local.sun_path)
        errx(EXIT_USAGE, "%s: the path is too long", text);
    strcpy(target.address.local.sun_path, path);
    return target;
}

struct target parse_target(const char *text)
{
    if (strncmp(text, "unix:/", strlen("unix:/")) == 0)
        return parse_unix(text);
    struct target target = { .address_bytes = 0 };
    char host[INET6_ADDRSTRLEN], after;
    unsigned port = 0;
    const bool v6 = text[0] == '[';
    const char *const format = v6 ? "[%45[^]]]:%5u%c" : "%45[^:]:%5u%c";
    if (sscanf(text, format, host, &port, &after) != 2 || port < 1 || port > UINT16_MAX)
        errx(EXIT_USAGE, "%s: not an address like 127.0.0.1:8080, [::1]:8080 or unix:/path", text);
    target.address.any.sa_family = v6 ? AF_INET6 : AF_INET;
    *(v6 ? &target.address.v6.sin6_port : &target.address.v4.sin_port) = htons((uint16_t)port);
    void *number = v6 ? (void *)&target.address.v6.sin6_addr : (void *)&target.address.v4.sin_addr;
    if (inet_pton(target.address.any.sa_family, host, number) != 1)
        errx(EXIT_USAGE, "%s: \"%s\" is not an IPv%c address (names are not looked up)", text, host, v6 ? '6' : '4');
    if (v6 ? !IN6_IS_ADDR_LOOPBACK(&target.address.v6.sin6_addr)
           : ntohl(target.address.v4.sin_addr.s_addr) >> IN_CLASSA_NSHIFT != IN_LOOPBACKNET)
        errx(EXIT_USAGE, "%s: refused, load sends traffic only to loopback and unix addresses", text);
    target.address_bytes = v6 ? sizeof target.address.v6 : sizeof target.address.v4;
    return target;
}

int connect_to(const struct target *target, unsigned source)
{
    int fd = socket(target->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    bool failed = false;
    if (target->address.any.sa_family == AF_INET) { /* 127/8 is all ours, and each source has its own local ports */
        /* NO_PORT: connect picks the port, knowing the peer (ip(7)); one picked by bind must be free for all peers. */
        const int on = 1;
        struct sockaddr_in from = { .sin_family = AF_INET };
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + source % SOURCE_ADDRESSES);
        failed = setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0
                 || bind(fd, (struct sockaddr *)&from, sizeof from) != 0;
    }
    if (!failed)
        failed = connect(fd, &target->address.any, target->address_bytes) != 0 && errno != EINPROGRESS;
    if (failed) {
        int why = errno;
        close(fd);
        return -why;
    }
    return fd;
}
