/* R25: more connections are sent to a worker than it has descriptors free: it takes those that fit,
 * backs off, and another worker gets all of the others. */
#include "serve.h"

enum { receiver, other, acceptor };

static int name_receiver(void *data, const struct sockaddr *peer, uint32_t peer_length)
{
    (void)data;
    (void)peer;
    (void)peer_length;
    return SHARED_GET(serve.shared->knob);
}

/* `carried` connections sent at once, to a receiver with room for `room`. */
static void sent_at_once(int carried, int room)
{
    int clients[8];
    pid_t pid = serve.pids[receiver];
    struct herd_stats before = serve_stats(receiver), others_before = serve_stats(other);
    int fds = process_fds(pid);
    process_leave_free(pid, room);
    kill(serve.pids[acceptor], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[acceptor]) == 'T', 10000);
    SHARED_SET(serve.shared->knob, receiver);
    for (int i = 0; i < carried; i++) {
        clients[i] = connect_to(serve.address);
    }
    kill(serve.pids[acceptor], SIGCONT);
    for (int i = 0; i < carried; i++) {
        CHECK_EQ(serve_greeting(clients[i], 10000), i < room ? receiver : other);
    }
    SHARED_SET(serve.shared->knob, HERD_PICK);
    struct herd_stats after = serve_stats(receiver), others_after = serve_stats(other);
    CHECK_EQ(after.handoff_sent - before.handoff_sent, carried);
    CHECK_EQ(after.handoff_received - before.handoff_received, room);
    CHECK_EQ(after.backoffs - before.backoffs, 1);
    CHECK_EQ(others_after.handoff_rerouted - others_before.handoff_rerouted, carried - room);
    CHECK_EQ(process_fds(pid), fds + room);
    /* With descriptors again it takes connections again, by itself. */
    process_limit_fds(pid, RLIM_INFINITY);
    for (int tries = 0, slot = -1; slot != receiver; tries++) {
        CHECK(tries < 200);
        close(serve_connect(&slot));
        sleep_ms(10);
    }
    for (int i = 0; i < carried; i++) {
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF;
    config.balance = HERD_BALANCE_ROUND_ROBIN;
    config.accept_delay_ms = 300;
    config.accept_batch = 16;
    config.acceptor_slot = acceptor;
    config.pick_callback = name_receiver;
    test_begin(50);
    serve_prepare(&config, 3);
    serve.shared->knob = HERD_PICK;
    for (int slot = 0; slot < 3; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    sent_at_once(3, 1);
    sent_at_once(1, 0);
    sent_at_once(8, 7);
    serve_end();
    test_exit(0);
}
