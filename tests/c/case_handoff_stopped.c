/* R27: a stopped worker holds at most its window of connections, the acceptor does not wait for it, the
 * others get the rest, and after SIGCONT or SIGKILL each connection was served, once. */
/* timeout: 90 */
#include "serve.h"

enum { workers = 3, window = 32, connections = 1000, most_us = 50000 };

/* How many connections the certain acceptor has served itself: none, unless the machine keeps the others from
 * coming in time. Then it takes what lies in the stopped one's queue. */
static int by_acceptor;

/* Returns how long the longest turn of work of a certain acceptor was, to 1/8 of it, in microseconds; 0: whoever
 * has the right accepts. */
static uint64_t one_stopped(int acceptor_slot, int signal_number)
{
    struct herd_config config = HERD_CONFIG_INIT;
    static int clients[connections];
    config.mode = HERD_MODE_HANDOFF;
    config.balance = HERD_BALANCE_ROUND_ROBIN;
    config.accept_delay_ms = 400;
    config.acceptor_slot = acceptor_slot;
    by_acceptor = 0;
    int slots = workers + (acceptor_slot > 0), victim = slots - 1;
    serve_start(&config, slots);
    pid_t pid = serve.pids[victim];
    uint64_t received_before = serve_stats(victim).handoff_received;
    uint64_t sent_before = serve_stats(victim).handoff_sent;
    kill(pid, SIGSTOP);
    WAIT_UNTIL(process_state(pid) == 'T', 10000);
    for (int i = 0; i < connections; i++) {
        clients[i] = connect_to(serve.address);
    }
    CHECK_EQ(serve_stats(victim).handoff_received, received_before);
    /* All are served while it is stopped: what it was sent goes to others. */
    for (int i = 0; i < connections; i++) {
        int slot = serve_greeting(clients[i], 20000);
        CHECK(slot >= 0 && slot != victim);
        by_acceptor += slot == acceptor_slot;
    }
    int sent = (int)(serve_stats(victim).handoff_sent - sent_before);
    uint64_t longest_us = 0;
    if (acceptor_slot != HERD_ANY_SLOT) {
        struct herd_histogram work;
        memset(&work, 0, sizeof work);
        work.size = sizeof work;
        CHECK_CODE(herd_stats_histogram(serve.herd, acceptor_slot, HERD_HISTOGRAM_TURN_WORK, &work), 0);
        CHECK(work.count > 0);
        longest_us = work.longest_us;
    }
    printf("%d were sent to the stopped one, %d rerouted, longest turn of the acceptor %d us\n", sent,
           (int)serve_total().handoff_rerouted, (int)longest_us);
    /* One more if it is chosen while another worker finds that it takes none. */
    CHECK(sent > 0 && sent <= window + 1);
    CHECK(serve_total().handoff_rerouted >= (uint64_t)sent);
    if (signal_number == SIGKILL) {
        serve_crash(victim);
        serve_report(victim, pid);
    } else {
        kill(pid, SIGCONT);
        /* It gets connections again. */
        int slot = -1;
        for (int tries = 0; slot != victim; tries++) {
            CHECK(tries < 100);
            close(serve_connect(&slot));
        }
    }
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_end();
    return longest_us;
}

int main(void)
{
    struct rlimit limit = {4096, 4096};
    test_begin(80);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        test_skip("RLIMIT_NOFILE is too low");
    }
    uint64_t longest_us;
    one_stopped(HERD_ANY_SLOT, SIGCONT);
    CHECK_IN_SOME_TRY(longest_us = one_stopped(1, SIGCONT), longest_us < most_us && by_acceptor == 0);
    CHECK_IN_SOME_TRY(longest_us = one_stopped(1, SIGKILL), longest_us < most_us && by_acceptor == 0);
    test_exit(0);
}
