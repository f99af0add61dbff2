/* R17: a worker that was woken for a connection and then exits, is killed, is full, drains or is
 * stopped before it accepts leaves the connection to the other one: at once after a report of its
 * death or its own stepping back, within accept_delay in any case, and without further traffic. */
#include "right.h"

enum ending { exits, is_killed, is_full, drains, is_stopped };
static const char *const ending_names[] = {"exits", "is killed", "is full", "drains", "is stopped"};

enum { capacity = 16, far_ms = 30000, delay_ms = 300, slack_ms = 2000, at_once_ms = 100 };
enum { tries_most = 15, late_most = 4 };

/* Shared with the workers. */
struct stranding {
    int ending; /* -1: none yet */
    int has_ended;
    int busy_ms; /* how long a request keeps its worker busy */
    int is_busy;
};

static struct stranding *stranding;

static int end_between(struct herd_worker *worker)
{
    int ending = SHARED_GET(stranding->ending);
    if (ending < 0) {
        return 1;
    }
    SHARED_SET(stranding->has_ended, 1);
    switch (ending) {
    case exits:
        _exit(0);
    case is_killed:
        raise(SIGKILL);
        break;
    case is_full:
        while (herd_conn_opened(worker) < capacity) {
        }
        break;
    case drains:
        CHECK_CODE(herd_drain(worker), 0);
        break;
    default:
        raise(SIGSTOP);
    }
    return ending == is_full; /* the library has to see that there is no room */
}

static void recipe_run(int slot)
{
    struct herd_worker *worker;
    CHECK_CODE(herd_worker_create(serve.herd, slot, &worker), 0);
    SHARED_SET(serve.shared->ready[slot], getpid());
    for (;;) {
        right_turn(worker, end_between);
    }
}

static void keep_busy(struct herd_worker *worker)
{
    (void)worker;
    SHARED_SET(stranding->is_busy, 1);
    sleep_ms(stranding->busy_ms);
}

/* How long the other worker took from the end of the first, its report or the end of its own work,
 * in milliseconds. -1: it was woken itself. */
static int strand_once(const struct right_case *c, int ending, int reported, int busy_ms, int delay)
{
    struct herd_config config = right_config(c, (uint32_t)delay);
    int clients[capacity], slot, count = 1, took_ms = -1;
    config.worker_connections = capacity;
    serve.on_request = keep_busy;
    memset(stranding, 0, sizeof *stranding);
    stranding->ending = -1;
    stranding->busy_ms = busy_ms;
    serve_prepare(&config, 2);
    /* The other one, slot 1, gets connections until it lets slot 0 accept, which then comes first. */
    serve_fork(1);
    serve_settle();
    clients[0] = serve_connect(&slot);
    serve.pids[0] = test_fork();
    if (serve.pids[0] == 0) {
        recipe_run(0);
    }
    serve_settle();
    do {
        clients[count++] = serve_connect(&slot);
        serve_settle();
    } while (slot != 0 && count < capacity);
    CHECK_EQ(slot, 0);

    SHARED_SET(stranding->ending, ending);
    int64_t began_ms = now_ms();
    if (busy_ms > 0) {
        CHECK_EQ(send(clients[0], "x", 1, MSG_NOSIGNAL), 1);
        WAIT_UNTIL(SHARED_GET(stranding->is_busy), 5000);
    }
    int client = connect_to(serve.address);
    int64_t busy_until_ms = now_ms() + busy_ms;
    pid_t first = serve.pids[0];
    slot = -1;
    while (!SHARED_GET(stranding->has_ended) && slot < 0) {
        slot = serve_greeting(client, 1);
    }
    if (SHARED_GET(stranding->has_ended)) {
        began_ms = now_ms();
        if (ending == exits || ending == is_killed) {
            test_join(first);
            serve.pids[0] = 0;
            CHECK(!reported || herd_reap(serve.herd, first) >= 0);
        }
        CHECK_EQ(slot < 0 ? serve_greeting(client, 20000) : slot, 1);
        began_ms = busy_ms > 0 && busy_until_ms > began_ms ? busy_until_ms : began_ms;
        took_ms = (int)(now_ms() - began_ms);
        took_ms = took_ms < 0 ? 0 : took_ms;
    }
    close(client);
    for (int i = 0; i < count; i++) {
        close(clients[i]);
    }
    if (serve.pids[0] > 0) {
        serve.pids[0] = 0;
        test_kill(first);
    }
    serve_end();
    return took_ms;
}

/* Once more if the other one was woken itself, since then nothing was stranded; and, a few times at most, if it
 * took long, so that a busy machine is not blamed on the library. */
static void strand(const struct right_case *c, int ending, int reported, int busy_ms, int at_once)
{
    const int most_ms = at_once ? at_once_ms : delay_ms + slack_ms;
    int took_ms, tries = 0, late = 0;
    do {
        took_ms = strand_once(c, ending, reported, busy_ms, at_once ? far_ms : delay_ms);
        printf("%s: one %s%s%s: taken by the other after %d ms\n", c->name, ending_names[ending],
               reported ? ", reported" : "", busy_ms > 0 ? ", the other busy" : "", took_ms);
        CHECK(++tries <= tries_most);
        late += took_ms > most_ms;
        CHECK(late <= late_most);
    } while (took_ms < 0 || took_ms > most_ms);
}

int main(void)
{
    test_begin(55);
    stranding = (struct stranding *)shared_memory(sizeof *stranding);
    for (int i = 0; i < right_case_count; i++) {
        const struct right_case *c = &right_cases[i];
        /* In HANDOFF the worker that serves is not the one that accepts next: see handoff_steps.c. */
        if (c->balance != HERD_BALANCE_SPREAD || c->mode == HERD_MODE_HANDOFF) {
            continue;
        }
        for (int busy_ms = 0; busy_ms <= 150; busy_ms += 150) {
            strand(c, exits, 0, busy_ms, 0);
            strand(c, is_killed, 0, busy_ms, 0);
            strand(c, is_stopped, 0, busy_ms, 0);
            strand(c, exits, 1, busy_ms, 1);
            strand(c, is_killed, 1, busy_ms, 1);
            strand(c, is_full, 0, busy_ms, 1);
            strand(c, drains, 0, busy_ms, 1);
        }
    }
    test_exit(0);
}
