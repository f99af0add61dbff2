/* R34: a program that a worker starts inherits none of the library's descriptors, so that the address
 * is free for a restart while it lives. */
#include "serve.h"

/* Runs this program as `fds` in a child of the caller. Returns how many descriptors it found open. */
static int fds_of_a_program(void)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        execl("/proc/self/exe", "case_cloexec", "fds", (char *)NULL);
        _exit(127);
    }
    return test_join(pid);
}

static volatile pid_t *sleeper;
static int fds_before;

static void start_programs(struct herd_worker *worker, int slot)
{
    (void)worker;
    (void)slot;
    CHECK_EQ(fds_of_a_program(), fds_before);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execlp("sleep", "sleep", "60", (char *)NULL);
        _exit(127);
    }
    *sleeper = pid;
}

/* Whether exec has happened; until then a forked child has all descriptors. */
static int runs_sleep(pid_t pid)
{
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *comm = fopen(path, "re");
    CHECK(comm != NULL);
    char *read = fgets(name, sizeof name, comm);
    fclose(comm);
    return read != NULL && strcmp(name, "sleep\n") == 0;
}

/* The server: its herd is made in a process of its own, which can be killed. */
__attribute__((noreturn)) static void run_server(int *address_pipe, uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    /* Then the worker of slot 0 receives what it serves. */
    config.acceptor_slot = mode == HERD_MODE_HANDOFF ? 1 : HERD_ANY_SLOT;
    serve.on_accept = start_programs;
    serve_prepare(&config, 2);
    char path[64];
    snprintf(path, sizeof path, "unix:@herd-cloexec-%d", (int)getpid());
    CHECK_CODE(herd_listen(serve.herd, path, NULL, serve_on_accept, NULL), 1);
    CHECK_EQ(fds_of_a_program(), fds_before);
    serve_fork(0);
    serve_fork(1);
    serve_settle();
    CHECK(write(address_pipe[1], serve.address, strlen(serve.address) + 1) > 0);
    for (;;) {
        pause();
    }
}

static void start_and_restart(uint32_t mode)
{
    int address_pipe[2];
    CHECK_EQ(pipe2(address_pipe, O_CLOEXEC), 0);
    fds_before = fds_of_a_program();

    pid_t server = test_fork();
    if (server == 0) {
        run_server(address_pipe, mode);
    }
    close(address_pipe[1]); /* so that the read ends with the server */
    char address[160];
    CHECK(read(address_pipe[0], address, sizeof address) > 0);
    int client = connect_to(address);
    CHECK(serve_greeting(client, 20000) >= 0);
    close(client);
    check_children[0] = *sleeper; /* its parent is about to die: now it is this test's to kill */
    WAIT_UNTIL(runs_sleep(*sleeper), 10000);

    /* Killing the server kills its workers; all are this process's to reap. */
    kill(server, SIGKILL);
    for (int ended = 0; ended < 3; ended++) {
        pid_t pid = waitpid(-1, NULL, 0);
        CHECK(pid > 0 && pid != *sleeper);
        check_forget(pid);
    }
    check_children[0] = *sleeper;
    CHECK_EQ(kill(*sleeper, 0), 0);
    close(address_pipe[0]);
    struct herd *herd = new_herd(mode, 2);
    CHECK_CODE(herd_listen(herd, address, NULL, NULL, NULL), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    test_kill(*sleeper);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fds") == 0) {
        return open_fds();
    }
    test_begin(50);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sleeper = (pid_t *)shared_memory(sizeof *sleeper);
    start_and_restart(HERD_MODE_MUTEX);
    start_and_restart(HERD_MODE_REUSEPORT);
    start_and_restart(HERD_MODE_HANDOFF);
    test_exit(0);
}
