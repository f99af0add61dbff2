/* R15: errors of single connections are skipped at once, shortages cost one back-off each, only
 * errors of the listener itself reach the host, and a connection is delivered after all of them. */
#include "preload.h"

#include "accept_script.h"

enum { delay_ms = 100 };

static struct accept_script *script;
static struct herd *herd;
static struct herd_worker *worker;
static int delivered[2];

static void on_accept(struct herd_worker *w, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    ++*(int *)data;
    close(fd);
    CHECK(herd_conn_closed(w) >= 0);
}

static void fail_with(const int *errors, int count)
{
    memcpy(script->errors, errors, (size_t)count * sizeof errors[0]);
    script->count = count;
    script->next = 0;
    script->calls = 0;
}

static void errors_of_one_connection(void)
{
    static const int errors[] = {ECONNABORTED, EINTR, EPROTO, ENETDOWN, EHOSTUNREACH, EPERM};
    enum { count = sizeof errors / sizeof errors[0] };
    fail_with(errors, count);
    struct herd_stats before = total_stats(herd);
    int client = connect_to(address_of(herd, 0));
    delivered[0] = 0;
    CHECK_CODE(herd_run_once(worker, 5000), 1);
    struct herd_stats after = total_stats(herd);
    CHECK_EQ(delivered[0], 1);
    CHECK_EQ(script->calls, count + 1);
    CHECK_EQ(after.accept_retries - before.accept_retries, count);
    CHECK_EQ(after.turns - before.turns, 1);
    CHECK_EQ(after.backoffs, before.backoffs);
    close(client);
}

static void shortage(int error)
{
    fail_with(&error, 1);
    struct herd_stats before = total_stats(herd);
    int client = connect_to(address_of(herd, 0));
    int64_t started_ms = now_ms();
    delivered[0] = 0;
    while (delivered[0] == 0) {
        CHECK(herd_run_once(worker, 5000) >= 0);
    }
    struct herd_stats after = total_stats(herd);
    CHECK(now_ms() - started_ms >= delay_ms - 2);
    CHECK(now_ms() - started_ms < 4000);
    CHECK_EQ(script->calls, 2);
    CHECK_EQ(after.backoffs - before.backoffs, 1);
    CHECK(after.turns - before.turns <= 10);
    close(client);
}

static void error_of_the_listener(int error)
{
    fail_with(&error, 1);
    int client = connect_to(address_of(herd, 0));
    memset(delivered, 0, sizeof delivered);
    CHECK_CODE(herd_run_once(worker, 5000), -error);
    CHECK_EQ(script->calls, 1);

    /* The connection still waits, but this worker does not look at that listener any more. */
    int64_t started_ms = now_ms();
    for (int i = 0; i < 5; i++) {
        CHECK_CODE(herd_run_once(worker, 20), 0);
    }
    CHECK(now_ms() - started_ms >= 80);
    CHECK_EQ(script->calls, 1);
    int other = connect_to(address_of(herd, 1));
    CHECK_CODE(herd_run_once(worker, 5000), 1);
    CHECK_EQ(delivered[0], 0);
    CHECK_EQ(delivered[1], 1);

    /* A new worker starts afresh. */
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
    while (delivered[0] == 0) {
        CHECK(herd_run_once(worker, 5000) >= 0);
    }
    close(client);
    close(other);
}

/* With one slot there is nobody to compete with, and the right is not used. */
static void all_errors(uint32_t mode, uint32_t max_workers)
{
    static const int shortages[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    static const int fatal[] = {EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP};
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.accept_delay_ms = delay_ms;
    config.max_workers = max_workers;
    CHECK_CODE(herd_create(&config, &herd), 0);
    check_uncounted = herd; /* what fails by the script is no connection's */
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, on_accept, &delivered[0]), 0);
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, on_accept, &delivered[1]), 1);
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
    errors_of_one_connection();
    for (int i = 0; i < 4; i++) {
        shortage(shortages[i]);
    }
    for (int i = 0; i < 4; i++) {
        error_of_the_listener(fatal[i]);
    }
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(50);
    preload("preload_accept", argv);
    script = (struct accept_script *)dlsym(RTLD_DEFAULT, "accept_script");
    CHECK(script != NULL);
    all_errors(HERD_MODE_MUTEX, 4);
    all_errors(HERD_MODE_MUTEX, 1);
    all_errors(HERD_MODE_REUSEPORT, 4);
    test_exit(0);
}
