/* The members of a listener in REUSEPORT: all at one address, also for port 0 and IPv6; several
 * listeners; Unix sockets and those that the host made are shared by all workers; a listener can be
 * removed, and its address is free then. */
#include "reuseport.h"

enum { slots = 5, workers = 2, listeners = 5, own_sockets = 3, removed_one = listeners };

static uint16_t port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &length), 0);
    return name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                      : ((struct sockaddr_in *)&name)->sin_port;
}

static int host_made(void)
{
    struct sockaddr_in name;
    memset(&name, 0, sizeof name);
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    CHECK_EQ(listen(fd, 64), 0);
    return fd;
}

static void check_members(int listener, int own)
{
    int first = herd_slot_listener_fd(serve.herd, listener, 0);
    CHECK(first >= 0);
    CHECK_CODE(herd_listener_fd(serve.herd, listener), first);
    for (int slot = 1; slot < slots; slot++) {
        int fd = herd_slot_listener_fd(serve.herd, listener, slot);
        CHECK(fd >= 0 && (fd != first) == own);
        CHECK(!own || port_of(fd) == port_of(first));
        CHECK(!own || (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    }
    CHECK_CODE(herd_slot_listener_fd(serve.herd, listener, slots), -EINVAL);
    CHECK_CODE(herd_slot_listener_fd(serve.herd, listener, -1), -EINVAL);
    CHECK_CODE(herd_slot_listener_fd(serve.herd, listeners, 0), -ENOENT);
}

static void serve_each(int steered)
{
    struct herd_config config = reuseport_config(steered, 30000); /* the safety net must not help */
    char unix_name[64], removed[160], addresses[listeners][160];
    int slot;
    config.max_workers = slots;
    int fds = open_fds();
    serve_prepare(&config, workers);
    snprintf(unix_name, sizeof unix_name, "unix:@herd-reuseport-%d", (int)getpid());
    CHECK_CODE(herd_listen(serve.herd, "[::1]:0", NULL, serve_on_accept, NULL), 1);
    struct herd_listen_options both = HERD_LISTEN_OPTIONS_INIT;
    both.flags = HERD_LISTEN_DUAL_STACK;
    CHECK_CODE(herd_listen(serve.herd, "[::]:0", &both, serve_on_accept, NULL), 2);
    CHECK_CODE(herd_listen(serve.herd, unix_name, NULL, serve_on_accept, NULL), 3);
    int made = host_made();
    CHECK_CODE(herd_add_listener(serve.herd, made, serve_on_accept, NULL), 4);
    close(made);
    CHECK_CODE(herd_listen(serve.herd, "127.0.0.1:0", NULL, serve_on_accept, NULL), removed_one);
    snprintf(removed, sizeof removed, "%s", address_of(serve.herd, removed_one));
    CHECK_CODE(herd_remove_listener(serve.herd, removed_one), 0);
    struct herd *other = new_herd(HERD_MODE_REUSEPORT, 2);
    CHECK_CODE(herd_listen(other, removed, NULL, NULL, NULL), 0);
    CHECK_CODE(herd_destroy(other), 0);
    for (int i = 0; i < listeners; i++) {
        snprintf(addresses[i], sizeof addresses[i], "%s", address_of(serve.herd, i));
        check_members(i, i < own_sockets);
    }
    /* The one for both families, by IPv4. */
    snprintf(addresses[2], sizeof addresses[2], "127.0.0.1:%u",
             (unsigned)ntohs(port_of(herd_listener_fd(serve.herd, 2))));
    for (int i = 0; i < workers; i++) {
        serve_fork(i);
    }
    serve_settle();
    for (int i = 0; i < 40; i++) {
        int client = connect_to(addresses[i % listeners]);
        slot = serve_greeting(client, 10000);
        CHECK(slot >= 0);
        serve_echo(client);
        close(client);
    }
    serve_end();
    CHECK_EQ(open_fds(), fds);
}

/* A listener that cannot have all its sockets has none, and leaves the address free. */
static void too_few_descriptors(void)
{
    struct herd *herd = new_herd(HERD_MODE_REUSEPORT, slots);
    struct rlimit all, few;
    char address[160];
    int fds = open_fds();
    new_listener(herd, NULL, NULL);
    snprintf(address, sizeof address, "%s", address_of(herd, 0));
    CHECK_CODE(herd_remove_listener(herd, 0), 0);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = all;
    int next = dup(STDOUT_FILENO); /* the number of the next descriptor */
    close(next);
    few.rlim_cur = (rlim_t)next + slots - 1;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_CODE(herd_listen(herd, address, NULL, NULL, NULL), -EMFILE);
    CHECK_EQ(open_fds(), fds);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    CHECK_CODE(herd_listen(herd, address, NULL, NULL, NULL), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Numbers of sockets have a limit. */
static void too_many(void)
{
    struct herd *herd = new_herd(HERD_MODE_REUSEPORT, HERD_MAX_WORKERS);
    struct rlimit files;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    int code, count = 0, fds = open_fds();
    do {
        code = herd_listen(herd, "unix:@", NULL, NULL, NULL);
        CHECK_CODE(code, -EINVAL);
        char name[64];
        snprintf(name, sizeof name, "unix:@herd-many-%d-%d", (int)getpid(), count);
        code = herd_listen(herd, name, NULL, NULL, NULL);
    } while (code == count++);
    CHECK_CODE(code, -ENOSPC);
    CHECK_EQ(open_fds(), fds + count - 1);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    struct rlimit files;
    test_begin(50);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    serve.shared = NULL;
    for (int steered = 0; steered <= reuseport_can_steer(); steered++) {
        serve_each(steered);
    }
    too_few_descriptors();
    if (files.rlim_max >= 4096) {
        too_many();
    }
    test_exit(0);
}
