/* Listeners that a service manager passed are served, each by the callback of its name; only in the
 * process that they were passed to, and without a change of its environment. */
#include "activation.h"

enum { sockets = 3 };

static const char http[] = "http", admin[] = "admin";
static const char *served_by;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    served_by = (const char *)data;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

static void listener_is_of(struct herd *herd, struct herd_worker *worker, int listener, const char *name)
{
    struct sockaddr_in ours, passed;
    socklen_t length = sizeof ours;
    served_by = NULL;
    close(connect_to(address_of(herd, listener)));
    CHECK_CODE(herd_run_once(worker, 5000), 1);
    CHECK(served_by == name);
    /* In the order in which they were passed: http is 3 and 5, and was added first. */
    int fd = ACTIVATION_FIRST_FD + (listener == 0 ? 0 : listener == 1 ? 2 : 1);
    CHECK_EQ(getsockname(herd_listener_fd(herd, listener), (struct sockaddr *)&ours, &length), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&passed, &length), 0);
    CHECK_EQ(ours.sin_port, passed.sin_port);
}

static void by_name(uint32_t mode)
{
    struct herd *herd = new_herd(mode, 2);
    CHECK_CODE(herd_listen_systemd(herd, "none", on_accept, NULL), 0);
    CHECK_CODE(herd_listen_systemd(herd, "", on_accept, NULL), 0);
    CHECK_CODE(herd_listener_fd(herd, 0), -ENOENT);
    CHECK_CODE(herd_listen_systemd(herd, "http", on_accept, (void *)http), 2);
    CHECK_CODE(herd_listen_systemd(herd, "admin", on_accept, (void *)admin), 1);
    struct herd_worker *worker = new_worker(herd);
    listener_is_of(herd, worker, 0, http);
    listener_is_of(herd, worker, 1, http);
    listener_is_of(herd, worker, 2, admin);
    CHECK_CODE(herd_listen_systemd(herd, "http", on_accept, NULL), -EBUSY);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void all_of_them(void)
{
    struct herd *herd = new_herd(HERD_MODE_AUTO, 2);
    CHECK_CODE(herd_listen_systemd(herd, NULL, on_accept, NULL), sockets);
    /* Taken over, so that closing the host's descriptors changes nothing. */
    for (int listener = 0; listener < sockets; listener++) {
        CHECK(herd_listener_fd(herd, listener) >= ACTIVATION_FIRST_FD + sockets);
        CHECK(is_close_on_exec(herd_listener_fd(herd, listener)));
    }
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Another process's, without names, and none. */
static void not_for_this_process(void)
{
    struct herd *herd = new_herd(HERD_MODE_AUTO, 2);
    pid_t child = test_fork();
    if (child == 0) {
        CHECK_CODE(herd_listen_systemd(herd, NULL, on_accept, NULL), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);
    unsetenv("LISTEN_FDNAMES");
    CHECK_CODE(herd_listen_systemd(herd, "http", on_accept, NULL), 0);
    CHECK_CODE(herd_listen_systemd(herd, "unknown", on_accept, NULL), sockets);
    unsetenv("LISTEN_FDS");
    CHECK_CODE(herd_listen_systemd(herd, NULL, on_accept, NULL), 0);
    setenv("LISTEN_FDS", "3", 1);
    unsetenv("LISTEN_PID");
    CHECK_CODE(herd_listen_systemd(herd, NULL, on_accept, NULL), 0);
    CHECK_CODE(herd_listener_fd(herd, sockets), -ENOENT);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Inherited without any announcement: the host knows the number. */
static void inherited(void)
{
    struct herd *herd = new_herd(HERD_MODE_AUTO, 2);
    fcntl(ACTIVATION_FIRST_FD, F_SETFD, 0);
    CHECK_CODE(herd_add_listener(herd, ACTIVATION_FIRST_FD, on_accept, (void *)http), 0);
    CHECK(!is_close_on_exec(ACTIVATION_FIRST_FD)); /* the host's own to decide */
    struct herd_worker *worker = new_worker(herd);
    listener_is_of(herd, worker, 0, http);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(int argc, char **argv)
{
    test_begin(30);
    if (argc > 1 && strcmp(argv[1], "activated") == 0) {
        int fds = open_fds();
        CHECK(!is_close_on_exec(ACTIVATION_FIRST_FD));
        by_name(HERD_MODE_MUTEX);
        by_name(HERD_MODE_EXCLUSIVE);
        by_name(HERD_MODE_REUSEPORT);
        for (int i = 0; i < sockets; i++) {
            CHECK(is_close_on_exec(ACTIVATION_FIRST_FD + i));
        }
        CHECK_EQ(atoi(getenv("LISTEN_PID")), getpid());
        CHECK_EQ(strcmp(getenv("LISTEN_FDS"), "3"), 0);
        CHECK_EQ(strcmp(getenv("LISTEN_FDNAMES"), "http:admin:http"), 0);
        all_of_them();
        not_for_this_process();
        inherited();
        CHECK_EQ(open_fds(), fds);
        test_exit(0);
    }
    int fds[sockets] = {activation_socket(), activation_socket(), activation_socket()};
    CHECK_EQ(activation_run(fds, sockets, "http:admin:http"), 0);
    test_exit(0);
}
