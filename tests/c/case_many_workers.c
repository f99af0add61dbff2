/* 64 workers start, serve and stop; none is left behind. */
#include "serve.h"

enum { workers = 64, connections = 256 };

static void start_serve_stop(uint32_t mode, uint32_t balance)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int clients[connections];
    config.mode = mode;
    config.balance = balance;
    config.worker_connections = 16; /* so that many of them have to take part */
    config.accept_delay_ms = 30000; /* and each has to wake the next */
    serve_start(&config, workers);
    CHECK_EQ(serve_total().workers, workers);
    for (int i = 0; i < connections; i++) {
        clients[i] = connect_to(serve.address);
    }
    for (int i = 0; i < connections; i++) {
        CHECK(serve_greeting(clients[i], 20000) >= 0);
    }
    int taking_part = 0;
    for (int slot = 0; slot < workers; slot++) {
        taking_part += serve.shared->accepted[slot] > 0;
    }
    printf("%d workers took part\n", taking_part);
    CHECK(taking_part >= connections / 16);
    for (int i = 0; i < connections; i++) {
        serve_echo(clients[i]);
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 20000);
    CHECK_EQ(serve_total().accepted, connections);
    CHECK_EQ(serve_total().closed, connections);
    serve_end();
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

int main(void)
{
    test_begin(55);
    start_serve_stop(HERD_MODE_MUTEX, HERD_BALANCE_PACK);
    start_serve_stop(HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD);
    test_exit(0);
}
