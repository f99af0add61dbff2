/* What a worker has to say again and again it says once a second at most, however often it happens, and
 * each line counts those that were left out. */
#include "check.h"

enum { least_backoffs = 20, wait_most_ms = 30000 };

static unsigned long long lines, told;

static void on_log(void *log_data, int level, const char *message)
{
    unsigned long long more = 0;
    const char *before = strstr(message, ": others accept for 1 ms");
    (void)log_data;
    if (before == NULL) {
        return;
    }
    CHECK_EQ(level, HERD_LOG_WARNING);
    CHECK(strstr(message, "slot 0: accept: ") != NULL && strstr(message, strerror(EMFILE)) != NULL);
    const char *left_out = strchr(before, '(');
    CHECK(left_out == NULL || sscanf(left_out, "(%llu more since the last)", &more) == 1);
    CHECK((left_out == NULL) == (more == 0));
    lines++;
    told += 1 + more;
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    close(fd);
    ++*(int *)data;
    CHECK(herd_conn_closed(worker) >= 0);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    int greeted = 0;
    test_begin(50);
    config.accept_delay_ms = 1;
    config.log = on_log;
    CHECK_CODE(herd_create(&config, &herd), 0);
    int listener = new_listener(herd, on_accept, &greeted);
    struct herd_worker *worker = new_worker(herd);
    int client = connect_to(address_of(herd, listener));

    int64_t began_ms = now_ms();
    process_limit_fds(getpid(), 3);
    uint64_t backoffs = 0;
    while (lines < 2 || backoffs < least_backoffs || told < backoffs) {
        CHECK(now_ms() - began_ms < wait_most_ms);
        CHECK(herd_run_once(worker, 1) >= 0);
        backoffs = total_stats(herd).backoffs_emfile;
        CHECK(told <= backoffs);
    }
    int64_t took_ms = now_ms() - began_ms;
    printf("%llu back-offs in %d ms, %llu lines\n", (unsigned long long)backoffs, (int)took_ms, lines);
    /* The clock of the first line began after ours. */
    CHECK(lines <= 1 + (unsigned long long)took_ms / 1000);

    process_limit_fds(getpid(), RLIM_INFINITY);
    while (greeted == 0) {
        CHECK(now_ms() - began_ms < wait_most_ms);
        CHECK(herd_run_once(worker, 1) >= 0);
    }
    close(client);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
