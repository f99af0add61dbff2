/* While the handler of one worker thread blocks for 200 ms, the other threads take every new client. */
#include "threads.h"

enum { workers = 4, block_ms = 200, rounds = 5, most_clients = 4 };

enum { has_begun = -1, is_over = 0 };

/* The knob: the slot in which the next request blocks, + 1, until it does. */
static void block_if_told(struct herd_worker *worker)
{
    if (SHARED_GET(serve.shared->knob) == herd_worker_slot(worker) + 1) {
        SHARED_SET(serve.shared->knob, has_begun);
        sleep_ms(block_ms);
        SHARED_SET(serve.shared->knob, is_over);
    }
}

static void blocked(void)
{
    int64_t worst_us = 0;
    int blocked_long_enough = 0; /* for a client to come meanwhile */
    for (int round = 0; round < rounds; round++) {
        int busy, slot, others[most_clients], served = 0;
        int slow = serve_connect(&busy);
        SHARED_SET(serve.shared->knob, busy + 1);
        CHECK_EQ(send(slow, "x", 1, MSG_NOSIGNAL), 1);
        WAIT_UNTIL(SHARED_GET(serve.shared->knob) != busy + 1, 10000); /* until then it may take one more */
        while (served < most_clients) {
            int64_t start_us = now_us();
            int fd = serve_connect(&slot);
            int64_t took_us = now_us() - start_us;
            if (SHARED_GET(serve.shared->knob) == is_over) {
                close(fd); /* the handler is over: this one says nothing */
                break;
            }
            CHECK(slot != busy);
            worst_us = took_us > worst_us ? took_us : worst_us;
            others[served++] = fd;
        }
        blocked_long_enough += served > 0;
        char byte;
        CHECK_EQ(recv(slow, &byte, 1, 0), 1);
        close(slow);
        while (served > 0) {
            close(others[--served]);
        }
        WAIT_UNTIL(serve_total().connections_open == 0, 10000);
        threads_settle();
    }
    CHECK(blocked_long_enough >= rounds / 2);
    printf("  longest wait of a client: %lld us\n", (long long)worst_us);
}

int main(void)
{
    test_begin(55);
    serve.on_request = block_if_told;
    threads_in_all_forms(blocked, workers);
    test_exit(0);
}
