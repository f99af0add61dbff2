/* Workers that are sent more connections than they have descriptors free take those that fit, and the
 * others are taken at once by whoever has room, the worker that only accepts included. */
#include "serve.h"

enum { workers = 3, acceptor = 2, room = 4, burst = 16 };

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[burst], served[workers] = {0};
    config.mode = HERD_MODE_HANDOFF;
    config.balance = HERD_BALANCE_ROUND_ROBIN;
    /* Nobody may wait for a tick of the guard, or for one that backs off. */
    config.accept_delay_ms = 60000;
    config.accept_batch = burst;
    config.acceptor_slot = acceptor;
    test_begin(50);
    serve_start(&config, workers);
    for (int slot = 0; slot < acceptor; slot++) {
        process_leave_free(serve.pids[slot], room);
    }
    kill(serve.pids[acceptor], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[acceptor]) == 'T', 10000);
    for (int i = 0; i < burst; i++) {
        clients[i] = connect_to(serve.address);
    }
    kill(serve.pids[acceptor], SIGCONT);
    for (int i = 0; i < burst; i++) {
        int slot = serve_greeting(clients[i], 10000);
        CHECK(slot >= 0);
        served[slot]++;
    }
    printf("%d, %d, and the acceptor %d\n", served[0], served[1], served[acceptor]);
    CHECK(served[0] == room && served[1] == room && served[acceptor] == burst - 2 * room);
    for (int i = 0; i < burst; i++) {
        serve_echo(clients[i]);
        CHECK_EQ(serve_greeting(clients[i], 0), -1);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    CHECK_EQ(serve_total().handoff_sent, serve_total().handoff_received);
    serve_end();
    test_exit(0);
}
