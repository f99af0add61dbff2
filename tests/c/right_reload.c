/* R11: a table of 8 slots, generations of 4 workers with long-lived connections. A full table is told
 * to the parent (herd_free_slots) and to a worker (HERD_ENOSLOT); none is silently without a slot. A
 * crashed worker's slot is free again; the new generation serves what comes, the old one what it has. */
#include "right.h"

enum { generation = 4, slots = 2 * generation, reloads = 3, clients_most = 400 };

static int clients[slots][clients_most], client_count[slots];

/* Opens connections until each worker of the generation has one. */
static void connect_to_all(int first)
{
    for (;;) {
        int having = 0, slot;
        for (slot = first; slot < first + generation; slot++) {
            having += client_count[slot] > 0;
        }
        if (having == generation) {
            return;
        }
        int fd = serve_connect(&slot);
        CHECK(slot >= first && slot < first + generation);
        CHECK(client_count[slot] < clients_most);
        clients[slot][client_count[slot]++] = fd;
        sleep_ms(1); /* so that those who are not run just now come to it */
    }
}

static void check_no_slot(void)
{
    CHECK_CODE(herd_free_slots(serve.herd), 0);
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *worker = NULL;
        CHECK_CODE(herd_worker_create(serve.herd, HERD_ANY_SLOT, &worker), HERD_ENOSLOT);
        test_exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
}

/* Waits until the old generation has noticed that it drains: the new one gets all. */
static void wait_for_new(int first)
{
    int slot, in_a_row = 0;
    for (int i = 0; i < 1000 && in_a_row < 10; i++) {
        close(serve_connect(&slot));
        in_a_row = slot >= first && slot < first + generation ? in_a_row + 1 : 0;
        sleep_ms(1);
    }
    CHECK_EQ(in_a_row, 10);
}

static void close_clients(int slot)
{
    while (client_count[slot] > 0) {
        close(clients[slot][--client_count[slot]]);
    }
}

static void reload(int old, int fresh)
{
    CHECK_CODE(herd_free_slots(serve.herd), generation);
    for (int slot = fresh; slot < fresh + generation; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    for (int slot = old; slot < old + generation; slot++) {
        kill(serve.pids[slot], SIGTERM);
    }
    check_no_slot();
    wait_for_new(fresh);
    connect_to_all(fresh);
    for (int slot = 0; slot < slots; slot++) {
        for (int i = 0; i < client_count[slot]; i++) {
            serve_echo(clients[slot][i]);
        }
    }
    check_no_slot();

    serve_crash(old);
    CHECK_CODE(herd_free_slots(serve.herd), 1);
    CHECK_EQ(serve_stats(old).connections_open, 0);
    serve_fork(old);
    serve_settle();
    CHECK_CODE(herd_free_slots(serve.herd), 0);
    close_clients(old);
    kill(serve.pids[old], SIGINT);
    for (int slot = old; slot < old + generation; slot++) {
        CHECK(slot == old || !test_ended(serve.pids[slot]));
        close_clients(slot);
        CHECK_EQ(test_join(serve.pids[slot]), 0);
        serve.pids[slot] = 0;
    }
}

static void reload_often(const struct right_case *c)
{
    struct herd_config config = right_config(c, 0);
    serve_prepare(&config, slots);
    for (int slot = 0; slot < generation; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    connect_to_all(0);
    for (int i = 0; i < reloads; i++) {
        reload(i % 2 * generation, (i + 1) % 2 * generation);
    }
    for (int slot = 0; slot < slots; slot++) {
        close_clients(slot);
    }
    struct herd_stats stats = serve_total();
    CHECK_EQ(stats.workers, generation);
    CHECK_EQ(stats.reaps, reloads);
    printf("%s: %d reloads\n", c->name, reloads);
    serve_end();
}

int main(void)
{
    test_begin(50);
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance == HERD_BALANCE_SPREAD) {
            reload_often(&right_cases[i]);
        }
    }
    test_exit(0);
}
