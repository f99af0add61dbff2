/* A worker that suspected the holder of the accept right, and then got the right in the ordinary way, waits
 * again as usual: what is left of the suspicion does not make it run turn after turn. */
#define _GNU_SOURCE
#include <herd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUIRE(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static int accepted_fd = -1;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length, void *data)
{
    (void)worker, (void)peer, (void)length, (void)data;
    accepted_fd = fd;
}

static struct herd_stats stats_of(struct herd *herd, int slot)
{
    struct herd_stats stats = { .size = sizeof stats };
    REQUIRE(herd_stats_worker(herd, slot, &stats) == 0);
    return stats;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    struct herd_worker *holder, *other;
    struct sockaddr_storage address;
    socklen_t address_bytes = sizeof address;
    alarm(30);
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    config.accept_delay_ms = 20;
    config.handover_delay_us = 700000; /* for which this process may stand still */
    REQUIRE(herd_create(&config, &herd) == 0);
    int listener = herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL);
    REQUIRE(listener >= 0);
    REQUIRE(herd_worker_create(herd, 0, &holder) == 0 && herd_worker_create(herd, 1, &other) == 0);
    REQUIRE(herd_trylock(holder) == 1);
    REQUIRE(getsockname(herd_listener_fd(herd, listener), (struct sockaddr *)&address, &address_bytes) == 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(client >= 0 && connect(client, (struct sockaddr *)&address, address_bytes) == 0);

    /* The guard ticks; the other finds the right held and the connection waiting, and means to look again. */
    while (stats_of(herd, 1).guard_ticks == 0)
        REQUIRE(herd_run_once(other, 100) >= 0);
    REQUIRE(herd_run_once(other, 0) >= 0);
    REQUIRE(herd_unlock(holder) == 1);
    while (accepted_fd < 0)
        REQUIRE(herd_run_once(other, 0) >= 0);
    REQUIRE(stats_of(herd, 1).thefts == 0);

    /* A second, well after the time to look again, is 50 ticks of the guard. */
    const uint64_t before = stats_of(herd, 1).turns;
    for (long end_ms = now_ms() + 1000; now_ms() < end_ms;)
        REQUIRE(herd_run_once(other, 100) >= 0);
    const uint64_t turns = stats_of(herd, 1).turns - before;
    printf("%llu turns in a second\n", (unsigned long long)turns);
    REQUIRE(turns < 200);
    close(client);
    close(accepted_fd);
    REQUIRE(herd_worker_destroy(other) == 0 && herd_worker_destroy(holder) == 0 && herd_destroy(herd) == 0);
    return 0;
}
