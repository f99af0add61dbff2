/*
 * Hostile and heavy load: one scenario in all modes at once, each in a process of its own, so that they
 * wait together. Includes serve.h. C99.
 */
#ifndef LOAD_H
#define LOAD_H

#include "serve.h"

#include "modes.h"

CHECK_HELPER void load_in_all_modes(void (*scenario)(uint32_t mode))
{
    pid_t pids[mode_count];
    int failed = 0;
    for (int i = 0; i < mode_count; i++) {
        pids[i] = test_fork();
        if (pids[i] == 0) {
            scenario(all_modes[i]);
            test_exit(0);
        }
    }
    for (int i = 0; i < mode_count; i++) {
        int code = test_join(pids[i]);
        if (code != 0) {
            fprintf(stderr, "mode %s: exit code %d\n", mode_name(all_modes[i]), code);
            failed = 1;
        }
    }
    test_exit(failed);
}

/* --- The server's side ----------------------------------------------------------------------- */

static int load_fds[SERVE_MAX_WORKERS];

CHECK_HELPER void load_note_fds(void)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        load_fds[slot] = process_fds(serve.pids[slot]);
    }
}

CHECK_HELPER int load_fds_are_as_before(void)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        if (process_fds(serve.pids[slot]) != load_fds[slot]) {
            return 0;
        }
    }
    return 1;
}

/* After all clients have gone: nothing is left of them, and the herd serves the next. */
CHECK_HELPER void load_is_over(void)
{
    int slot;
    WAIT_UNTIL(serve_total().connections_open == 0, 20000);
    WAIT_UNTIL(load_fds_are_as_before(), 20000);
    for (int i = 0; i < 8; i++) {
        int fd = serve_connect(&slot);
        serve_echo(fd);
        close(fd);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 20000);
    WAIT_UNTIL(load_fds_are_as_before(), 20000);
    for (slot = 0; slot < serve.workers; slot++) {
        CHECK(!test_ended(serve.pids[slot]));
    }
}

CHECK_HELPER void load_signal_workers(int signal_number)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        kill(serve.pids[slot], signal_number);
    }
}

CHECK_HELPER int load_all_stopped(void)
{
    for (int slot = 0; slot < serve.workers; slot++) {
        if (process_state(serve.pids[slot]) != 'T') {
            return 0;
        }
    }
    return 1;
}

/* --- Clients --------------------------------------------------------------------------------- */

/* One that may still be connecting, from 127.0.0.`host`. */
CHECK_HELPER int load_connect(const char *address, int host)
{
    struct sockaddr_in from, to;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    CHECK(fd >= 0);
    memset(&from, 0, sizeof from);
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + (uint32_t)host);
    to = from;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    /* The port is chosen when it connects: there are as many for each of our addresses (ip(7)). */
    setsockopt(fd, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &one, sizeof one);
    CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    SHARED_ADD(*check_port(serve.herd, 0), 1u);
    return fd;
}

CHECK_HELPER void load_blocking(int fd)
{
    CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
}

/* Its end is a reset (socket(7), SO_LINGER). */
CHECK_HELPER void load_reset(int fd)
{
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

/* Room for so many descriptors in this process and its children; if it may. */
CHECK_HELPER int load_raise_fds(rlim_t count)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= count) {
        return 1;
    }
    limit.rlim_cur = count;
    limit.rlim_max = limit.rlim_max > count ? limit.rlim_max : count;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

#endif
