/* All workers drain, and the parent shuts the listening sockets down: new clients are refused, the address is free
 * for another server, and the connection that is open is served to its end. */
#include "serve.h"

#include "modes.h"

enum { workers = 3 };

static int all_have_stepped_back(void)
{
    int count = 0;
    for (int slot = 0; slot < workers; slot++) {
        uint32_t state = serve_stats(slot).state;
        count += state == HERD_STATE_RESTING || state == HERD_STATE_NONE;
    }
    return count == workers;
}

static void drain_all(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.accept_delay_ms = 30000;
    serve_start(&config, workers);
    int open_at;
    int open = serve_connect(&open_at);
    for (int slot = 0; slot < workers; slot++) {
        kill(serve.pids[slot], SIGTERM);
    }
    WAIT_UNTIL(all_have_stepped_back(), 10000);
    CHECK_EQ(serve_stats(open_at).state, HERD_STATE_RESTING);

    /* In brackets they are the library's own: the connections to the address are the first herd's. */
    struct herd_config next_config = HERD_CONFIG_INIT;
    struct herd *next;
    CHECK_CODE(herd_create(&next_config, &next), 0);
    CHECK_CODE((herd_listen)(next, serve.address, NULL, serve_on_accept, NULL), -EADDRINUSE);
    for (int slot = 0; slot < workers; slot++) {
        /* Unless in REUSEPORT it is the same one each time, and no longer listens. */
        int fd = herd_slot_listener_fd(serve.herd, 0, slot);
        CHECK(fd >= 0);
        CHECK(shutdown(fd, SHUT_RD) == 0 || (slot > 0 && errno == ENOTCONN));
    }
    CHECK_CODE(connect_try(serve.address), -ECONNREFUSED);
    CHECK_CODE((herd_listen)(next, serve.address, NULL, serve_on_accept, NULL), 0);
    CHECK_CODE((herd_destroy)(next), 0);

    serve_echo(open);
    close(open);
    for (int slot = 0; slot < workers; slot++) {
        CHECK_EQ(test_join(serve.pids[slot]), 0);
        serve.pids[slot] = 0;
    }
    serve_end();
}

int main(void)
{
    test_begin(50);
    for (int i = 0; i < mode_count; i++) {
        drain_all(all_modes[i]);
    }
    test_exit(0);
}
