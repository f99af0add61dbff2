/* R41: the `size` of every struct: impossible ones are refused, older structs get defaults, newer
   ones work unless they ask for the unknown. */
#include "check.h"

static struct herd *herd;

/* A struct with room behind it, as a newer header would have it. */
union config {
    struct herd_config config;
    unsigned char bytes[8192];
};
union options {
    struct herd_listen_options options;
    unsigned char bytes[8192];
};
union accepted {
    struct herd_accepted accepted;
    unsigned char bytes[8192];
};
union stats {
    struct herd_stats stats;
    unsigned char bytes[8192];
};

static const uint32_t impossible[] = {0, 1, 4, 7, 9, 0x10001, 1u << 20, UINT32_MAX};
#define IMPOSSIBLE (sizeof impossible / sizeof impossible[0])

static void configs(void)
{
    union config newer;
    struct herd *made = NULL;
    memset(&newer, 0, sizeof newer);
    for (size_t i = 0; i < IMPOSSIBLE; i++) {
        newer.config.size = impossible[i];
        CHECK_CODE(herd_create(&newer.config, &made), HERD_EABI);
        CHECK_CODE(herd_config_init(&newer.config, impossible[i]), HERD_EABI);
    }
    CHECK(made == NULL);

    newer.config.size = sizeof newer.config + 16;
    newer.bytes[sizeof newer.config + 15] = 1;
    CHECK_CODE(herd_create(&newer.config, &made), -E2BIG);
    CHECK(made == NULL);
    newer.bytes[sizeof newer.config + 15] = 0;
    /* What is behind the struct is none of its business. */
    newer.bytes[sizeof newer.config + 16] = 1;
    newer.config.max_workers = 3;
    CHECK_CODE(herd_create(&newer.config, &made), 0);
    CHECK_CODE(herd_destroy(made), 0);
}

/* An older header's struct that ends where the process has no memory any more. */
static void older_config(void)
{
    long page = sysconf(_SC_PAGESIZE);
    unsigned char *pages = (unsigned char *)mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK_EQ(mprotect(pages + page, (size_t)page, PROT_NONE), 0);
    struct herd_config full = HERD_CONFIG_INIT;
    full.mode = HERD_MODE_SHARED;
    full.balance = HERD_BALANCE_PACK;
    full.max_workers = 3;
    full.accept_batch = 4000; /* out of range, where the older struct does not reach */
    for (uint32_t size = 8; size <= offsetof(struct herd_config, accept_batch); size += 8) {
        unsigned char *older = pages + page - size;
        memcpy(older, &full, size);
        memcpy(older, &size, sizeof size);
        struct herd *made = NULL;
        struct herd_worker *worker = NULL;
        CHECK_CODE(herd_create((struct herd_config *)(void *)older, &made), 0);
        CHECK_EQ(herd_mode(made), HERD_MODE_SHARED);
        int slots = size > offsetof(struct herd_config, max_workers) ? 3 : 64;
        CHECK_CODE(herd_worker_create(made, slots, &worker), -EINVAL);
        CHECK_CODE(herd_worker_create(made, slots - 1, &worker), 0);
        CHECK_CODE(herd_worker_destroy(worker), 0);
        CHECK_CODE(herd_destroy(made), 0);

        /* The initialiser function writes no more than it was told either. */
        CHECK_CODE(herd_config_init((struct herd_config *)(void *)older, size), 0);
    }
    CHECK_EQ(munmap(pages, (size_t)page * 2), 0);
}

static void listen_options(void)
{
    union options newer;
    memset(&newer, 0, sizeof newer);
    for (size_t i = 0; i < IMPOSSIBLE; i++) {
        newer.options.size = impossible[i];
        CHECK_CODE(herd_listen(herd, "127.0.0.1:0", &newer.options, NULL, NULL), HERD_EABI);
        CHECK_CODE(herd_listen_options_init(&newer.options, impossible[i]), HERD_EABI);
    }
    newer.options.size = sizeof newer.options + 8;
    newer.bytes[sizeof newer.options] = 1;
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", &newer.options, NULL, NULL), -E2BIG);
    CHECK_CODE(herd_remove_listener(herd, 0), -ENOENT);
    newer.bytes[sizeof newer.options] = 0;
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", &newer.options, NULL, NULL), 0);
    /* Older: without flags and unix_mode. What stands there instead is not read. */
    newer.options.size = offsetof(struct herd_listen_options, flags);
    newer.options.flags = 0xffff;
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", &newer.options, NULL, NULL), 1);
}

static void stats(void)
{
    union stats space;
    memset(&space, 0, sizeof space);
    space.stats.turns = 77;
    for (size_t i = 0; i < IMPOSSIBLE; i++) {
        space.stats.size = impossible[i];
        CHECK_CODE(herd_stats_total(herd, &space.stats), HERD_EABI);
        CHECK_CODE(herd_stats_worker(herd, 0, &space.stats), HERD_EABI);
        CHECK_EQ(space.stats.size, impossible[i]);
    }
    CHECK_EQ(space.stats.turns, 77);

    /* A newer struct: the counters that this library lacks are zero; nothing is written behind. */
    memset(&space, 0xff, sizeof space);
    space.stats.size = sizeof space.stats + 64;
    CHECK_CODE(herd_stats_total(herd, &space.stats), 0);
    CHECK_EQ(space.stats.size, sizeof space.stats + 64);
    CHECK_EQ(space.stats.turns, 0);
    CHECK_EQ(space.bytes[sizeof space.stats], 0);
    CHECK_EQ(space.bytes[sizeof space.stats + 63], 0);
    CHECK_EQ(space.bytes[sizeof space.stats + 64], 0xff);

    /* An older one: only its own members are written. */
    memset(&space, 0xff, sizeof space);
    space.stats.size = offsetof(struct herd_stats, closed);
    CHECK_CODE(herd_stats_total(herd, &space.stats), 0);
    CHECK_EQ(space.stats.size, offsetof(struct herd_stats, closed));
    CHECK_EQ(space.stats.accepted, 0);
    CHECK_EQ(space.bytes[offsetof(struct herd_stats, closed)], 0xff);
}

/* A refused struct costs no connection. */
static void accepted(void)
{
    union accepted space;
    memset(&space, 0xff, sizeof space);
    int client = connect_to(address_of(herd, 0));
    struct herd_worker *worker = new_worker(herd);
    CHECK(herd_run_once(worker, 5000) >= 0);
    for (size_t i = 0; i < IMPOSSIBLE; i++) {
        space.accepted.size = impossible[i];
        CHECK_CODE(herd_accept(worker, &space.accepted), HERD_EABI);
    }
    CHECK_EQ(space.accepted.fd, -1);
    space.accepted.size = sizeof space.accepted + 8;
    CHECK_CODE(herd_accept(worker, &space.accepted), 0);
    CHECK_EQ(space.accepted.size, sizeof space.accepted + 8);
    CHECK_EQ(space.accepted.listener, 0);
    CHECK_EQ(space.bytes[sizeof space.accepted], 0);
    CHECK_EQ(space.bytes[sizeof space.accepted + 8], 0xff);
    close(space.accepted.fd);
    close(client);
    CHECK_CODE(herd_worker_destroy(worker), 0);
}

static void initialisers(void)
{
    struct herd_config macro_config = HERD_CONFIG_INIT, config;
    memset(&config, 0xff, sizeof config);
    CHECK_CODE(herd_config_init(&config, sizeof config), 0);
    CHECK(memcmp(&macro_config, &config, sizeof config) == 0);
    struct herd_listen_options macro_options = HERD_LISTEN_OPTIONS_INIT, options;
    memset(&options, 0xff, sizeof options);
    CHECK_CODE(herd_listen_options_init(&options, sizeof options), 0);
    CHECK(memcmp(&macro_options, &options, sizeof options) == 0);
}

int main(void)
{
    test_begin(30);
    int fds = open_fds();
    initialisers();
    configs();
    older_config();
    CHECK_EQ(open_fds(), fds);
    herd = new_herd(HERD_MODE_MUTEX, 2);
    listen_options();
    stats();
    accepted();
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
    return 0;
}
