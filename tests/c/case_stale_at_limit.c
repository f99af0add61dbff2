/* A worker that has an event for a closed descriptor, and no descriptor free to make its epoll set anew, does
 * not spin, serves what comes meanwhile, and has peace as soon as there is one (R12, R32). */
#include "serve.h"

enum { spell_ms = 150, turns_a_ms_most = 3 };

static struct herd_worker *worker;
static int ran;

static void on_event(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    char byte;
    (void)of;
    (void)ready;
    ran++;
    CHECK_EQ(recv(event->fd, &byte, 1, 0), 1);
}

static void watch(struct herd_event *event, int ends[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_CODE(herd_event_init(event, on_event, NULL), 0);
    CHECK_CODE(herd_event_add(worker, event, ends[0], HERD_READ), 0);
}

/* Turns in a spell without anything to do. */
static int turns(int *took_ms)
{
    int count = 0;
    int64_t began_ms = now_ms();
    do {
        CHECK_CODE(herd_run_once(worker, spell_ms), 0);
        count++;
    } while (now_ms() - began_ms < spell_ms);
    *took_ms = (int)(now_ms() - began_ms);
    return count;
}

int main(void)
{
    struct herd_event closed, open;
    struct rlimit limit, none;
    int of_closed[2], of_open[2], took_ms;
    test_begin(50);
    struct herd *herd = new_herd(HERD_MODE_EXCLUSIVE, 1);
    worker = new_worker(herd);
    watch(&closed, of_closed);
    watch(&open, of_open);
    int kept = fcntl(of_closed[0], F_DUPFD_CLOEXEC, 0);
    CHECK(kept >= 0);
    close(of_closed[0]);
    CHECK_CODE(herd_event_del(worker, &closed), -EBADF);
    CHECK_EQ(send(of_closed[1], "x", 1, MSG_NOSIGNAL), 1);

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    int count = turns(&took_ms);
    printf("%d turns in %d ms without a descriptor\n", count, took_ms);
    CHECK(count <= turns_a_ms_most * took_ms);
    CHECK_EQ(send(of_open[1], "x", 1, MSG_NOSIGNAL), 1);
    CHECK_CODE(herd_run_once(worker, 5000), 1);
    CHECK_EQ(ran, 1);

    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_CODE(herd_run_once(worker, 0), 0);
    count = turns(&took_ms);
    printf("%d turns in %d ms with one\n", count, took_ms);
    CHECK(count <= 2);
    CHECK_CODE(herd_event_del(worker, &open), 0);
    close(kept);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
