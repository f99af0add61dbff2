/* Interest and readiness: level- and edge-triggered, reading, writing, the peer's half close,
   errors and hang-ups, nothing at all, and changes of it. */
#include "check.h"

static struct herd_worker *worker;
static int runs;
static uint32_t last_ready;

static void on_event(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    (void)of;
    (void)event;
    runs++;
    last_ready = ready;
}

/* One turn, after which the handler must have run with exactly these bits; 0: not at all. */
static void expect(int line, uint32_t ready)
{
    runs = 0;
    last_ready = 0;
    int handled = herd_run_once(worker, ready == 0 ? 0 : 5000);
    if (handled != (ready != 0) || runs != (ready != 0) || last_ready != ready) {
        fprintf(stderr, "line %d: handled %d, runs %d, ready %#x, not %#x\n", line, handled, runs,
                last_ready, ready);
        test_exit(1);
    }
}
#define READY(bits) expect(__LINE__, bits)
#define QUIET() expect(__LINE__, 0)

static struct herd_event event;

static void watch(int fd, uint32_t interest)
{
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_CODE(herd_event_add(worker, &event, fd, interest), 0);
    CHECK_EQ(event.fd, fd);
    CHECK_EQ(event.interest, interest);
}

static void change(uint32_t interest)
{
    CHECK_CODE(herd_event_mod(worker, &event, interest), 0);
    CHECK_EQ(event.interest, interest);
}

static void new_pair(int pair[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static void put(int fd)
{
    CHECK_EQ(write(fd, "x", 1), 1);
}

static void take(int fd)
{
    char byte;
    CHECK_EQ(read(fd, &byte, 1), 1);
}

static void levels_and_edges(void)
{
    int pair[2];
    new_pair(pair);
    watch(pair[0], HERD_READ);
    QUIET();
    put(pair[1]);
    READY(HERD_READ);
    READY(HERD_READ);
    take(pair[0]);
    QUIET();

    change(HERD_READ | HERD_EDGE);
    QUIET();
    put(pair[1]);
    READY(HERD_READ);
    QUIET();
    put(pair[1]);
    READY(HERD_READ);
    QUIET();
    /* A change looks anew. */
    change(HERD_READ | HERD_EDGE);
    READY(HERD_READ);
    QUIET();
    change(HERD_READ);
    READY(HERD_READ);
    READY(HERD_READ);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    QUIET();
    CHECK_EQ(event.fd, -1);

    /* Ready already when it is added. */
    watch(pair[0], HERD_READ | HERD_EDGE);
    READY(HERD_READ);
    QUIET();
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(pair[0]);
    close(pair[1]);
}

static void writing(void)
{
    static char block[65536];
    int pair[2];
    new_pair(pair);
    watch(pair[0], HERD_WRITE);
    READY(HERD_WRITE);
    READY(HERD_WRITE);
    while (write(pair[0], block, sizeof block) > 0) {
    }
    CHECK_EQ(errno, EAGAIN);
    QUIET();
    while (read(pair[1], block, sizeof block) > 0) {
    }
    READY(HERD_WRITE);
    change(HERD_WRITE | HERD_EDGE);
    READY(HERD_WRITE);
    QUIET();
    change(HERD_READ | HERD_WRITE);
    READY(HERD_WRITE);
    put(pair[1]);
    READY(HERD_READ | HERD_WRITE);
    change(HERD_READ);
    READY(HERD_READ);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(pair[0]);
    close(pair[1]);
}

static void nothing_and_back(void)
{
    int pair[2];
    new_pair(pair);
    put(pair[1]);
    watch(pair[0], 0);
    QUIET();
    change(HERD_READ);
    READY(HERD_READ);
    change(0);
    QUIET();
    change(HERD_WRITE);
    READY(HERD_WRITE);
    change(0);
    QUIET();
    change(HERD_READ | HERD_WRITE);
    READY(HERD_READ | HERD_WRITE);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(pair[0]);
    close(pair[1]);
}

static void half_close(void)
{
    int pair[2];
    new_pair(pair);
    watch(pair[0], HERD_READ | HERD_PEER_CLOSED);
    QUIET();
    CHECK_EQ(shutdown(pair[1], SHUT_WR), 0);
    READY(HERD_READ | HERD_PEER_CLOSED);
    change(HERD_PEER_CLOSED);
    READY(HERD_PEER_CLOSED);
    /* Who does not ask for it reads the end of the stream. */
    change(HERD_READ);
    READY(HERD_READ);
    char byte;
    CHECK_EQ(read(pair[0], &byte, 1), 0);
    change(HERD_WRITE);
    READY(HERD_WRITE);
    change(HERD_PEER_CLOSED | HERD_EDGE);
    READY(HERD_PEER_CLOSED);
    QUIET();
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(pair[0]);
    close(pair[1]);
}

/* Reported whatever was asked for, and what was asked for counts as ready with it. */
static void hang_ups_and_errors(void)
{
    int pair[2], ends[2];
    new_pair(pair);
    watch(pair[0], 0);
    QUIET();
    close(pair[1]);
    READY(HERD_HANGUP);
    change(HERD_PEER_CLOSED);
    READY(HERD_HANGUP | HERD_PEER_CLOSED);
    change(HERD_READ | HERD_WRITE);
    READY(HERD_HANGUP | HERD_READ | HERD_WRITE);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(pair[0]);

    /* The writing end of a pipe that nobody reads. */
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    watch(ends[1], 0);
    QUIET();
    close(ends[0]);
    READY(HERD_ERROR);
    change(HERD_READ);
    READY(HERD_ERROR | HERD_READ);
    change(HERD_WRITE);
    READY(HERD_ERROR | HERD_WRITE);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(ends[1]);

    /* The reading end after its writer has gone, with data left. */
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    put(ends[1]);
    close(ends[1]);
    watch(ends[0], HERD_READ);
    READY(HERD_HANGUP | HERD_READ);
    take(ends[0]);
    READY(HERD_HANGUP | HERD_READ);
    change(HERD_READ | HERD_EDGE);
    READY(HERD_HANGUP | HERD_READ);
    QUIET();
    CHECK_CODE(herd_event_del(worker, &event), 0);
    close(ends[0]);
}

int main(void)
{
    test_begin(30);
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    worker = new_worker(herd);
    levels_and_edges();
    writing();
    nothing_and_back();
    half_close();
    hang_ups_and_errors();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    return 0;
}
