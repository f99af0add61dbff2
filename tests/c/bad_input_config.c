/* A configuration that is out of range is refused, *herd stays as it was and nothing is left open.
   */
#include "check.h"

#include <sys/resource.h>

static struct herd *const untouched = (struct herd *)&check_in_child;
static int fds;

static void refused(const struct herd_config *config, int code)
{
    struct herd *herd = untouched;
    CHECK_CODE(herd_create(config, &herd), code);
    CHECK(herd == untouched);
    CHECK_EQ(open_fds(), fds);
}

static void works(const struct herd_config *config)
{
    struct herd *herd = NULL;
    CHECK_CODE(herd_create(config, &herd), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
}

/* The largest value works, anything above is refused. */
#define LIMIT(member, largest)                                                                  \
    do {                                                                                        \
        struct herd_config config = HERD_CONFIG_INIT;                                           \
        config.max_workers = 2;                                                                 \
        config.member = 1;                                                                      \
        works(&config);                                                                         \
        config.member = (largest);                                                              \
        works(&config);                                                                         \
        config.member = (largest) + 1;                                                          \
        refused(&config, -EINVAL);                                                              \
        config.member = UINT32_MAX;                                                             \
        refused(&config, -EINVAL);                                                              \
    } while (0)

static void names(void)
{
    static const char *const bad[] = {
        "", " ", "a b", "a/b", "..\n", "%s", "\xff\xfe", "n\xc3\xa4me", "a:b", ".", "..",
        "0123456789012345678901234567890123456789012345678901234567890123" /* 64 */};
    /* Names of this process only: a herd may run on this machine that has another. */
    char good[3][64];
    snprintf(good[0], sizeof good[0], "%d", (int)getpid());
    snprintf(good[1], sizeof good[1], "web-1_x.Y-%053d", (int)getpid());
    snprintf(good[2], sizeof good[2], "..%d.", (int)getpid());
    CHECK_EQ(strlen(good[1]), 63);
    struct herd_config config = HERD_CONFIG_INIT;
    config.max_workers = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config.name = bad[i];
        refused(&config, -EINVAL);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        config.name = good[i];
        works(&config);
    }
}

static int let_other(void *balance_data, uint64_t own_load, uint64_t least_load)
{
    (void)balance_data;
    return own_load > least_load;
}

static void modes(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.max_workers = 1;
    static const uint32_t unknown[] = {6, 7, 100, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < 5; i++) {
        config.mode = unknown[i];
        refused(&config, -EINVAL);
    }
    static const uint32_t here[] = {HERD_MODE_AUTO, HERD_MODE_EXCLUSIVE, HERD_MODE_MUTEX,
                                    HERD_MODE_SHARED, HERD_MODE_HANDOFF, HERD_MODE_REUSEPORT};
    for (size_t i = 0; i < 6; i++) {
        struct herd *herd = NULL;
        config.mode = here[i];
        CHECK_CODE(herd_create(&config, &herd), 0);
        int mode = herd_mode(herd);
        /* An old kernel knows no exclusive watching. */
        CHECK(mode == (int)here[i] ||
              (here[i] == HERD_MODE_AUTO && mode == HERD_MODE_EXCLUSIVE) ||
              (here[i] != HERD_MODE_SHARED && mode == HERD_MODE_MUTEX));
        CHECK(mode != HERD_MODE_AUTO);
        CHECK_EQ(herd_balance(herd), HERD_BALANCE_SPREAD);
        CHECK_CODE(herd_destroy(herd), 0);
    }
    config.mode = HERD_MODE_AUTO;
    config.balance = HERD_BALANCE_CALLBACK;
    refused(&config, -EINVAL); /* without a callback */
    config.balance_callback = let_other;
    works(&config);
    config.balance = HERD_BALANCE_SPREAD;
    refused(&config, -EINVAL); /* with a callback that would not be asked */
    config.balance_callback = NULL;
    works(&config);
    config.balance = HERD_BALANCE_PACK;
    works(&config);
    config.mode = HERD_MODE_REUSEPORT;
    refused(&config, -EINVAL); /* each worker has its own queue */
    config.mode = HERD_MODE_AUTO;
    config.balance = 5;
    refused(&config, -EINVAL);
    config.balance = UINT32_MAX;
    refused(&config, -EINVAL);
}

static int pick_none(void *pick_data, const struct sockaddr *peer, uint32_t peer_length)
{
    (void)pick_data;
    (void)peer;
    (void)peer_length;
    return HERD_PICK;
}

/* What goes with HANDOFF only, and what does not go with it. */
static void handoff(void)
{
    struct herd_config config = HERD_CONFIG_INIT, handoff_config;
    config.max_workers = 3;
    handoff_config = config;
    handoff_config.mode = HERD_MODE_HANDOFF;
    works(&handoff_config);
    config.balance = handoff_config.balance = HERD_BALANCE_ROUND_ROBIN;
    works(&handoff_config);
    refused(&config, -EINVAL);
    config.balance = handoff_config.balance = HERD_BALANCE_CALLBACK;
    config.balance_callback = handoff_config.balance_callback = let_other;
    works(&config);
    refused(&handoff_config, -EINVAL);
    config.balance = handoff_config.balance = HERD_BALANCE_PACK;
    config.balance_callback = handoff_config.balance_callback = NULL;
    works(&handoff_config);
    config.pick_callback = handoff_config.pick_callback = pick_none;
    works(&handoff_config);
    refused(&config, -EINVAL);
    config.pick_callback = NULL;
    static const int no_slots[] = {3, -2, 1 << 20, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        handoff_config.acceptor_slot = config.acceptor_slot = no_slots[i];
        refused(&handoff_config, -EINVAL);
        refused(&config, -EINVAL);
    }
    handoff_config.acceptor_slot = config.acceptor_slot = 2;
    works(&handoff_config);
    refused(&config, -EINVAL);
    config.acceptor_slot = 0; /* as in a zeroed config */
    config.reserved = 1;
    refused(&config, -E2BIG);
    config.reserved = 0;
    works(&config);
    handoff_config.acceptor_slot = 0;
    works(&handoff_config);
}

int main(void)
{
    test_begin(30);
    fds = open_fds();
    LIMIT(accept_delay_ms, 60000);
    LIMIT(handover_delay_us, 1000000);
    LIMIT(accept_batch, 1024);
    names();
    modes();
    handoff();

    struct herd_config config = HERD_CONFIG_INIT;
    config.max_workers = HERD_MAX_WORKERS + 1;
    refused(&config, -EINVAL);
    config.max_workers = UINT32_MAX;
    refused(&config, -EINVAL);
    config.max_workers = 1;
    config.worker_connections = UINT32_MAX;
    refused(&config, -EINVAL);
    config.worker_connections = 1;
    works(&config);

    /* One descriptor a slot and one for the guard: a limit below that is reported, nothing leaks. */
    struct rlimit limit, few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t)fds + 20;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    config.max_workers = HERD_MAX_WORKERS;
    refused(&config, -EMFILE);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return 0;
}
