/* A worker whose herd_run ends leaves the accept right to another at once, however long its host takes to destroy it, and
 * also when the first that it would ring is stopped. */
#include "right.h"

enum { workers = 3, delay_ms = 30000 };

/* The test's word: a worker that has ended says so, and waits. */
enum { go_on, wait_at_the_end, has_ended };

static void on_end(void)
{
    if (SHARED_GET(serve.shared->knob) == wait_at_the_end) {
        SHARED_SET(serve.shared->knob, has_ended);
        WAIT_UNTIL(SHARED_GET(serve.shared->knob) == go_on, 20000);
    }
}

static void end_one(const struct right_case *c, int signal_number, int stops_another)
{
    struct herd_config config = right_config(c, delay_ms);
    int leaver, other = -1, slot;
    serve.on_end = on_end;
    serve_start(&config, workers);
    serve_settle();
    if (right_has_holder(c)) {
        WAIT_UNTIL((leaver = serve_total().holder) >= 0, 10000);
    } else {
        close(serve_connect(&leaver));
        serve_settle();
    }
    if (stops_another) {
        other = leaver == 0 ? 1 : 0; /* of equals the one in front is rung */
        kill(serve.pids[other], SIGSTOP);
        WAIT_UNTIL(process_state(serve.pids[other]) == 'T', 10000);
    }
    SHARED_SET(serve.shared->knob, wait_at_the_end);
    kill(serve.pids[leaver], signal_number);
    WAIT_UNTIL(SHARED_GET(serve.shared->knob) == has_ended, 10000);
    int64_t began_ms = now_ms();
    int client = connect_to(serve.address);
    slot = serve_greeting(client, delay_ms / 3);
    printf("%s, %s: greeted after %d ms\n", c->name, stops_another ? "another stopped" : "all run",
           (int)(now_ms() - began_ms));
    CHECK(slot >= 0 && slot != leaver && slot != other);
    close(client);
    SHARED_SET(serve.shared->knob, go_on);
    if (other >= 0) {
        kill(serve.pids[other], SIGCONT);
    }
    CHECK_EQ(test_join(serve.pids[leaver]), 0);
    serve.pids[leaver] = 0;
    serve_end();
}

int main(void)
{
    test_begin(55);
    for (int i = 0; i < right_case_count; i++) {
        end_one(&right_cases[i], SIGINT, 0);
        end_one(&right_cases[i], SIGTERM, 0);
        if (right_has_holder(&right_cases[i])) {
            end_one(&right_cases[i], SIGINT, 1);
        }
    }
    test_exit(0);
}
