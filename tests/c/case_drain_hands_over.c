/* herd_drain gives the accept right to another worker at once and finishes the connections that are
 * open; so it does while a handler runs. */
#include "serve.h"

static void drain_self(struct herd_worker *worker)
{
    if (SHARED_GET(serve.shared->knob) == herd_worker_slot(worker)) {
        CHECK_CODE(herd_drain(worker), 0);
    }
}

/* Sends the holder away, by a signal or from its own handler. Returns how long the next took. */
static int drain_holder(int in_handler)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; /* the safety net must not be what helps */
    serve.on_request = drain_self;
    serve_prepare(&config, 2);
    SHARED_SET(serve.shared->knob, -1);
    serve_fork(0);
    serve_fork(1);
    serve_settle();
    int holder = serve_find_holder(NULL), slot;
    int open = serve_connect(&slot);
    CHECK_EQ(slot, holder);
    serve_echo(open);

    int64_t asked_ms = now_ms();
    if (in_handler) {
        SHARED_SET(serve.shared->knob, holder);
        serve_echo(open);
    } else {
        kill(serve.pids[holder], SIGTERM);
        /* Until the signal has arrived the old one may accept: then it has to serve. */
        WAIT_UNTIL(serve_stats(holder).handovers > 0, 5000);
    }
    int next = connect_to(serve.address);
    CHECK_EQ(serve_greeting(next, 5000), 1 - holder);
    int took_ms = (int)(now_ms() - asked_ms);

    for (int i = 0; i < 3; i++) {
        serve_echo(open);
        serve_echo(next);
    }
    CHECK(!test_ended(serve.pids[holder]));
    close(open);
    CHECK_EQ(test_join(serve.pids[holder]), 0);
    serve.pids[holder] = 0;
    CHECK_EQ(serve_total().connections_open, 1);
    close(next);
    serve_end();
    return took_ms;
}

int main(void)
{
    test_begin(50);
    for (int in_handler = 0; in_handler < 2; in_handler++) {
        int took_ms;
        CHECK_IN_SOME_TRY(took_ms = drain_holder(in_handler), took_ms < 100);
        printf("%s: handed over in %d ms\n", in_handler ? "handler" : "signal", took_ms);
    }
    test_exit(0);
}
