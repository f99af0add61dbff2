/* R19: EPOLLEXCLUSIVE is given with ADD only and never with EPOLLRDHUP or EPOLLONESHOT; a listener
 * can be paused and resumed; a kernel that refuses the flag gets MUTEX, and the herd serves. Arming
 * costs the same number of epoll_ctl calls for 1000 listeners as for one, and none in EXCLUSIVE. */
#include "preload.h"
#include "right.h"

#include "epoll_script.h"

static struct epoll_script *script;
static int served;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    (void)data;
    served++;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

/* Turns of both workers until the connection was served. */
static void serve_one(struct herd *herd, int listener, struct herd_worker *const *workers)
{
    int before = served;
    int client = connect_to(address_of(herd, listener));
    int64_t deadline_ms = now_ms() + 5000;
    while (served == before) {
        CHECK(now_ms() < deadline_ms);
        CHECK(herd_run_once(workers[0], 0) >= 0);
        CHECK(herd_run_once(workers[1], 0) >= 0);
    }
    close(client);
}

static void pause_and_resume(void)
{
    struct herd *herd = new_herd(HERD_MODE_EXCLUSIVE, 2);
    CHECK_EQ(herd_mode(herd), HERD_MODE_EXCLUSIVE);
    int listener = new_listener(herd, on_accept, NULL);
    struct herd_worker *workers[2] = {new_worker(herd), new_worker(herd)};
    CHECK(herd_trylock(workers[0]) == 1);
    for (int i = 0; i < 1000; i++) {
        CHECK_CODE(herd_disable_accept(workers[0]), 0);
        CHECK_CODE(herd_enable_accept(workers[0]), 0);
        if (i % 100 == 0) {
            serve_one(herd, listener, workers);
        }
    }
    /* Paused: the other one serves. */
    CHECK_CODE(herd_disable_accept(workers[0]), 0);
    int client = connect_to(address_of(herd, listener));
    int before = served;
    CHECK(herd_process_events(workers[0], 0, 0) >= 0);
    CHECK_EQ(served, before);
    CHECK_CODE(herd_run_once(workers[1], 5000), 1);
    CHECK_EQ(served, before + 1);
    close(client);
    CHECK_CODE(herd_worker_destroy(workers[0]), 0);
    CHECK_CODE(herd_worker_destroy(workers[1]), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void do_nothing(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker;
    (void)event;
    (void)ready;
}

/* A host may ask for EPOLLRDHUP on its own descriptors. */
static void host_asks_for_peer_closed(void)
{
    struct herd *herd = new_herd(HERD_MODE_EXCLUSIVE, 2);
    struct herd_worker *worker = new_worker(herd);
    struct herd_event event;
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_CODE(herd_event_init(&event, do_nothing, NULL), 0);
    CHECK_CODE(herd_event_add(worker, &event, pair[0], HERD_READ | HERD_PEER_CLOSED), 0);
    CHECK_CODE(herd_event_mod(worker, &event, HERD_WRITE | HERD_PEER_CLOSED), 0);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(pair[0]);
    close(pair[1]);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void count_warnings(void *data, int level, const char *message)
{
    *(int *)data += level == HERD_LOG_WARNING && strstr(message, "EPOLLEXCLUSIVE") != NULL;
}

static void falls_back(uint32_t mode, int warnings_expected)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    int warnings = 0;
    config.mode = mode;
    config.max_workers = 2;
    config.log = count_warnings;
    config.log_data = &warnings;
    script->refuse_exclusive = 1;
    CHECK_CODE(herd_create(&config, &herd), 0);
    CHECK_EQ(herd_mode(herd), HERD_MODE_MUTEX);
    CHECK_EQ(warnings, warnings_expected);
    int listener = new_listener(herd, on_accept, NULL);
    struct herd_worker *workers[2] = {new_worker(herd), new_worker(herd)};
    for (int i = 0; i < 10; i++) {
        serve_one(herd, listener, workers);
    }
    CHECK_CODE(herd_worker_destroy(workers[0]), 0);
    CHECK_CODE(herd_worker_destroy(workers[1]), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    script->refuse_exclusive = 0;
}

/* epoll_ctl calls for each time that the right moves from one worker to the other and back, or, in
 * EXCLUSIVE, for as many turns. */
static double calls_a_move(uint32_t mode, int listeners)
{
    enum { moves = 100 };
    struct herd *herd = new_herd(mode, 2);
    for (int i = 0; i < listeners; i++) {
        new_listener(herd, on_accept, NULL);
    }
    struct herd_worker *workers[2] = {new_worker(herd), new_worker(herd)};
    int before = 0;
    for (int i = -2; i < moves; i++) {
        if (i == 0) {
            before = script->calls;
        }
        for (int w = 0; w < 2; w++) {
            CHECK_CODE(herd_trylock(workers[w]), 1);
            CHECK_CODE(herd_trylock(workers[1 - w]), mode == HERD_MODE_MUTEX ? 0 : 1);
            CHECK(herd_process_events(workers[w], 0, HERD_POST_EVENTS) >= 0);
            CHECK_CODE(herd_unlock(workers[w]), mode == HERD_MODE_MUTEX ? 1 : 0);
        }
    }
    double calls = (double)(script->calls - before) / moves;
    CHECK_CODE(herd_worker_destroy(workers[0]), 0);
    CHECK_CODE(herd_worker_destroy(workers[1]), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return calls;
}

int main(int argc, char **argv)
{
    struct rlimit files = {4096, 4096};
    test_begin(50);
    (void)argc;
    preload("preload_epoll", argv);
    script = (struct epoll_script *)dlsym(RTLD_DEFAULT, "epoll_script");
    CHECK(script != NULL);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
        test_skip("cannot have enough descriptors");
    }
    pause_and_resume();
    host_asks_for_peer_closed();
    falls_back(HERD_MODE_AUTO, 0);
    falls_back(HERD_MODE_EXCLUSIVE, 1);
    double one = calls_a_move(HERD_MODE_MUTEX, 1);
    double thousand = calls_a_move(HERD_MODE_MUTEX, 1000);
    printf("epoll_ctl calls for a move there and back: %.2f with one listener, %.2f with 1000\n", one,
           thousand);
    CHECK(one >= 2 && one <= 4);
    CHECK(thousand <= 2 * one);
    CHECK(calls_a_move(HERD_MODE_EXCLUSIVE, 1) < 0.01);
    CHECK(calls_a_move(HERD_MODE_EXCLUSIVE, 1000) < 0.01);
    CHECK_EQ(script->violations, 0);
    test_exit(0);
}
