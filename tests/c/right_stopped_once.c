/* A stopped worker holds connections up once or twice, not once for each of the others: who finds out
 * that it does not answer its bell tells them. Long-lived connections make it the least loaded. */
#include "right.h"

enum { workers = 8, connections = 160, delay_ms = 600, held_up_ms = delay_ms / 2, held_up_most = 3 };

static void stop_one(const struct right_case *c)
{
    struct herd_config config = right_config(c, delay_ms);
    int clients[connections], slot, held_up = 0;
    serve_start(&config, workers);
    close(serve_connect(&slot));
    int stopped = (slot + 1) % workers;
    kill(serve.pids[stopped], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[stopped]) == 'T', 5000);
    int64_t began_ms = now_ms();
    for (int i = 0; i < connections; i++) {
        int64_t connected_ms = now_ms();
        clients[i] = serve_connect(&slot);
        CHECK(slot != stopped);
        held_up += now_ms() - connected_ms > held_up_ms;
        CHECK(held_up <= held_up_most);
        sleep_ms(2);
    }
    printf("%s: %d of %d connections held up, %d ms in all\n", c->name, held_up, connections,
           (int)(now_ms() - began_ms));
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
    kill(serve.pids[stopped], SIGCONT);
    serve_end();
}

int main(void)
{
    test_begin(50);
    for (int i = 0; i < right_case_count; i++) {
        stop_one(&right_cases[i]);
    }
    test_exit(0);
}
