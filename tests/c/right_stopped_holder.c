/* A stopped worker costs one accept_delay at most, with no master's help: SIGSTOP of the holder of
 * the right (MUTEX) or of the first in the wait queue (EXCLUSIVE, REUSEPORT), and SIGKILL of it together with
 * the master. After SIGCONT the stopped one goes on without harm to anybody. */
#include "right.h"

/* Where the kernel passes it over, the safety net is far. */
enum { delay_ms = 300, far_ms = 30000, slack_ms = 2000, workers = 3 };

static struct herd_config config_of(const struct right_case *c)
{
    return right_config(c, right_has_holder(c) ? delay_ms : far_ms);
}

/* The worker that gets the next connection. */
static int find_next(const struct right_case *c)
{
    int slot;
    if (right_has_holder(c)) {
        return serve_find_holder(NULL);
    }
    close(serve_connect(&slot));
    serve_settle();
    return slot;
}

static void stop_and_continue(const struct right_case *c)
{
    struct herd_config config = config_of(c);
    int slot;
    serve_start(&config, workers);
    int stopped = find_next(c);
    uint64_t thefts = serve_total().thefts;
    kill(serve.pids[stopped], SIGSTOP);
    WAIT_UNTIL(process_state(serve.pids[stopped]) == 'T', 5000);
    int64_t began_ms = now_ms();
    close(serve_connect(&slot));
    int took_ms = (int)(now_ms() - began_ms);
    CHECK(slot != stopped);
    /* The right has to be taken from it. */
    CHECK(took_ms <= delay_ms + slack_ms);
    CHECK(right_has_holder(c) ? serve_total().thefts > thefts : serve_total().thefts == 0);
    /* While it stays stopped, others serve without another delay on average. */
    int64_t others_ms = now_ms();
    for (int i = 0; i < 20; i++) {
        close(serve_connect(&slot));
        CHECK(slot != stopped);
    }
    others_ms = now_ms() - others_ms;
    CHECK(others_ms < workers * (delay_ms + slack_ms));
    uint64_t turns = serve_stats(stopped).turns;
    kill(serve.pids[stopped], SIGCONT);
    WAIT_UNTIL(serve_stats(stopped).turns > turns, 5000);
    serve_settle();
    printf("%s: stopped: taken after %d ms, the next 20 in %d ms\n", c->name, took_ms,
           (int)others_ms);
    /* It serves again once the others are away. */
    for (slot = 0; slot < workers; slot++) {
        if (slot != stopped) {
            kill(serve.pids[slot], SIGINT);
            CHECK_EQ(test_join(serve.pids[slot]), 0);
            serve.pids[slot] = 0;
        }
    }
    began_ms = now_ms();
    int last = serve_connect(&slot);
    CHECK_EQ(slot, stopped);
    CHECK(now_ms() - began_ms <= delay_ms + slack_ms);
    serve_echo(last);
    close(last);
    serve_end();
}

/* --- the master dies as well --------------------------------------------------------------- */

struct orphans {
    pid_t pids[workers];
    char address[160];
    int is_ready;
    int next;
};

/* The master: it starts workers that live on without it, and says who is next. */
static void master_run(const struct right_case *c, struct orphans *orphans)
{
    struct herd_config config = right_config(c, delay_ms);
    serve_prepare(&config, workers);
    for (int slot = 0; slot < workers; slot++) {
        pid_t pid = test_fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, 0);
            alarm(40); /* in place of the master's death signal */
            signal(SIGALRM, SIG_DFL);
            serve_run(slot);
        }
        serve.pids[slot] = pid;
        SHARED_SET(orphans->pids[slot], pid);
    }
    serve_settle();
    snprintf(orphans->address, sizeof orphans->address, "%s", serve.address);
    SHARED_SET(orphans->next, find_next(c));
    SHARED_SET(orphans->is_ready, 1);
    for (;;) {
        pause();
    }
}

static void kill_with_master(const struct right_case *c, struct orphans *orphans)
{
    memset(orphans, 0, sizeof *orphans);
    pid_t master = test_fork();
    if (master == 0) {
        master_run(c, orphans);
    }
    WAIT_UNTIL(SHARED_GET(orphans->is_ready) || test_ended(master), 20000);
    CHECK(!test_ended(master));
    int dead = SHARED_GET(orphans->next), longest_ms = 0, good = 1;
    kill(master, SIGKILL);
    kill(orphans->pids[dead], SIGKILL);
    for (int i = 0; i < 10 && good; i++) {
        int64_t began_ms = now_ms();
        int client = connect_to(orphans->address);
        int slot = serve_greeting(client, 10000);
        int took_ms = (int)(now_ms() - began_ms);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        close(client);
        good = slot >= 0 && slot != dead && took_ms <= delay_ms + slack_ms;
    }
    test_join(master);
    for (int slot = 0; slot < workers; slot++) {
        kill(orphans->pids[slot], SIGKILL);
        waitpid(orphans->pids[slot], NULL, 0); /* ours now, see main */
    }
    printf("%s: killed with its master: taken after at most %d ms\n", c->name, longest_ms);
    CHECK(good);
}

int main(void)
{
    test_begin(55);
    struct orphans *orphans = (struct orphans *)shared_memory(sizeof *orphans);
    /* The workers of a dead master become this process's children. */
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int i = 0; i < right_case_count; i++) {
        stop_and_continue(&right_cases[i]);
        kill_with_master(&right_cases[i], orphans);
    }
    test_exit(0);
}
