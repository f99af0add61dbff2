/* All workers but the one that only accepts are stopped: it serves what it had sent them, and what
 * comes; when they go on, it leaves connections to them again. */
#include "serve.h"

enum { workers = 3, acceptor = 1, sent_before = 10 };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[sent_before], slot;
    config.mode = HERD_MODE_HANDOFF;
    config.balance = HERD_BALANCE_ROUND_ROBIN;
    config.accept_delay_ms = 300;
    config.acceptor_slot = acceptor;
    test_begin(50);
    serve_start(&config, workers);
    for (int other = 0; other < workers; other += 2) {
        kill(serve.pids[other], SIGSTOP);
        WAIT_UNTIL(process_state(serve.pids[other]) == 'T', 10000);
    }
    for (int i = 0; i < sent_before; i++) {
        clients[i] = connect_to(serve.address);
    }
    for (int i = 0; i < sent_before; i++) {
        CHECK_EQ(serve_greeting(clients[i], 10000), acceptor);
    }
    /* Nothing more is sent to those that were found stuck. */
    uint64_t sent = serve_total().handoff_sent;
    for (int i = 0; i < sent_before; i++) {
        int client = serve_connect(&slot);
        CHECK_EQ(slot, acceptor);
        close(client);
    }
    CHECK_EQ(serve_total().handoff_sent, sent);
    for (int other = 0; other < workers; other += 2) {
        kill(serve.pids[other], SIGCONT);
    }
    serve_settle();
    for (int i = 0; i < sent_before; i++) {
        int client = serve_connect(&slot);
        CHECK(slot != acceptor);
        close(client);
    }
    for (int i = 0; i < sent_before; i++) {
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    CHECK_EQ(serve_total().handoff_sent, serve_total().handoff_received);
    serve_end();
    test_exit(0);
}
