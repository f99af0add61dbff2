/* A worker that is killed or stopped between being woken by the guard's tick and taking it does not
 * silence the guard: the next tick comes, without traffic and without a master's help. */
#include "preload.h"
#include "right.h"

#include "epoll_script.h"

enum { workers = 3, delay_ms = 200, most_ms = 4 * delay_ms + 700 };

static void lose_tick(const struct right_case *c, volatile int *signal_at_tick, int signal_number)
{
    struct herd_config config = right_config(c, delay_ms);
    serve_start(&config, workers);
    SHARED_SET(*signal_at_tick, signal_number);
    WAIT_UNTIL(SHARED_GET(*signal_at_tick) == 0, 5000);
    int64_t began_ms = now_ms();
    int lost = -1;
    while (lost < 0) {
        for (int slot = 0; slot < workers; slot++) {
            if (test_ended(serve.pids[slot]) || process_state(serve.pids[slot]) == 'T') {
                lost = slot;
            }
        }
        CHECK(now_ms() - began_ms < 5000);
    }
    uint64_t ticks = serve_total().guard_ticks;
    WAIT_UNTIL(serve_total().guard_ticks > ticks, most_ms);
    printf("%s, signal %d: the next tick came after %d ms\n", c->name, signal_number,
           (int)(now_ms() - began_ms));
    test_kill(serve.pids[lost]);
    serve.pids[lost] = 0;
    int slot;
    close(serve_connect(&slot));
    serve_end();
}

int main(int argc, char **argv)
{
    test_begin(50);
    (void)argc;
    preload("preload_epoll", argv);
    void *symbol = dlsym(RTLD_DEFAULT, "epoll_script");
    CHECK(symbol != NULL);
    int *signal_at_tick = (int *)shared_memory(sizeof *signal_at_tick);
    ((struct epoll_script *)symbol)->signal_at_tick = signal_at_tick;
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance == HERD_BALANCE_SPREAD) {
            lose_tick(&right_cases[i], signal_at_tick, SIGKILL);
            lose_tick(&right_cases[i], signal_at_tick, SIGSTOP);
        }
    }
    test_exit(0);
}
