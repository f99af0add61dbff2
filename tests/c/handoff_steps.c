/* A process that is killed or stopped between two steps of passing connections on: what it had not
 * taken goes to others, once; a count that it left wrong is set right; no queue is closed for ever. */
#include "preload.h"
#include "serve.h"

#include "transfer_script.h"

enum { workers = 4, acceptor = 3, victim = 2, window = 32, carried = 3 };

static volatile struct transfer_script *script;

static int to_victim(void *data, const struct sockaddr *peer, uint32_t peer_length)
{
    (void)data;
    (void)peer;
    (void)peer_length;
    return SHARED_GET(serve.shared->knob);
}

static void signal_at(enum transfer_point point, int slot, int signal_number)
{
    script->point = point;
    script->pid = serve.pids[slot];
    SHARED_SET(script->signal_number, signal_number);
}

static void connect_all(int *clients, int count)
{
    for (int i = 0; i < count; i++) {
        clients[i] = connect_to(serve.address);
    }
}

/* One greeting each, from `slot`, or with -1 from any but the victim. */
static void served_once(int *clients, int count, int slot)
{
    for (int i = 0; i < count; i++) {
        int by = serve_greeting(clients[i], 10000);
        CHECK(slot == -1 ? by >= 0 && by != acceptor && by != victim : by == slot);
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
}

static void come_back(int slot)
{
    SHARED_SET(serve.shared->knob, HERD_PICK);
    if (serve.pids[slot] == 0) {
        serve_fork(slot);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_settle();
}

static void reader(enum transfer_point point, int signal_number, int then)
{
    int clients[carried];
    SHARED_SET(serve.shared->knob, victim);
    signal_at(point, victim, signal_number);
    connect_all(clients, 1);
    WAIT_UNTIL(SHARED_GET(script->signal_number) == 0, 10000);
    pid_t pid = serve.pids[victim];
    if (signal_number == SIGSTOP) {
        WAIT_UNTIL(process_state(pid) == 'T', 10000);
        /* What it is taking counts as on its way, also for who looks after the counts. */
        uint64_t sent = serve_stats(victim).handoff_sent, ticks = serve_total().guard_ticks;
        WAIT_UNTIL(serve_total().guard_ticks >= ticks + 3, 10000);
        CHECK_EQ(serve_stats(victim).handoff_sent, sent);
        /* Nobody else may read its queue now, whatever else is in it. */
        connect_all(clients + 1, carried - 1);
        CHECK_EQ(serve_greeting(clients[0], 600), -1);
        kill(pid, then);
    }
    if (signal_number == SIGKILL || then == SIGKILL) {
        serve_crash(victim);
        serve_report(victim, pid);
    }
    int count = signal_number == SIGSTOP ? carried : 1;
    if (point == after_take && serve.pids[victim] == 0) {
        CHECK_EQ(serve_greeting(clients[0], 10000), -2);
        close(clients[0]);
        served_once(clients + 1, count - 1, -1);
    } else if (serve.pids[victim] == 0) {
        served_once(clients, count, -1);
    } else {
        served_once(clients, 1, victim);
        for (int i = 1; i < count; i++) {
            CHECK(serve_greeting(clients[i], 10000) >= 0);
            close(clients[i]);
        }
    }
    come_back(victim);
    SHARED_SET(serve.shared->knob, victim);
    connect_all(clients, 1);
    served_once(clients, 1, victim);
    come_back(victim);
}

/* The sender dies between counting and sending, or after it, again and again: the window is as wide as
 * before, and the counters say what is on its way. */
static void sender(enum transfer_point point)
{
    int clients[2 * window];
    for (int i = 0; i < window; i++) {
        SHARED_SET(serve.shared->knob, victim);
        signal_at(point, acceptor, SIGKILL);
        connect_all(clients, 1);
        WAIT_UNTIL(SHARED_GET(script->signal_number) == 0, 10000);
        pid_t pid = serve_crash(acceptor);
        serve_report(acceptor, pid);
        CHECK_EQ(serve_greeting(clients[0], 10000), point == before_send ? -2 : victim);
        close(clients[0]);
        come_back(acceptor);
    }
    uint64_t before = serve_stats(victim).handoff_sent;
    pid_t pid = serve.pids[victim];
    kill(pid, SIGSTOP);
    WAIT_UNTIL(process_state(pid) == 'T', 10000);
    SHARED_SET(serve.shared->knob, victim);
    connect_all(clients, 2 * window);
    int served = 0;
    for (int i = 0; i < 2 * window; i++) {
        CHECK(serve_greeting(clients[i], 10000) >= 0);
        served++;
        close(clients[i]);
    }
    CHECK_EQ(served, 2 * window);
    printf("%d were sent to the stopped one\n", (int)(serve_stats(victim).handoff_sent - before));
    CHECK(serve_stats(victim).handoff_sent - before >= window / 2);
    kill(pid, SIGCONT);
    come_back(victim);
}

int main(int argc, char **argv)
{
    struct herd_config config = HERD_CONFIG_INIT;
    test_begin(55);
    (void)argc;
    preload("preload_transfer", argv);
    void *symbol = dlsym(RTLD_DEFAULT, "transfer_script");
    CHECK(symbol != NULL);
    script = (volatile struct transfer_script *)shared_memory(sizeof *script);
    ((struct transfer_script_place *)symbol)->script = script;
    config.mode = HERD_MODE_HANDOFF;
    config.accept_delay_ms = 150;
    config.acceptor_slot = acceptor;
    config.pick_callback = to_victim;
    serve_prepare(&config, workers);
    serve.shared->knob = HERD_PICK;
    for (int slot = 0; slot < workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    reader(before_take, SIGKILL, 0);
    reader(after_take, SIGKILL, 0);
    reader(before_take, SIGSTOP, SIGCONT);
    reader(before_take, SIGSTOP, SIGKILL);
    reader(after_take, SIGSTOP, SIGCONT);
    reader(after_take, SIGSTOP, SIGKILL);
    sender(before_send);
    sender(after_send);
    WAIT_UNTIL(serve_total().handoff_sent == serve_total().handoff_received, 10000);
    serve_end();
    test_exit(0);
}
