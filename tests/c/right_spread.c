/* R16: long-lived connections spread over the workers, by their load or as a host's policy says, at
 * the cost of few sleeps. */
#include "right.h"

enum { workers = 8, connections = 160, gap_ms = 10 };

static int clients[connections];
static int taken[SERVE_MAX_WORKERS];
/* Connections that went to another worker than the one before. */
static int changes;

/* Opens the connections and counts them by slot. Returns the sleeps of all workers, without those
 * for the guard. */
static long long open_all(int gap)
{
    int last = -1;
    memset(taken, 0, sizeof taken);
    changes = 0;
    struct herd_stats before = serve_total();
    long long sleeps = serve_sleeps();
    for (int i = 0; i < connections; i++) {
        int slot;
        clients[i] = serve_connect(&slot);
        taken[slot]++;
        changes += i > 0 && slot != last;
        last = slot;
        sleep_ms(gap);
    }
    sleeps = serve_sleeps() - sleeps;
    return sleeps - (long long)(serve_total().guard_ticks - before.guard_ticks);
}

static void close_all(void)
{
    for (int i = 0; i < connections; i++) {
        close(clients[i]);
    }
}

static double jain(int count)
{
    double sum = 0, squares = 0;
    for (int slot = 0; slot < count; slot++) {
        sum += taken[slot];
        squares += (double)taken[slot] * taken[slot];
    }
    return sum * sum / (count * squares);
}

/* Whether they are spread evenly, with few sleeps. */
static int spread_equally(const struct right_case *c)
{
    struct herd_config config = right_config(c, 0);
    serve_start(&config, workers);
    double sleeps = (double)open_all(gap_ms) / connections;
    printf("%s: Jain %.4f, sleeps a connection %.2f, EAGAIN %llu, taken", c->name, jain(workers),
           sleeps, (unsigned long long)serve_total().accept_eagain);
    for (int slot = 0; slot < workers; slot++) {
        printf(" %d", taken[slot]);
    }
    printf("\n");
    int good = jain(workers) >= 0.95 && sleeps <= (c->mode == HERD_MODE_MUTEX ? 2.5 : 2.0);
    for (int slot = 0; slot < workers; slot++) {
        good &= taken[slot] > 0 && taken[slot] <= connections * 40 / 100;
    }
    close_all();
    serve_end();
    return good;
}

static void equal_loads(const struct right_case *c)
{
    int good;
    CHECK_IN_SOME_TRY(good = spread_equally(c), good);
}

/* --- loads that differ -------------------------------------------------------------------- */

static void count_double(struct herd_worker *worker, int slot)
{
    if (slot == 0) {
        CHECK_CODE(herd_set_load(worker, 2 * (int64_t)SHARED_GET(serve.shared->accepted[0])), 0);
    }
}

/* Returns what a worker of double load gets of what each of the others does. */
static double share_of_double_load(const struct right_case *c)
{
    enum { few = 4 };
    struct herd_config config = right_config(c, 0);
    serve.on_accept = count_double;
    serve_start(&config, few);
    open_all(2);
    double share = (double)taken[0] * (few - 1) / (connections - taken[0]);
    printf("%s: double load: %.2f of the others' connections: %d %d %d %d\n", c->name, share,
           taken[0], taken[1], taken[2], taken[3]);
    close_all();
    serve_end();
    serve.on_accept = NULL;
    return share;
}

static void double_load(const struct right_case *c)
{
    double share;
    CHECK_IN_SOME_TRY(share = share_of_double_load(c), share >= 0.35 && share <= 0.65);
}

/* --- the host's own policy ---------------------------------------------------------------- */

enum { policy_step = 5 };

struct policy {
    int never;
    unsigned asked;
    unsigned wrong_own;
    unsigned wrong_least;
};

/* The calling worker's slot. The callback must not ask the library. */
static int own_slot(void)
{
    int slot = 0;
    while (SHARED_GET(serve.shared->ready[slot]) != getpid()) {
        slot++;
    }
    return slot;
}

static int decide(void *data, uint64_t own_load, uint64_t least_load)
{
    struct policy *policy = (struct policy *)data;
    int own = own_slot();
    uint64_t least = UINT64_MAX;
    for (int slot = 0; slot < serve.workers; slot++) {
        uint64_t load = SHARED_GET(serve.shared->accepted[slot]);
        if (slot != own) {
            least = load < least ? load : least;
        }
    }
    SHARED_ADD(policy->asked, 1u);
    /* It is asked before it is given the connection. */
    if (own_load != SHARED_GET(serve.shared->accepted[own]) + 1) {
        SHARED_ADD(policy->wrong_own, 1u);
    }
    if (least_load != least) {
        SHARED_ADD(policy->wrong_least, 1u);
    }
    return !policy->never && own_load >= least_load + policy_step;
}

/* Whether the connections went as the policy says. */
static int follow_policy(const struct right_case *c, struct policy *policy, int never)
{
    enum { few = 4 };
    struct herd_config config = right_config(c, 0);
    memset(policy, 0, sizeof *policy);
    policy->never = never;
    config.balance = HERD_BALANCE_CALLBACK;
    config.balance_callback = decide;
    config.balance_data = policy;
    serve_start(&config, few);
    open_all(5);
    int most = 0, least = connections;
    for (int slot = 0; slot < few; slot++) {
        most = taken[slot] > most ? taken[slot] : most;
        least = taken[slot] < least ? taken[slot] : least;
    }
    printf("%s: policy %s: asked %u times, own load wrong %u, least wrong %u, "
           "%d changes: %d %d %d %d\n", c->name,
           never ? "never" : "by steps", policy->asked, policy->wrong_own, policy->wrong_least,
           changes, taken[0], taken[1], taken[2], taken[3]);
    CHECK_EQ(policy->wrong_own, 0);
    int good = policy->asked >= connections * 9 / 10 && policy->asked <= connections;
    /* Of idle workers in MUTEX: one may still be on its way to its wait. */
    good &= policy->wrong_least <= connections / 20;
    if (never) {
        /* A worker that is not run when its turn comes loses its place in the queue, or the right. */
        good &= c->mode == HERD_MODE_EXCLUSIVE ? changes <= connections / 10 : most >= connections * 3 / 10;
    } else {
        good &= most - least <= policy_step + 2;
        good &= changes >= few;
        /* Where the hash places them, they change before the policy says so. */
        good &= c->mode == HERD_MODE_REUSEPORT || changes <= connections / 3;
    }
    close_all();
    serve_end();
    return good;
}

static void host_policy(const struct right_case *c, struct policy *policy, int never)
{
    int good;
    CHECK_IN_SOME_TRY(good = follow_policy(c, policy, never), good);
}

int main(void)
{
    test_begin(55);
    struct policy *policy = (struct policy *)shared_memory(sizeof *policy);
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance == HERD_BALANCE_SPREAD) {
            equal_loads(&right_cases[i]);
            double_load(&right_cases[i]);
            if (right_cases[i].mode == HERD_MODE_HANDOFF) {
                continue; /* handoff_pick.c has its callback */
            }
            host_policy(&right_cases[i], policy, 0);
            if (right_cases[i].mode != HERD_MODE_REUSEPORT) { /* the hash spreads by itself */
                host_policy(&right_cases[i], policy, 1);
            }
        }
    }
    test_exit(0);
}
