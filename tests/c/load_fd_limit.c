/* timeout: 120
 * A herd without a free descriptor in any worker does not spin and loses nobody; with room again it serves
 * all who wait, in every mode. Ten seconds with HERD_TEST_SLOW=1, else a half. */
#include "load.h"

enum { workers = 3, clients = 30, delay_ms = 100 };

static void at_the_limit(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int ms = test_is_slow() ? 10000 : 500, fds[clients];
    config.mode = mode;
    config.accept_delay_ms = delay_ms;
    serve_start(&config, workers);
    load_note_fds();
    serve_limit_fds(3);
    struct herd_stats before = serve_total();
    int64_t began_ms = now_ms();
    for (int i = 0; i < clients; i++) {
        fds[i] = connect_to(serve.address);
    }
    sleep_ms(ms);
    struct herd_stats after = serve_total();
    int took_ms = (int)(now_ms() - began_ms);
    int turns = (int)(after.turns - before.turns), backoffs = (int)(after.backoffs - before.backoffs);
    printf("%s: %d turns and %d failing accepts in %d ms\n", mode_name(mode), turns, backoffs,
           took_ms);
    CHECK_EQ(after.accepted, before.accepted);
    CHECK(backoffs > 0);
    /* One for each worker and delay; the connections that come wake a few more. */
    CHECK(backoffs <= workers * (took_ms / delay_ms + 2) + clients);
    CHECK(turns <= 20 * backoffs + took_ms / 10);
    serve_limit_fds(1024);
    int64_t room_ms = now_ms();
    for (int i = 0; i < clients; i++) {
        CHECK(serve_greeting(fds[i], 10000) >= 0);
        serve_echo(fds[i]);
        close(fds[i]);
    }
    printf("%s: all served %d ms later\n", mode_name(mode), (int)(now_ms() - room_ms));
    load_is_over();
    serve_end();
}

int main(void)
{
    test_begin(110);
    load_in_all_modes(at_the_limit);
}
