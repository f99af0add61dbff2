/* timeout: 600
 * Every system call that the library makes, from herd_create to herd_destroy, fails with every error of its
 * man page, in every mode. A call of the host's that fails says with what, has changed nothing, and works
 * when it is made again; a turn goes on, unless accept4 or the wait itself says that it cannot; every client
 * is served once; nothing is left behind. HERD_TEST_SLOW=1: all errors of all calls, and some for a while;
 * else a sample. */
#include "fault_life.h"

#include "leftovers.h"

/* A round waits most of its time, for ticks of the guard. */
enum { shares_a_core = 4, shares_most = 64, strikes_most = 60, lasting = 30 };

static int is_over, share_count;
static struct share *shares;

static void name_files(int number, pid_t test)
{
    snprintf(herd_name, sizeof herd_name, "faults-%d-%d", (int)test, number);
    snprintf(herd_path, sizeof herd_path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), herd_name);
    snprintf(socket_path, sizeof socket_path, "/tmp/herd-%s", herd_name);
}

static void remove_files(pid_t test)
{
    for (int number = 0; number < share_count; number++) {
        name_files(number, test);
        unlink(herd_path);
        unlink(socket_path);
    }
}

static void say_where_it_ended(void)
{
    if (!is_over) {
        say_where();
    }
}

/* --- Which faults ---------------------------------------------------------------------------- */

static void round_with(int call, int error, int before, int failing)
{
    /* The same number in every process: each share has those that leave its own as their rest. */
    static long long number;
    if (number++ % share_count != share - shares) {
        return;
    }
    is_lasting = failing > 1;
    arm(call, error, before, failing);
    whole_life();
    share->hits_of[call] += script->hits;
    share->rounds++;
}

/* Where the others' connections wake a polled set the library refuses it. */
static int is_possible(enum way wanted)
{
    return wanted != nested || (mode != HERD_MODE_EXCLUSIVE && mode != HERD_MODE_REUSEPORT);
}

/* A sample: a quarter of the calls, with one of their errors. */
static void some_faults(const long long *made)
{
    for (int call = 0; call < FAULT_CALLS; call++) {
        if (made[call] > 0 && (call + (int)mode) % 4 == 0) {
            int error = shim->calls[call].errnos[(call / 2 + (int)mode) % error_count(call)];
            enum way way = (enum way)((call / 2 + (int)mode) % ways);
            share->way = is_possible(way) ? way : itself;
            round_with(call, error, (int)((7 * (int)mode + call) % made[call]), 1);
        }
    }
}

static void all_faults(const long long *made)
{
    for (int call = 0; call < FAULT_CALLS; call++) {
        int count = made[call] < strikes_most ? (int)made[call] : strikes_most;
        for (int before = 0; before < count; before += share->way == itself ? 1 : 3) {
            for (int i = 0; i < error_count(call); i++) {
                int error = shim->calls[call].errnos[i];
                round_with(call, error, before, 1);
                if (before % 4 == 0 && can_last(error)) {
                    round_with(call, error, before, lasting);
                }
            }
        }
    }
}

/* --- Who makes them -------------------------------------------------------------------------- */

/* How many calls a life makes, of each: in every one of them a fault can strike. */
static void count_calls(long long *made)
{
    /* Some memory is made once in a process. */
    CHECK_CODE(create(NULL), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    whole_life();
    memset(script->made, 0, sizeof script->made);
    whole_life();
    memcpy(made, script->made, sizeof script->made);
}

static pid_t start_share(int number, enum way way, const long long *made)
{
    pid_t test = getpid(), pid = test_fork();
    if (pid == 0) {
        use_share(&shares[number]);
        share->way = way;
        name_files(number, test);
        disarm();
        if (test_is_slow()) {
            all_faults(made);
        } else {
            some_faults(made);
        }
        test_exit(0);
    }
    return pid;
}

static void join_share(int number, pid_t pid)
{
    int code = test_join(pid);
    if (code != 0) {
        use_share(&shares[number]);
        CHECK_EQ(code, 0);
    }
}

static long long all_rounds(void)
{
    long long sum = 0;
    for (int number = 0; number < share_count; number++) {
        sum += shares[number].rounds;
    }
    return sum;
}

static void run_mode(enum way way)
{
    long long made[FAULT_CALLS];
    pid_t pids[shares_most];
    int64_t began_ms = now_ms();
    share->way = way;
    count_calls(made);
    for (int number = 0; number < share_count; number++) {
        pids[number] = start_share(number, way, made);
    }
    for (int number = 0; number < share_count; number++) {
        join_share(number, pids[number]);
    }
    printf("%s, %s: %lld rounds by now, %d ms\n", mode_name(mode),
           test_is_slow() ? way_names[way] : "some of each", all_rounds(), (int)(now_ms() - began_ms));
}

/* What is made once in a process, by the first call that needs it. */
static void first_use(void)
{
    static const int once[] = {FAULT_MMAP, FAULT_MADVISE};
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < (test_is_slow() ? error_count(once[which]) : 2); i++) {
            pid_t pid = test_fork();
            if (pid == 0) {
                CHECK_CODE(herd_create(NULL, NULL), -EINVAL); /* makes what it keeps for panics */
                arm(once[which], shim->calls[once[which]].errnos[i], 0, 1);
                STEP(create(NULL));
                CHECK_EQ(script->hits, 1);
                CHECK_CODE(herd_destroy(herd), 0);
                test_exit(0);
            }
            join_share(0, pid);
            share->hits_of[once[which]] += script->hits;
        }
    }
}

static void begin(void)
{
    long shares_wanted = shares_a_core * sysconf(_SC_NPROCESSORS_ONLN);
    share_count = shares_wanted < shares_most ? (int)shares_wanted : shares_most;
    shares = (struct share *)shared_memory(share_count * sizeof *shares);
    use_share(&shares[0]);
    disarm();
    name_files(0, getpid());
    remove_at_end(remove_files);
    atexit(say_where_it_ended);
    inject_connections(watch);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(test_is_slow() ? 590 : 55);
    inject_begin(argv);
    begin();
    first_use();
    for (int i = 0; i < mode_count; i++) {
        mode = all_modes[i];
        run_mode(itself);
        for (int way = attached; test_is_slow() && way < ways; way++) {
            if (is_possible((enum way)way)) {
                run_mode((enum way)way);
            }
        }
    }
    is_over = 1;
    for (int call = 0; call < FAULT_CALLS; call++) {
        long long hits = 0;
        for (int number = 0; number < share_count; number++) {
            CHECK_EQ(shares[number].script.unknown, 0);
            hits += shares[number].hits_of[call];
        }
        printf("%-40s failed %lld times\n", shim->calls[call].name, hits);
    }
    test_exit(0);
}
