/* herd_listen_systemd adds all listeners or none, whatever system call fails, to a herd with and without listeners:
 * then the same call works when it is made again. */
#include "inject.h"

#include "activation.h"

enum { passed = 2, places = 12 };

/* Whether it failed, in a herd that has `there` listeners. */
static int round_with(int there, int call, int error, int before)
{
    long blocks = shim->blocks;
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    for (int i = 0; i < there; i++) {
        CHECK_EQ(new_listener(herd, NULL, NULL), i);
    }
    int fds = open_fds();
    arm(call, error, before, 1);
    int code = herd_listen_systemd(herd, NULL, NULL, NULL);
    disarm();
    if (script->hits > 0) {
        if (code != -error) {
            fprintf(stderr, "%s, %s: %d\n", shim->calls[call].name, strerror(error), code);
            test_exit(1);
        }
        CHECK_EQ(open_fds(), fds);
        CHECK_CODE(herd_listener_fd(herd, there), -ENOENT);
        code = herd_listen_systemd(herd, NULL, NULL, NULL);
    }
    CHECK_CODE(code, passed);
    CHECK(herd_listener_fd(herd, there + passed - 1) >= 0);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(shim->blocks, blocks);
    for (int fd = ACTIVATION_FIRST_FD; fd < ACTIVATION_FIRST_FD + passed; fd++) {
        CHECK(is_close_on_exec(fd));
        CHECK_EQ(fcntl(fd, F_SETFD, 0), 0);
    }
    return script->hits > 0;
}

static void activated(void)
{
    static const int calls[] = {FAULT_FCNTL_FLAGS, FAULT_FCNTL_DUP, FAULT_GETSOCKOPT,
                                FAULT_GETSOCKNAME, FAULT_EPOLL_CREATE1, FAULT_EPOLL_ADD};
    CHECK_CODE(herd_destroy(new_herd(HERD_MODE_MUTEX, 2)), 0);
    for (int there = 0; there <= 2; there += 2) {
        int failed = 0;
        for (int i = 0; i < 6; i++) {
            const int *error = shim->calls[calls[i]].errnos;
            for (; *error != 0; error++) {
                for (int before = 0; before < places && round_with(there, calls[i], *error, before); before++) {
                    failed++;
                }
            }
        }
        printf("%d rounds\n", failed);
        CHECK(failed > 90);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(50);
    inject_begin(argv);
    if (strcmp(argv[0], "activated") == 0) {
        activated();
        test_exit(0);
    }
    int fds[passed];
    for (int i = 0; i < passed; i++) {
        fds[i] = activation_socket();
    }
    CHECK_EQ(activation_run(fds, passed, NULL), 0);
    test_exit(0);
}
