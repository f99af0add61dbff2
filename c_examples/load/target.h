/* The address of the server. */
#ifndef LOAD_TARGET_H
#define LOAD_TARGET_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

struct target {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } address;
    socklen_t address_bytes;
};

/* Ends the program with EXIT_USAGE if this is not an address of this machine. */
struct target parse_target(const char *text);

/* Starts a connect that may still be in progress; returns the socket or a negated errno. `source`: any number, best a
 * new one each time. */
int connect_to(const struct target *target, unsigned source);

#endif
