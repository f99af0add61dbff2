/* In every example server no client is lost and none waits for long when workers are stopped or killed,
   with a parent that reports it and without one. timeout: 120 */
#include "server.h"

enum { workers = 4, most_ms = 2000, clients_each = 3 };

/* New clients, and how long they wait for their answer. All of `gone` is stopped or dead, 0 at the end. */
static void ask_without(const pid_t *gone, int64_t *worst_us)
{
    int fds[clients_each];
    for (int i = 0; i < clients_each; i++) {
        struct server_answer answer;
        int64_t began_us = now_us();
        fds[i] = server_connect();
        server_send(fds[i], "/");
        if (server_receive(fds[i], most_ms, &answer) < 0) {
            fprintf(stderr, "no answer within %d ms\n", most_ms);
            test_exit(1);
        }
        for (const pid_t *pid = gone; *pid != 0; pid++) {
            CHECK(answer.pid != *pid);
        }
        int64_t took_us = now_us() - began_us;
        *worst_us = took_us > *worst_us ? took_us : *worst_us;
    }
    for (int i = 0; i < clients_each; i++) {
        close(fds[i]);
    }
}

/* All but one are stopped, so that whoever had the accept right is among them; each is the one once. */
static int64_t stopped(void)
{
    int64_t worst_us = 0;
    for (int alone = 0; alone < workers; alone++) {
        pid_t gone[workers] = {0};
        server_settled_sleeps();
        for (int place = 0, count = 0; place < workers; place++) {
            if (place != alone) {
                gone[count++] = server.pids[place];
                CHECK_EQ(kill(server.pids[place], SIGSTOP), 0);
                WAIT_UNTIL(server_is_stopped(server.pids[place]), 10000);
            }
        }
        ask_without(gone, &worst_us);
        for (const pid_t *pid = gone; *pid != 0; pid++) {
            CHECK_EQ(kill(*pid, SIGCONT), 0);
        }
    }
    return worst_us;
}

/* The parent reports each death and starts a new worker. */
static int64_t killed_and_reported(void)
{
    int64_t worst_us = 0;
    for (int place = 0; place < workers; place++) {
        server_settled_sleeps();
        const pid_t gone[2] = { server.pids[place], 0 };
        CHECK_EQ(kill(gone[0], SIGKILL), 0);
        check_forget(gone[0]);
        ask_without(gone, &worst_us);
        for (int64_t deadline = now_ms() + 10000 * test_scale();; sleep_ms(5)) {
            server_find_workers();
            int replaced = 1;
            for (int i = 0; i < workers; i++) {
                replaced = replaced && server.pids[i] != gone[0];
            }
            if (replaced) {
                break;
            }
            CHECK(now_ms() < deadline);
        }
    }
    return worst_us;
}

/* One after the other, and nobody reports it. The last one serves all. */
static int64_t killed(void)
{
    int64_t worst_us = 0;
    pid_t gone[workers] = {0};
    server_kill_parent();
    for (int place = 0; place < workers - 1; place++) {
        server_settled_sleeps();
        gone[place] = server.pids[place];
        server_kill_worker(place);
        ask_without(gone, &worst_us);
    }
    server_kill_worker(workers - 1);
    return worst_us;
}

static void deaths(const struct server_case *c)
{
    /* Where the kernel passes over who is gone, and where a death is reported, no tick of the guard is
     * waited for: it would come too late for this test. */
    const char *const far[] = { "--accept-delay-ms", "60000", NULL };
    const char *const near[] = { "--accept-delay-ms", "300", NULL };
    server_start(c->program, c->mode, workers, far);
    double reported_ms = (double)killed_and_reported() / 1000;
    if (strcmp(c->mode, "mutex") == 0) {
        server_stop();
        server_start(c->program, c->mode, workers, near);
    }
    double stopped_ms = (double)stopped() / 1000, killed_ms = (double)killed() / 1000;
    printf("%s, %s: worst answer with workers stopped %.1f ms, killed and reported %.1f ms, killed %.1f ms\n",
           c->program, c->mode, stopped_ms, reported_ms, killed_ms);
}

int main(void)
{
    test_begin(115);
    server_for_each(deaths);
    test_exit(0);
}
