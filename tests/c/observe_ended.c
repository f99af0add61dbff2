/* What was true of a herd when it ended stays: the times of its dead workers do not go on, however late
 * somebody looks. While it lives they do. */
#include "serve.h"

enum { workers = 2 };

struct server {
    char address[64];
    pid_t pids[workers];
    unsigned ready;
};

static char name[64];

static void start_server(struct server *server)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.name = name;
    config.mode = HERD_MODE_MUTEX;
    config.accept_delay_ms = 100;
    serve_start(&config, workers);
    memcpy(server->pids, serve.pids, sizeof server->pids);
    snprintf(server->address, sizeof server->address, "%s", serve.address);
    SHARED_SET(server->ready, 1u);
    for (;;) {
        pause();
    }
}

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
    struct server *server = (struct server *)shared_memory(sizeof *server);
    pid_t parent = test_fork();
    if (parent == 0) {
        start_server(server);
    }
    WAIT_UNTIL(SHARED_GET(server->ready), 20000);
    struct herd *observer = NULL, *late = NULL;
    CHECK_CODE(herd_open(name, &observer), 0);
    int client = connect_to(server->address);
    WAIT_UNTIL(total_stats(observer).connections_open == 1, 10000);
    WAIT_UNTIL(total_stats(observer).holder_since_us > 0, 10000);

    struct herd_stats before = total_stats(observer), after;
    WAIT_UNTIL(measured_us(&before) < (after = total_stats(observer), measured_us(&after)), 10000);
    CHECK(after.now_us > before.now_us && after.now_us <= (uint64_t)now_us());

    for (int slot = 0; slot < workers; slot++) {
        kill(server->pids[slot], SIGSTOP); /* or one could find another dead, and free its slot */
    }
    test_kill(parent);
    for (int slot = 0; slot < workers; slot++) {
        kill(server->pids[slot], SIGKILL);
    }
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
        struct herd_config config = HERD_CONFIG_INIT;
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
