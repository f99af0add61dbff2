/*
 * The whole life of a herd, from herd_create to herd_destroy, in which every system call of the library is
 * made: each call of the host's is a step (fault_step.h), and between them clients are served. At the end
 * nothing is left. Includes fault_host.h. C99.
 */
#ifndef FAULT_LIFE_H
#define FAULT_LIFE_H

#include "fault_host.h"

enum { delay_ms = 2, slots = 3 };

CHECK_HELPER int create(const char *name)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.max_workers = slots;
    config.accept_delay_ms = delay_ms;
    config.name = name;
    return herd_create(&config, &herd);
}

CHECK_HELPER int listen_unix(void)
{
    char address[80];
    struct herd_listen_options options = HERD_LISTEN_OPTIONS_INIT;
    options.unix_mode = 0666; /* more than the umask leaves */
    /* A relative one, which takes more calls. */
    CHECK_EQ(chdir("/tmp"), 0);
    snprintf(address, sizeof address, "unix:%s", strrchr(socket_path, '/') + 1);
    return herd_listen(herd, address, &options, inject_on_accept, NULL);
}

/* A worker of another process, which dies. */
CHECK_HELPER void lose_a_worker(void)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *of_child;
        share->step = "herd_worker_create in a child";
        int code = herd_worker_create(herd, slots - 1, &of_child);
        if (code < 0) {
            CHECK(script->hits > 0);
            disarm();
            CHECK_CODE(herd_worker_create(herd, slots - 1, &of_child), 0);
        }
        _exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
    STEP(herd_reap(herd, pid));
    STEP(herd_free_slots(herd));
    CHECK_CODE(herd_free_slots(herd), slots - workers);
}

/* The host closes a descriptor that is still watched, and whose file is open elsewhere. */
CHECK_HELPER void close_without_del(void)
{
    struct connection host;
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    host.fd = pair[0];
    host.slot = 0;
    watch(&host);
    STEP(herd_event_mod(worker[0], &host.event, HERD_READ | HERD_WRITE));
    int kept = fcntl(host.fd, F_DUPFD_CLOEXEC, 0);
    close(host.fd);
    int code = herd_event_del(worker[0], &host.event);
    CHECK(code != 0);
    if (code != -EBADF) {
        check_deleted(code);
    }
    CHECK_EQ(send(pair[1], "x", 1, MSG_NOSIGNAL), 1);
    share->step = "turns with a stale event";
    for (int turn = 0; turn < 4; turn++) {
        run_turn(0, 0);
    }
    close(kept);
    close(pair[1]);
}

CHECK_HELPER void hand_off(void)
{
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    sent_arrived = 0;
    STEP(herd_handoff_send(herd, HERD_PICK, pair[0], "tag", 3));
    CHECK(fcntl(pair[0], F_GETFD) < 0);
    share->step = "turns after herd_handoff_send";
    expect_service(pair[1]);
    CHECK_EQ(sent_arrived, 1);
}

CHECK_HELPER void observe(void)
{
    struct herd *observed = NULL;
    struct herd_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    STEP(herd_open(herd_name, &observed));
    STEP(herd_is_alive(observed));
    STEP(herd_stats_total(observed, &stats));
    CHECK_EQ(stats.slots, slots);
    share->step = "herd_destroy of an observer";
    CHECK_CODE((herd_destroy)(observed), 0);
}

CHECK_HELPER void serve_clients(void)
{
    share->step = "turns with a TCP client";
    expect_service(connect_to(address_of(herd, 0)));
    share->step = "turns with a Unix client";
    expect_service(connect_to(address_of(herd, 1)));
    share->step = "turns with two TCP clients";
    int first = connect_to(address_of(herd, 0)), second = connect_to(address_of(herd, 2));
    expect_greeting(first);
    expect_greeting(second);
    close(first);
    close(second);
    if (share->way != itself) {
        /* Nothing that nobody wants any more wakes the host. */
        share->step = "turns of an idle host";
        int64_t quiet_by = now_ms() + wait_most_ms;
        while (!host_is_quiet()) {
            CHECK(now_ms() < quiet_by);
            run_turn(0, 0);
        }
    }
    share->step = "turns after a tick of the guard";
    sleep_ms(2 * delay_ms);
    int64_t deadline = now_ms() + wait_most_ms;
    for (int turn = 0; turn < 6 || open_connections() > 0; turn++) {
        CHECK(now_ms() < deadline);
        run_turn(turn % workers, turn % 3);
    }
}

CHECK_HELPER void whole_life(void)
{
    unlink(socket_path);
    leave_stale_socket(socket_path);
    int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(listen(host, 64), 0);
    int fds = open_fds();
    long blocks = shim->blocks;

    STEP(create(NULL));
    CHECK_CODE(herd_destroy(herd), 0);
    STEP(create(herd_name));
    STEP(herd_listen(herd, "127.0.0.1:0", NULL, inject_on_accept, NULL));
    STEP(listen_unix());
    STEP(herd_add_listener(herd, host, inject_on_accept, NULL));
    STEP(herd_listen(herd, "127.0.0.1:0", NULL, inject_on_accept, NULL));
    STEP(herd_remove_listener(herd, 3));
    if (herd_mode(herd) == HERD_MODE_HANDOFF) {
        STEP(herd_on_handoff(herd, on_sent, NULL));
    }
    STEP(herd_worker_create(herd, 0, &worker[0]));
    STEP(herd_worker_create(herd, 1, &worker[1]));
    if (share->way != itself) {
        host_worker();
    }
    serve_clients();
    lose_a_worker();
    close_without_del();
    if (herd_mode(herd) == HERD_MODE_HANDOFF) {
        hand_off();
    }
    observe();
    serve_clients();

    share->step = "herd_worker_destroy";
    CHECK_CODE(herd_worker_destroy(worker[1]), 0);
    CHECK_CODE(herd_worker_destroy(worker[0]), 0);
    if (share->way != itself) {
        struct epoll_event ready;
        CHECK_EQ(epoll_wait(host_set, &ready, 1, 0), 0);
        close(host_set);
    }
    share->step = "herd_destroy";
    int hits = script->hits;
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
    CHECK_EQ(shim->blocks, blocks);
    /* What cannot be removed stays. */
    if (script->hits == hits) {
        CHECK(access(socket_path, F_OK) < 0);
        CHECK(access(herd_path, F_OK) < 0);
    }
    close(host);
}

#endif
