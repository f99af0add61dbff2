/* Signals that arrive at any instant of a turn are no errors: no call of the loop says EINTR. */
#include "right.h"

#include <sys/time.h>

static volatile sig_atomic_t signals;

static void on_signal(int signal_number)
{
    (void)signal_number;
    signals++;
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    (void)data;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

/* Turns that all look for waiting connections, since the guard ticks every millisecond. */
static void run_with_signals(const struct right_case *c)
{
    enum { second_ms = 1000 };
    struct itimerval often = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
    struct herd_config config = right_config(c, 1);
    struct herd *herd;
    config.max_workers = 2;
    CHECK_CODE(herd_create(&config, &herd), 0);
    for (int i = 0; i < 8; i++) {
        new_listener(herd, on_accept, NULL);
    }
    struct herd_worker *workers[2] = {new_worker(herd), new_worker(herd)};
    int64_t end_ms = now_ms() + second_ms;
    int turns = 0;
    signals = 0;
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (; now_ms() < end_ms; turns++) {
        int code = herd_run_once(workers[turns % 2], 1);
        if (code < 0) {
            setitimer(ITIMER_REAL, &never, NULL);
            CHECK_CODE(code, 0);
        }
    }
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
    printf("%s: %d signals in %d turns\n", c->name, (int)signals, turns);
    CHECK(signals > 100);
    CHECK_CODE(herd_worker_destroy(workers[0]), 0);
    CHECK_CODE(herd_worker_destroy(workers[1]), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(1000); /* the runner's limit holds: the alarm's signal is used here */
    signal(SIGALRM, on_signal);
    for (int i = 0; i < right_case_count; i++) {
        run_with_signals(&right_cases[i]);
    }
    test_exit(0);
}
