/* timeout: 120
 * Clients that reset their connection at every stage of it cost nobody else anything, and nothing is left
 * of them, in every mode. HERD_TEST_SLOW=1: a hundred times as many. */
#include "load.h"

enum { workers = 3, each = 10 };

enum stage {
    in_backlog,      /* nobody has accepted it yet */
    at_once,         /* perhaps while it is accepted or passed on */
    before_greeting, /* a moment later */
    greeted,
    request_sent,
    answered,
    half_closed,
    stages
};

/* The client's part up to a stage, and its end. */
static void reset_at(enum stage stage)
{
    int fd = connect_to(serve.address);
    if (stage > before_greeting) {
        CHECK(serve_greeting(fd, 10000) >= 0);
    }
    if (stage == request_sent || stage == half_closed) {
        CHECK_EQ(send(fd, "abc", 3, MSG_NOSIGNAL), 3);
    }
    if (stage == answered) {
        serve_echo(fd);
    }
    if (stage == half_closed) {
        shutdown(fd, SHUT_WR);
    }
    if (stage == before_greeting) {
        sleep_ms(1);
    }
    load_reset(fd);
}

static void reset_in_backlog(void)
{
    load_signal_workers(SIGSTOP);
    WAIT_UNTIL(load_all_stopped(), 10000);
    for (int i = 0; i < each; i++) {
        reset_at(in_backlog);
    }
    int fd = connect_to(serve.address);
    load_signal_workers(SIGCONT);
    CHECK(serve_greeting(fd, 10000) >= 0);
    serve_echo(fd);
    close(fd);
}

static void resets(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    serve_start(&config, workers);
    load_note_fds();
    for (int round = 0; round < (test_is_slow() ? 100 : 1); round++) {
        reset_in_backlog();
        for (int i = 0; i < each; i++) {
            for (enum stage stage = at_once; stage < stages; stage++) {
                reset_at(stage);
            }
            int slot, fd = serve_connect(&slot);
            serve_echo(fd);
            close(fd);
        }
    }
    load_is_over();
    printf("%s: %d accepted\n", mode_name(mode), (int)serve_total().accepted);
    CHECK_EQ(serve_total().backoffs, 0);
    serve_end();
}

int main(void)
{
    test_begin(110);
    load_in_all_modes(resets);
}
