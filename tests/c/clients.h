/*
 * Clients, and the proof that every herd which a test gives back has accepted all of them. The end of check.h
 * includes it. C99 and C++17.
 */
#ifndef CLIENTS_H
#define CLIENTS_H

/* --- Counting ---------------------------------------------------------------------------- */

/* A herd of which its clients' connections cannot be counted: a listener was removed, or the test says so. */
static const struct herd *check_uncounted;

/* Connections in the backlog of a TCP socket. */
CHECK_HELPER int waiting_at(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_state == TCP_LISTEN ? (int)info.tcpi_unacked : 0;
}

/* Connections in the backlog of a TCP listener: those that accept4(2) would get now. */
CHECK_HELPER int waiting_connections(const struct herd *herd, int listener)
{
    int fd = herd_listener_fd(herd, listener), more;
    CHECK(fd >= 0);
    int waiting = waiting_at(fd);
    for (int slot = 1; (more = herd_slot_listener_fd(herd, listener, slot)) >= 0; slot++) {
        waiting += more != fd ? waiting_at(more) : 0;
    }
    return waiting;
}

/* The count of a listener's port; Unix sockets have that of port 0 together. */
CHECK_HELPER unsigned *check_port(const struct herd *herd, int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    CHECK_EQ(getsockname(herd_listener_fd(herd, listener), (struct sockaddr *)&address, &length), 0);
    return address.ss_family == AF_INET    ? &check_connected[ntohs(((struct sockaddr_in *)&address)->sin_port)]
           : address.ss_family == AF_INET6 ? &check_connected[ntohs(((struct sockaddr_in6 *)&address)->sin6_port)]
                                           : check_connected;
}

/* Whether all that clients connected was accepted or is still in the backlog. A worker that was killed
 * may have died between accepting and counting. */
CHECK_HELPER int clients_are_counted(const struct herd *herd)
{
    struct herd_stats total = total_stats(herd);
    uint64_t made = 0, seen = total.accepted + total.accept_retries;
    int has_unix = 0;
    if (herd_listener_fd(herd, 0) < 0) {
        return 1; /* none has connected, or it is looked at from outside */
    }
    for (int listener = 0; herd_listener_fd(herd, listener) >= 0; listener++) {
        const unsigned *port = check_port(herd, listener);
        if (port == check_connected) {
            has_unix = 1; /* it does not tell what waits there, and no test leaves connections there */
        } else {
            made += SHARED_GET(*port);
            seen += (unsigned)waiting_connections(herd, listener);
        }
    }
    made += has_unix ? SHARED_GET(*check_connected) : 0;
    return made == seen || total.reaps > 0;
}

/* Every test that gives a herd back checks that its figures add up. A child does so only for what is
 * its own: others may be using the herd still. */
CHECK_HELPER int check_destroy(struct herd *herd)
{
    enum { ports_most = 64 };
    unsigned *ports[ports_most];
    int count = 0;
    if (herd != NULL) {
        WAIT_UNTIL(counters_add_up(herd), 10000);
    }
    if (herd != NULL && !check_in_child && herd != check_uncounted && check_connected != NULL) {
        WAIT_UNTIL(clients_are_counted(herd), 10000);
        while (count < ports_most && herd_listener_fd(herd, count) >= 0) {
            ports[count] = check_port(herd, count);
            count++;
        }
    }
    int code = herd_destroy(herd);
    while (code == 0 && count > 0) {
        SHARED_SET(*ports[--count], 0u); /* another herd may take the listeners over */
    }
    return code;
}

/* Another herd may have listened there before. */
CHECK_HELPER int check_listen(struct herd *herd, const char *address, const struct herd_listen_options *options,
                              herd_accept_fn on_accept, void *accept_data)
{
    int listener = herd_listen(herd, address, options, on_accept, accept_data);
    if (listener >= 0 && check_connected != NULL) {
        SHARED_SET(*check_port(herd, listener), 0u);
    }
    return listener;
}

CHECK_HELPER int check_remove(struct herd *herd, int listener)
{
    check_uncounted = herd;
    return herd_remove_listener(herd, listener);
}

#define herd_destroy(herd) check_destroy(herd)
#define herd_remove_listener(herd, listener) check_remove(herd, listener)
#define herd_listen(herd, address, options, on_accept, accept_data) \
    check_listen(herd, address, options, on_accept, accept_data)

/* --- Clients ----------------------------------------------------------------------------- */

/* The listener's address, as connect_to takes it. Valid until 16 more were asked for. */
CHECK_HELPER const char *address_of(const struct herd *herd, int listener)
{
    static char buffers[16][160];
    static unsigned next;
    char *buffer = buffers[next++ % 16];
    int length = herd_listener_address(herd, listener, buffer, sizeof buffers[0]);
    if (length < 0) {
        fprintf(stderr, "herd_listener_address: %s\n", herd_strerror(length));
        test_exit(1);
    }
    return buffer;
}

CHECK_HELPER void check_count(const struct sockaddr_storage *address)
{
    uint16_t port = address->ss_family == AF_INET    ? ((const struct sockaddr_in *)address)->sin_port
                    : address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                     : 0;
    if (check_connected != NULL) {
        SHARED_ADD(check_connected[ntohs(port)], 1u);
    }
}

/* A blocking client, whose reads and writes fail after 10 s, or a negated errno. */
CHECK_HELPER int connect_try(const char *address)
{
    struct sockaddr_storage storage;
    socklen_t length = 0;
    memset(&storage, 0, sizeof storage);
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un *local = (struct sockaddr_un *)&storage;
        size_t bytes = strlen(address + 5);
        CHECK(bytes > 0 && bytes < sizeof local->sun_path);
        local->sun_family = AF_UNIX;
        memcpy(local->sun_path, address + 5, bytes);
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
        if (address[5] == '@') {
            local->sun_path[0] = '\0';
            length--;
        }
    } else {
        char host[64];
        const char *colon = strrchr(address, ':');
        CHECK(colon != NULL);
        int v6 = address[0] == '[';
        size_t bytes = (size_t)(colon - address) - (v6 ? 2 : 0);
        CHECK(bytes < sizeof host);
        memcpy(host, address + (v6 ? 1 : 0), bytes);
        host[bytes] = '\0';
        uint16_t port = htons((uint16_t)atoi(colon + 1));
        if (v6) {
            struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;
            in6->sin6_family = AF_INET6;
            in6->sin6_port = port;
            CHECK_EQ(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
            length = sizeof *in6;
        } else {
            struct sockaddr_in *in = (struct sockaddr_in *)&storage;
            in->sin_family = AF_INET;
            in->sin_port = port;
            CHECK_EQ(inet_pton(AF_INET, host, &in->sin_addr), 1);
            length = sizeof *in;
        }
    }
    int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    struct timeval limit;
    limit.tv_sec = 10 * test_scale();
    limit.tv_usec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&storage, length) < 0) {
        int code = -errno;
        close(fd);
        return code;
    }
    check_count(&storage);
    return fd;
}

/* The same, and the test fails if it cannot connect. */
CHECK_HELPER int connect_to(const char *address)
{
    int fd = connect_try(address);
    if (fd < 0) {
        fprintf(stderr, "connect to %s: %s\n", address, strerror(-fd));
        test_exit(1);
    }
    return fd;
}

/* The file of a Unix socket as a server that was killed leaves it: nobody listens on it. */
CHECK_HELPER void leave_stale_socket(const char *path)
{
    struct sockaddr_un name;
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    CHECK(strlen(path) < sizeof name.sun_path);
    memcpy(name.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    close(fd);
}

#endif
