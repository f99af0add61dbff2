/* herd_listen_systemd adds all listeners or none, whatever system call fails: then the same call works when it
 * is made again. */
#include "preload.h"

#include "activation.h"
#include "faults.h"

enum { passed = 2, places = 12 };

static struct faults *shim;
static struct fault_script *script;

static void arm(int call, int error, int before)
{
    script->error = error;
    script->before = before;
    script->failing = 1;
    script->hits = 0;
    SHARED_SET(script->call, call);
}

/* Whether it failed. */
static int round_with(int call, int error, int before)
{
    long blocks = shim->blocks;
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    int fds = open_fds();
    arm(call, error, before);
    int code = herd_listen_systemd(herd, NULL, NULL, NULL);
    SHARED_SET(script->call, FAULT_CALLS);
    if (script->hits > 0) {
        if (code != -error) {
            fprintf(stderr, "%s, %s: %d\n", shim->calls[call].name, strerror(error), code);
            test_exit(1);
        }
        CHECK_EQ(open_fds(), fds);
        CHECK_CODE(herd_listener_fd(herd, 0), -ENOENT);
        code = herd_listen_systemd(herd, NULL, NULL, NULL);
    }
    CHECK_CODE(code, passed);
    CHECK(herd_listener_fd(herd, passed - 1) >= 0);
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
    int failed = 0;
    script = (struct fault_script *)shared_memory(sizeof *script);
    SHARED_SET(script->call, FAULT_CALLS);
    shim->script = script;
    CHECK_CODE(herd_destroy(new_herd(HERD_MODE_MUTEX, 2)), 0);
    for (int i = 0; i < 6; i++) {
        const int *error = shim->calls[calls[i]].errnos;
        for (; *error != 0; error++) {
            for (int before = 0; before < places && round_with(calls[i], *error, before); before++) {
                failed++;
            }
        }
    }
    printf("%d rounds\n", failed);
    CHECK(failed > 100);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(50);
    preload("preload_faults", argv);
    shim = (struct faults *)dlsym(RTLD_DEFAULT, "faults");
    CHECK(shim != NULL);
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
