/* A worker that is stopped (or not scheduled) between herd_trylock and herd_process_events, so with
 * the right or armed but not waiting, is replaced by another within accept_delay; when it goes on
 * nobody is harmed, and its herd_unlock says that the right was gone. */
#include "right.h"

enum { workers = 3, delay_ms = 300, slack_ms = 2000, recipe = 0 };

struct descheduled {
    int is_wanted;
    int held;
    int unlocked;
};

static struct descheduled *shared;

static void recipe_run(void)
{
    struct herd_worker *worker;
    CHECK_CODE(herd_worker_create(serve.herd, recipe, &worker), 0);
    SHARED_SET(serve.shared->ready[recipe], getpid());
    for (;;) {
        int held = herd_trylock(worker);
        CHECK(held >= 0);
        int stops = SHARED_GET(shared->is_wanted) && held;
        if (stops) {
            SHARED_SET(shared->is_wanted, 0);
            SHARED_SET(shared->held, held);
            raise(SIGSTOP);
        }
        CHECK(herd_process_events(worker, 10, HERD_POST_EVENTS) >= 0);
        CHECK(herd_process_posted(worker, HERD_POSTED_ACCEPT) >= 0);
        int unlocked = herd_unlock(worker);
        CHECK(unlocked >= 0);
        if (stops) {
            SHARED_SET(shared->unlocked, unlocked);
        }
        CHECK(herd_process_timers(worker) >= 0);
        CHECK(herd_process_posted(worker, HERD_POSTED_EVENTS) >= 0);
    }
}

static void deschedule(const struct right_case *c)
{
    struct herd_config config = right_config(c, delay_ms);
    int slot, longest_ms = 0;
    memset(shared, 0, sizeof *shared);
    shared->unlocked = -1;
    serve_prepare(&config, workers);
    serve.pids[recipe] = test_fork();
    if (serve.pids[recipe] == 0) {
        recipe_run();
    }
    WAIT_UNTIL(SHARED_GET(serve.shared->ready[recipe]) != 0, 5000);
    close(serve_connect(&slot));
    SHARED_SET(shared->is_wanted, 1);
    WAIT_UNTIL(process_state(serve.pids[recipe]) == 'T', 5000);
    CHECK_EQ(shared->held, 1);
    for (slot = 1; slot < workers; slot++) {
        serve_fork(slot);
        WAIT_UNTIL(SHARED_GET(serve.shared->ready[slot]) == serve.pids[slot], 5000);
    }
    for (int i = 0; i < 10; i++) {
        int64_t began_ms = now_ms();
        close(serve_connect(&slot));
        int took_ms = (int)(now_ms() - began_ms);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        CHECK(slot != recipe);
        CHECK(took_ms <= delay_ms + slack_ms);
    }
    kill(serve.pids[recipe], SIGCONT);
    WAIT_UNTIL(SHARED_GET(shared->unlocked) >= 0, 5000);
    CHECK_EQ(shared->unlocked, 0);
    /* Others may be descheduled as well. */
    CHECK(right_has_holder(c) ? serve_total().thefts >= 1 : serve_total().thefts == 0);
    for (int i = 0; i < 10; i++) {
        close(serve_connect(&slot));
    }
    printf("%s: another accepts after %d ms\n", c->name, longest_ms);
    serve_crash(recipe);
    serve_end();
}

int main(void)
{
    test_begin(50);
    shared = (struct descheduled *)shared_memory(sizeof *shared);
    for (int i = 0; i < right_case_count; i++) {
        deschedule(&right_cases[i]);
    }
    test_exit(0);
}
