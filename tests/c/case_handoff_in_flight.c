/* R26: more descriptors on their way than a user without privileges may have. The rest is kept, nobody
 * spins, and all connections are served once when the workers go on. */
#include "serve.h"

enum { workers = 4, acceptor = 3, connections = 200, acceptor_limit = 64 };

/* The kernel counts a user's descriptors on their way all over the machine: nobody else is this one. */
static uid_t some_user;

static int is_mapped(uid_t user)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        test_exit(setuid(user) != 0);
    }
    return test_join(pid) == 0;
}

static void fork_unprivileged(int slot)
{
    SHARED_SET(serve.shared->ready[slot], 0);
    pid_t pid = test_fork();
    if (pid == 0) {
        struct rlimit limit = {acceptor_limit, acceptor_limit};
        CHECK(slot != acceptor || setrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK(setgid(some_user) == 0 && setuid(some_user) == 0);
        serve_run(slot);
    }
    serve.pids[slot] = pid;
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    static int clients[connections];
    config.mode = HERD_MODE_HANDOFF;
    /* Until then nobody looks after those who take none. */
    config.accept_delay_ms = 5000;
    config.acceptor_slot = acceptor;
    test_begin(50);
    if (geteuid() != 0) {
        test_skip("needs root, to drop it");
    }
    some_user = 100000 + (uid_t)getpid();
    if (!is_mapped(some_user)) {
        test_skip("this user namespace has no user to itself");
    }
    serve_prepare(&config, workers);
    for (int slot = 0; slot < workers; slot++) {
        fork_unprivileged(slot);
    }
    serve_settle();
    int fds = process_fds(serve.pids[acceptor]);
    for (int slot = 0; slot < acceptor; slot++) {
        kill(serve.pids[slot], SIGSTOP);
        WAIT_UNTIL(process_state(serve.pids[slot]) == 'T', 10000);
    }
    for (int i = 0; i < connections; i++) {
        clients[i] = connect_to(serve.address);
    }
    WAIT_UNTIL(serve_stats(acceptor).handoff_deferred > 0, 10000);
    /* Three windows of 32 would take 96; the kernel stopped it before. */
    int on_way = (int)(serve_total().handoff_sent - serve_total().handoff_received);
    printf("%d on their way\n", on_way);
    CHECK(on_way >= acceptor_limit && on_way <= acceptor_limit + 16);
    struct herd_stats before = serve_stats(acceptor);
    long long sleeps = voluntary_switches(serve.pids[acceptor]);
    sleep_ms(1000);
    printf("in 1 s: %d turns, %lld sleeps, %d tries\n", (int)(serve_stats(acceptor).turns - before.turns),
           voluntary_switches(serve.pids[acceptor]) - sleeps,
           (int)(serve_stats(acceptor).handoff_deferred - before.handoff_deferred));
    CHECK(serve_stats(acceptor).turns - before.turns <= 40);
    CHECK_EQ(serve_stats(acceptor).backoffs, 0);
    for (int slot = 0; slot < acceptor; slot++) {
        kill(serve.pids[slot], SIGCONT);
    }
    for (int i = 0; i < connections; i++) {
        CHECK(serve_greeting(clients[i], 10000) >= 0);
    }
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
    CHECK_EQ(serve_total().handoff_received, connections);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    CHECK_EQ(process_fds(serve.pids[acceptor]), fds);
    serve_end();
    test_exit(0);
}
