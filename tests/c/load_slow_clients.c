/* timeout: 120
 * Clients that send a byte now and then, and never hurry to read, keep no worker from others: a quick client
 * is served meanwhile, and a worker wakes for what comes and not more often. HERD_TEST_SLOW=1: for longer. */
#include "load.h"

enum { workers = 3, slow_clients = 60, gap_ms = 20 };

static void slow_ones(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    int slow[slow_clients], slot, bytes = test_is_slow() ? 1000 : 30, quick = 0;
    config.mode = mode;
    serve_start(&config, workers);
    load_note_fds();
    for (int i = 0; i < slow_clients; i++) {
        slow[i] = serve_connect(&slot);
    }
    uint64_t turns = serve_total().turns;
    int64_t began_ms = now_ms(), longest_ms = 0;
    for (int byte = 0; byte < bytes; byte++) {
        for (int i = 0; i < slow_clients; i++) {
            CHECK_EQ(send(slow[i], "s", 1, MSG_NOSIGNAL), 1);
        }
        int64_t connected_ms = now_ms();
        int fd = serve_connect(&slot);
        serve_echo(fd);
        close(fd);
        longest_ms = now_ms() - connected_ms > longest_ms ? now_ms() - connected_ms : longest_ms;
        quick++;
        sleep_ms(gap_ms);
    }
    turns = serve_total().turns - turns;
    int64_t took_ms = now_ms() - began_ms;
    printf("%s: %d turns for %d bytes and %d quick clients, the slowest of these %d ms\n",
           mode_name(mode), (int)turns, bytes * slow_clients, quick, (int)longest_ms);
    CHECK(turns < (uint64_t)(2 * bytes * slow_clients + 20 * quick + took_ms));
    for (int i = 0; i < slow_clients; i++) {
        char answer[1024];
        for (int got = 0; got < bytes;) {
            ssize_t more = recv(slow[i], answer, sizeof answer, 0);
            CHECK(more > 0);
            got += (int)more;
        }
        close(slow[i]);
    }
    load_is_over();
    serve_end();
}

int main(void)
{
    test_begin(110);
    load_in_all_modes(slow_ones);
}
