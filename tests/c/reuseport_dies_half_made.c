/* A worker that is killed or stopped when its member listens, before it could tell the others so, leaves no client
 * waiting for more than accept_delay, nor at all once its death is reported: the living workers watch that member
 * too, each of them. The worker's own system call, listen(2), is the moment. */
#include "reuseport.h"

#include <sys/syscall.h>

enum { workers = 5, half_made = 1, late = 4, burst = 60, bound_ms = 10000 };

static int ends_by;

/* In place of libc's, for the library too. */
int listen(int fd, int backlog)
{
    int code = (int)syscall(SYS_listen, fd, backlog);
    int with_signal = ends_by;
    ends_by = 0;
    if (with_signal != 0) {
        raise(with_signal);
    }
    return code;
}

static pid_t make_half(int with_signal)
{
    ends_by = with_signal;
    serve_fork(half_made);
    ends_by = 0;
    pid_t pid = serve.pids[half_made];
    serve.pids[half_made] = 0;
    if (with_signal == SIGKILL) {
        CHECK_EQ(test_join(pid), 1000 + SIGKILL);
    } else {
        WAIT_UNTIL(process_state(pid) == 'T', 10000);
    }
    return pid;
}

static void connect_all(int *clients)
{
    for (int i = 0; i < burst; i++) {
        clients[i] = connect_to(serve.address);
    }
}

/* All of them, by any worker but `not_by`. */
static void check_served(const int *clients, int not_by)
{
    int64_t began_ms = now_ms(), until_ms = began_ms + bound_ms * test_scale();
    int unserved = 0;
    for (int i = 0; i < burst; i++) {
        int64_t left_ms = until_ms - now_ms();
        int slot = serve_greeting(clients[i], left_ms > 0 ? (int)left_ms / test_scale() : 0);
        unserved += slot < 0;
        CHECK(slot != not_by);
        close(clients[i]);
    }
    printf("served after %d ms: %d of %d\n", (int)(now_ms() - began_ms), burst - unserved, burst);
    CHECK_EQ(unserved, 0);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
}

static void start(uint32_t accept_delay_ms, int but)
{
    struct herd_config config = reuseport_config(0, accept_delay_ms);
    serve_prepare(&config, workers);
    for (int slot = 0; slot < workers; slot++) {
        if (slot != half_made && slot != but) {
            serve_fork(slot);
        }
    }
    serve_settle();
}

/* Nobody is told: the guard's tick finds it. */
static void found_by_guard(int with_signal)
{
    int clients[burst];
    start(100, -1);
    pid_t pid = make_half(with_signal);
    connect_all(clients);
    check_served(clients, half_made);
    if (with_signal == SIGSTOP) {
        kill(pid, SIGCONT);
        serve.pids[half_made] = pid;
    } else {
        serve_fork(half_made);
    }
    serve_settle();
    connect_all(clients);
    check_served(clients, -1);
    serve_end();
}

/* Stops all workers but one, or has them go on. */
static void signal_all_but(int slot, int with_signal, pid_t *pids)
{
    for (int other = 0; other < workers; other++) {
        if (other != slot && pids[other] > 0) {
            kill(pids[other], with_signal);
            if (with_signal == SIGSTOP) {
                WAIT_UNTIL(process_state(pids[other]) == 'T', 10000);
            }
            serve.pids[other] = with_signal == SIGSTOP ? 0 : pids[other];
        }
    }
}

/* Each gets what comes to the half made one's member while the rest are stopped. */
static void check_all_know(void)
{
    int clients[burst];
    pid_t pids[workers];
    memcpy(pids, serve.pids, sizeof pids);
    for (int slot = 0; slot < workers; slot++) {
        if (slot != half_made) {
            signal_all_but(slot, SIGSTOP, pids);
            connect_all(clients);
            check_served(clients, half_made);
            signal_all_but(slot, SIGCONT, pids);
            serve_settle();
        }
    }
}

/* No regular tick comes in this test's time: who is rung for the dead worker finds it, and tells all others. */
static void found_by_who_is_rung(void)
{
    int clients[burst];
    start(60000, -1);
    pid_t pid = make_half(SIGKILL);
    connect_all(clients);
    serve_report(half_made, pid);
    check_served(clients, half_made);
    check_all_know();
    serve_end();
}

/* A new worker, of another slot, tells all others, and nobody has to tell it. */
static void found_by_a_new_one(void)
{
    start(60000, late);
    make_half(SIGKILL);
    serve_fork(late);
    serve_settle();
    check_all_know();
    serve_end();
}

int main(void)
{
    test_begin(55);
    found_by_guard(SIGKILL);
    found_by_guard(SIGSTOP);
    found_by_who_is_rung();
    found_by_a_new_one();
    test_exit(0);
}
