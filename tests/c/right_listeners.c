/* timeout: 120
 * Each of 1, 16 and 1000 listeners, TCP and Unix, gets its connections served. One that breaks, so
 * that accept4(2) fails for good, is left out, and the others go on without a worker spinning. */
#include "right.h"

enum { workers = 2, few = 16, many = 1000 };

/* Goes on after errors of a listener, as a host would. */
static void serve_on(int slot)
{
    CHECK_CODE(herd_worker_create(serve.herd, slot, &serve_worker), 0);
    signal(SIGINT, serve_stop_on_signal);
    SHARED_SET(serve.shared->ready[slot], getpid());
    int code;
    while ((code = herd_run(serve_worker)) != 0) {
        CHECK_EQ(code, -EINVAL);
        SHARED_ADD(serve.shared->knob, 1);
    }
    CHECK_CODE(herd_worker_destroy(serve_worker), 0);
    test_exit(0);
}

static const char *addresses[many];

static void start(const struct right_case *c, int listeners)
{
    struct herd_config config = right_config(c, 200);
    serve_prepare(&config, workers);
    for (int i = 0; i < listeners; i++) {
        int listener = i;
        if (i % 2 == 1) {
            char name[64];
            snprintf(name, sizeof name, "unix:@herd-test-%d-%d", (int)getpid(), i);
            CHECK_CODE(herd_listen(serve.herd, name, NULL, serve_on_accept, NULL), listener);
        } else if (i > 0) {
            CHECK_CODE(herd_listen(serve.herd, "127.0.0.1:0", NULL, serve_on_accept, NULL), listener);
        }
        free((void *)(uintptr_t)addresses[i]);
        addresses[i] = strdup(address_of(serve.herd, listener));
        CHECK(addresses[i] != NULL);
    }
    for (int slot = 0; slot < workers; slot++) {
        SHARED_SET(serve.shared->ready[slot], 0);
        serve.pids[slot] = test_fork();
        if (serve.pids[slot] == 0) {
            serve_on(slot);
        }
    }
    serve_settle();
}

/* One connection to each listener but `broken`, one after the other. Returns the longest wait. */
static int connect_to_each(int listeners, int broken)
{
    int longest_ms = 0;
    for (int i = 0; i < listeners; i++) {
        if (i != broken) {
            int64_t began_ms = now_ms();
            int client = connect_to(addresses[i]);
            CHECK(serve_greeting(client, 5000) >= 0);
            int took_ms = (int)(now_ms() - began_ms);
            longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
            close(client);
        }
    }
    return longest_ms;
}

static void all_are_served(const struct right_case *c, int listeners)
{
    start(c, listeners);
    int longest_ms = connect_to_each(listeners, -1);
    printf("%s, %d listeners: served after at most %d ms\n", c->name, listeners, longest_ms);
    CHECK_EQ(SHARED_GET(serve.shared->knob), 0);
    serve_end();
}

static void broken_one_is_left_out(const struct right_case *c)
{
    enum { broken = 4, second_ms = 1000 };
    start(c, few);
    connect_to_each(few, -1);
    CHECK_EQ(shutdown(herd_listener_fd(serve.herd, broken), SHUT_RDWR), 0);
    for (int i = 0; i < 5; i++) {
        connect_to_each(few, broken);
        sleep_ms(100);
    }
    serve_settle();
    struct herd_stats before = serve_total();
    long long sleeps = serve_sleeps();
    sleep_ms(second_ms);
    struct herd_stats after = serve_total();
    sleeps = serve_sleeps() - sleeps;
    int errors = SHARED_GET(serve.shared->knob);
    printf("%s: a broken listener: %d errors, then %llu turns and %lld sleeps in a second, %llu thefts\n",
           c->name, errors, (unsigned long long)(after.turns - before.turns), sleeps,
           (unsigned long long)after.thefts);
    CHECK(errors >= 1 && errors <= workers);
    CHECK(after.turns - before.turns <= 30);
    CHECK(after.thefts <= workers);
    CHECK_EQ(after.workers, workers);
    serve_end();
}

int main(void)
{
    struct rlimit files = {8192, 8192};
    test_begin(115);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
        test_skip("cannot have enough descriptors");
    }
    for (int i = 0; i < right_case_count; i++) {
        if (right_cases[i].balance == HERD_BALANCE_SPREAD) {
            all_are_served(&right_cases[i], 1);
            all_are_served(&right_cases[i], few);
            all_are_served(&right_cases[i], many);
            broken_one_is_left_out(&right_cases[i]);
        }
    }
    test_exit(0);
}
