/* A worker that is killed or stopped between being woken by the guard's tick and taking it does not
 * silence the guard: the next tick comes, without traffic and without a master's help. If the one that is woken
 * instead is caught in the same way, the next that has anything to do starts the guard anew, and so does herd_reap. */
#include "preload.h"
#include "right.h"

#include "epoll_script.h"

enum { workers = 3, delay_ms = 200, most_ms = 4 * delay_ms + 700, most_clients = 100 };

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

/* The next worker that a tick wakes. */
static int catch_one(volatile int *signal_at_tick, int signal_number, int but)
{
    SHARED_SET(*signal_at_tick, signal_number);
    WAIT_UNTIL(SHARED_GET(*signal_at_tick) == 0, 5000);
    int64_t end_ms = now_ms() + 5000;
    for (int slot = 0;; slot = (slot + 1) % workers) {
        if (slot != but && (test_ended(serve.pids[slot]) || process_state(serve.pids[slot]) == 'T')) {
            return slot;
        }
        CHECK(now_ms() < end_ms);
    }
}

static void lose_two(const struct right_case *c, volatile int *signal_at_tick, int signal_number)
{
    struct herd_config config = right_config(c, delay_ms);
    int clients[workers] = {-1, -1, -1}, spare[most_clients], count = 0;
    serve_start(&config, workers);
    /* Whoever is left is to have something to do later. */
    while (clients[0] < 0 || clients[1] < 0 || clients[2] < 0) {
        int slot;
        CHECK(count < most_clients);
        spare[count] = serve_connect(&slot);
        clients[slot] = spare[count++];
    }
    serve_settle();
    int first = catch_one(signal_at_tick, signal_number, -1);
    int second = catch_one(signal_at_tick, signal_number, first), left = workers - first - second;
    uint64_t ticks = serve_total().guard_ticks;
    sleep_ms(2 * delay_ms); /* nothing tells that both timers are silent but their silence */
    CHECK_EQ(serve_total().guard_ticks, ticks);
    serve_echo(clients[left]);
    WAIT_UNTIL(serve_total().guard_ticks > ticks, most_ms);
    int caught[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        test_kill(serve.pids[caught[i]]);
        serve.pids[caught[i]] = 0;
    }
    while (count > 0) {
        close(spare[--count]);
    }
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
            lose_two(&right_cases[i], signal_at_tick, SIGKILL);
            lose_two(&right_cases[i], signal_at_tick, SIGSTOP);
        }
    }
    test_exit(0);
}
