/* R28: the chosen worker is killed between choice and send, or with connections on their way that it
 * has not read. Others serve each of them, once, and the acceptor goes on. */
#include "serve.h"

enum { workers = 4, acceptor = 3, sent_unread = 5 };

/* Slot of the worker that the next connection is for, which is killed at that moment; -1: none. */
static int kill_at_choice(void *data, const struct sockaddr *peer, uint32_t peer_length)
{
    (void)data;
    (void)peer;
    (void)peer_length;
    int victim = SHARED_GET(serve.shared->knob);
    if (victim > 0) {
        SHARED_SET(serve.shared->knob, -victim);
        kill(SHARED_GET(serve.shared->ready[victim]), SIGKILL);
        return victim;
    }
    return victim < 0 ? -victim : HERD_PICK;
}

static void each_once(const int *clients, int count, int dead)
{
    for (int i = 0; i < count; i++) {
        int slot = serve_greeting(clients[i], 10000);
        CHECK(slot >= 0 && slot != acceptor && slot != dead);
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1); /* one greeting only */
    }
}

/* `report`: the parent tells of the death; else the guard finds it. */
static void between_choice_and_send(int report)
{
    int victim = 1 + report;
    SHARED_SET(serve.shared->knob, victim);
    int client = connect_to(serve.address);
    WAIT_UNTIL(SHARED_GET(serve.shared->knob) == -victim, 10000);
    SHARED_SET(serve.shared->knob, 0);
    pid_t pid = serve.pids[victim];
    serve.pids[victim] = 0;
    test_kill(pid);
    if (report) {
        serve_report(victim, pid);
    }
    each_once(&client, 1, victim);
    close(client);
    serve_fork(victim);
    serve_settle();
}

static void with_unread(int report)
{
    int clients[sent_unread], victim = 2;
    pid_t pid = serve.pids[victim];
    kill(pid, SIGSTOP);
    WAIT_UNTIL(process_state(pid) == 'T', 10000);
    uint64_t before = serve_stats(victim).handoff_sent;
    SHARED_SET(serve.shared->knob, -victim);
    for (int i = 0; i < sent_unread; i++) {
        clients[i] = connect_to(serve.address);
    }
    WAIT_UNTIL(serve_stats(victim).handoff_sent == before + sent_unread, 10000);
    SHARED_SET(serve.shared->knob, 0);
    serve_crash(victim);
    if (report) {
        serve_report(victim, pid);
    }
    each_once(clients, sent_unread, victim);
    for (int i = 0; i < sent_unread; i++) {
        close(clients[i]);
    }
    serve_fork(victim);
    serve_settle();
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF;
    config.accept_delay_ms = 300;
    config.acceptor_slot = acceptor;
    config.pick_callback = kill_at_choice;
    test_begin(50);
    signal(SIGPIPE, SIG_DFL);
    serve_start(&config, workers);
    int acceptor_fds = process_fds(serve.pids[acceptor]);
    for (int report = 0; report < 2; report++) {
        between_choice_and_send(report);
        with_unread(report);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    CHECK_EQ(process_fds(serve.pids[acceptor]), acceptor_fds);
    WAIT_UNTIL(serve_total().handoff_sent == serve_total().handoff_received, 5000);
    struct herd_stats total = serve_total();
    CHECK_EQ(total.handoff_received, total.accepted);
    CHECK(total.handoff_rerouted >= 2);
    /* The new ones are in the rotation. */
    unsigned seen = 0;
    int clients[12];
    for (int i = 0; i < 12; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        seen |= 1u << slot;
    }
    CHECK_EQ(seen, 0x7);
    for (int i = 0; i < 12; i++) {
        close(clients[i]);
    }
    serve_end();
    test_exit(0);
}
