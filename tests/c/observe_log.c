/* The log callback gets as a warning what an operator must know: a dead worker that was found, the right
 * taken from a worker that stands still, a back-off and its error; and all are counted, also those of which
 * no line tells (observe_log_seldom). */
#include "serve.h"

enum { workers = 3 };

static struct seen {
    unsigned deaths, thefts, backoffs;
} *seen;

static void on_log(void *log_data, int level, const char *message)
{
    (void)log_data;
    if (level != HERD_LOG_WARNING) {
        return;
    }
    if (strstr(message, "its worker is dead") != NULL) {
        SHARED_ADD(seen->deaths, 1u);
    } else if (strstr(message, "takes the accept right from slot") != NULL) {
        SHARED_ADD(seen->thefts, 1u);
    } else if (strstr(message, strerror(EMFILE)) != NULL) {
        SHARED_ADD(seen->backoffs, 1u);
    }
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int slot, client;
    test_begin(50);
    seen = (struct seen *)shared_memory(sizeof *seen);
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 100;
    config.log = on_log;
    serve_start(&config, workers);

    /* Whoever has the right is stopped, and another one takes it. */
    int holder = serve_find_holder(NULL);
    kill(serve.pids[holder], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[holder]) == 'T', 5000);
    client = serve_connect(&slot);
    CHECK(slot != holder);
    close(client);
    kill(serve.pids[holder], SIGCONT);
    CHECK(SHARED_GET(seen->thefts) > 0);
    CHECK(SHARED_GET(seen->thefts) <= serve_total().thefts);

    /* No descriptor is left for a connection, anywhere. */
    serve_limit_fds(3);
    client = connect_to(serve.address);
    WAIT_UNTIL(SHARED_GET(seen->backoffs) >= workers, 10000);
    serve_limit_fds(RLIM_INFINITY);
    CHECK(serve_greeting(client, 10000) >= 0);
    close(client);
    serve_settle();
    struct herd_stats total = serve_total();
    CHECK(SHARED_GET(seen->backoffs) <= total.backoffs);
    CHECK_EQ(total.backoffs_emfile, total.backoffs);

    CHECK_EQ(SHARED_GET(seen->deaths), 0);
    pid_t dead = serve_crash(1);
    serve_report(1, dead);
    WAIT_UNTIL(SHARED_GET(seen->deaths) == 1, 10000);
    CHECK_EQ(serve_total().reaps, 1);
    serve_end();
    test_exit(0);
}
