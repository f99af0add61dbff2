/* What was true of a herd when it ended stays: the times of its dead workers do not go on, however late
 * somebody looks. While it lives they do. */
#include "serve.h"

enum { workers = 2 };

static char name[64];

static uint64_t measured_us(const struct herd_stats *stats)
{
    return stats->busy_us + stats->waiting_us;
}

/* All figures of the second look are those of the first. */
static void nothing_goes_on(struct herd *first, struct herd *second)
{
    struct herd_stats before = total_stats(first), after;
    sleep_ms(20);
    after = total_stats(second);
    CHECK_EQ(memcmp(&before, &after, sizeof before), 0);
    for (int slot = 0; slot < workers; slot++) {
        before = slot_stats(first, slot);
        sleep_ms(20);
        after = slot_stats(second, slot);
        CHECK_EQ(memcmp(&before, &after, sizeof before), 0);
        CHECK(before.state_since_us > 0 && before.state_since_us <= before.now_us);
    }
}

int main(void)
{
    test_begin(40);
    snprintf(name, sizeof name, "ended-%d", (int)getpid());
    struct herd_config config = HERD_CONFIG_INIT;
    config.name = name;
    config.mode = HERD_MODE_MUTEX;
    config.accept_delay_ms = 100;
    struct serve_apart *server = serve_start_apart(&config, workers);
    struct herd *observer = NULL, *late = NULL;
    CHECK_CODE(herd_open(name, &observer), 0);
    int client = connect_to(server->address);
    WAIT_UNTIL(total_stats(observer).connections_open == 1, 10000);
    WAIT_UNTIL(total_stats(observer).holder_since_us > 0, 10000);

    struct herd_stats before = total_stats(observer), after;
    WAIT_UNTIL(measured_us(&before) < (after = total_stats(observer), measured_us(&after)), 10000);
    CHECK(after.now_us > before.now_us && after.now_us <= (uint64_t)now_us());

    serve_signal_apart(server, SIGSTOP); /* or one could find another dead, and free its slot */
    serve_kill_apart(server);
    WAIT_UNTIL(herd_is_alive(observer) == 0, 10000);
    uint64_t ended_us = (uint64_t)now_us();
    CHECK(total_stats(observer).now_us >= before.state_since_us && total_stats(observer).now_us <= ended_us);
    CHECK_EQ(total_stats(observer).workers, workers);
    CHECK_EQ(total_stats(observer).connections_open, 1);
    nothing_goes_on(observer, observer);
    CHECK_CODE(herd_open(name, &late), 0);
    nothing_goes_on(observer, late);
    CHECK_CODE(herd_destroy(late), 0);
    CHECK_CODE(herd_destroy(observer), 0);
    close(client);

    /* One that never had a worker. */
    pid_t pid = test_fork();
    if (pid == 0) {
        config = (struct herd_config)HERD_CONFIG_INIT;
        config.name = name;
        CHECK_CODE(herd_create(&config, &serve.herd), 0);
        _exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
    CHECK_CODE(herd_open(name, &observer), 0);
    CHECK_CODE(herd_is_alive(observer), 0);
    CHECK_EQ(total_stats(observer).now_us, 0);
    CHECK_CODE(herd_destroy(observer), 0);
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), name);
    CHECK_EQ(unlink(path), 0);
    test_exit(0);
}
