/* A malformed announcement, or one descriptor that cannot be a listener: an error that the log
 * explains, and none of those that were passed is added. */
#include "activation.h"
#include "logged.h"

#include <sys/resource.h>

/* `why`: what the log has to name. */
static void refused(struct herd *herd, const char *name, int code, const char *why)
{
    int fds = open_fds();
    CHECK_CODE(herd_listen_systemd(herd, name, NULL, NULL), code);
    check_logged(why);
    CHECK_CODE(herd_listener_fd(herd, 0), -ENOENT);
    CHECK_EQ(open_fds(), fds);
}

static void announce(const char *variable, const char *value, const char *names)
{
    char before[32];
    snprintf(before, sizeof before, "%s", getenv(variable));
    setenv(variable, value, 1);
    setenv("LISTEN_FDNAMES", names, 1);
    struct herd *herd = new_logging_herd(HERD_MODE_AUTO);
    refused(herd, NULL, -EINVAL, variable);
    refused(herd, "tcp", -EINVAL, value);
    CHECK_CODE(herd_destroy(herd), 0);
    setenv(variable, before, 1);
}

/* 3 listens; 4 and more do not. */
static void activated(void)
{
    static const char *const bad_numbers[] = {"", "0", "-1", "+4", " 4", "4 ", "4x", "0x4", "1e1",
                                              "4294967300", "99999999999999999999999"};
    static const char names[] = "tcp:udp:idle:pipe";
    struct herd *herd = new_logging_herd(HERD_MODE_AUTO);
    CHECK_CODE(herd_listen_systemd(NULL, NULL, NULL, NULL), -EINVAL);
    CHECK_CODE(herd_listen_systemd(herd, "\xff", NULL, NULL), -EINVAL);
    refused(herd, NULL, -EINVAL, "descriptor 4");
    refused(herd, "udp", -EINVAL, "descriptor 4");
    refused(herd, "idle", -EINVAL, "descriptor 5");
    refused(herd, "pipe", -ENOTSOCK, "descriptor 6");
    for (int fd = 3; fd < 7; fd++) {
        CHECK(!is_close_on_exec(fd));
    }
    for (size_t i = 0; i < sizeof bad_numbers / sizeof *bad_numbers; i++) {
        announce("LISTEN_PID", bad_numbers[i], names);
        announce("LISTEN_FDS", bad_numbers[i], names);
    }
    announce("LISTEN_FDNAMES", "tcp:udp:idle", "tcp:udp:idle");
    announce("LISTEN_FDNAMES", "tcp:udp:idle:pipe:", "tcp:udp:idle:pipe:");
    announce("LISTEN_FDNAMES", "", "");
    unsetenv("LISTEN_FDNAMES");
    setenv("LISTEN_FDS", "2147483644", 1);
    refused(herd, NULL, -EBADF, "LISTEN_FDS=2147483644");
    setenv("LISTEN_FDS", "2147483645", 1);
    refused(herd, NULL, -EINVAL, "LISTEN_FDS=2147483645");
    setenv("LISTEN_FDS", "4", 1);
    setenv("LISTEN_FDNAMES", names, 1);
    CHECK_CODE(herd_listen_systemd(herd, "tcp", NULL, NULL), 1);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* No descriptor left for the second duplicate, or in MUTEX for the set that holds both. */
static void no_room(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    dup2(ACTIVATION_FIRST_FD, ACTIVATION_FIRST_FD + 1);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", "tcp:tcp", 1);
    for (int room = 1; room <= 2; room++) {
        struct herd *herd = new_logging_herd(HERD_MODE_MUTEX);
        int lowest = dup(0);
        close(lowest);
        struct rlimit tight = {(rlim_t)(lowest + room), limit.rlim_max};
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
        CHECK_CODE(herd_listen_systemd(herd, NULL, NULL, NULL), -EMFILE);
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        refused(herd, "none", 0, "");
        CHECK_CODE(herd_listen_systemd(herd, NULL, NULL, NULL), 2);
        CHECK_CODE(herd_destroy(herd), 0);
    }
}

int main(int argc, char **argv)
{
    test_begin(30);
    if (argc > 1 && strcmp(argv[1], "activated") == 0) {
        activated();
        no_room();
        test_exit(0);
    }
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    int fds[] = {activation_socket(), socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_STREAM, 0), ends[0]};
    CHECK_EQ(activation_run(fds, 4, "tcp:udp:idle:pipe"), 0);
    close(ends[1]);
    test_exit(0);
}
