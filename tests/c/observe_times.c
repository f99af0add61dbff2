/* The figures of a herd say what its workers do: one that is blocked in a handler shows as busy while it
 * is, the holder of the right is named, what woke workers and how long things took is counted, each as
 * often as it happened. */
#include "serve.h"

enum { workers = 3, connections = 40 };

static void on_request(struct herd_worker *worker)
{
    CHECK_CODE(herd_request_done(worker), 0);
    WAIT_UNTIL(SHARED_GET(serve.shared->knob) == 0, 20000);
}

static struct herd_histogram times(int slot, uint32_t which)
{
    struct herd_histogram histogram;
    histogram.size = sizeof histogram;
    CHECK_CODE(herd_stats_histogram(serve.herd, slot, which, &histogram), 0);
    uint64_t sum = 0;
    for (uint32_t bucket = 0; bucket < histogram.buckets; bucket++) {
        sum += histogram.counts[bucket];
        CHECK(herd_histogram_end_us(bucket) > (bucket > 0 ? herd_histogram_end_us(bucket - 1) : 0));
    }
    CHECK_EQ(histogram.buckets, HERD_HISTOGRAM_BUCKETS);
    CHECK_EQ(sum, histogram.count);
    CHECK(histogram.p50_us <= histogram.p90_us && histogram.p90_us <= histogram.p99_us);
    CHECK(histogram.p99_us <= histogram.p999_us && histogram.p999_us <= histogram.longest_us);
    return histogram;
}

static void blocked_worker_shows(void)
{
    int slot;
    int client = serve_connect(&slot);
    serve_settle();
    CHECK_EQ(serve_stats(slot).state, HERD_STATE_IDLE);
    uint64_t requests = serve_stats(slot).requests;
    SHARED_SET(serve.shared->knob, 1);
    CHECK_EQ(send(client, "x", 1, MSG_NOSIGNAL), 1);
    /* Counted in the handler: by then the turn has counted all else. */
    WAIT_UNTIL(serve_stats(slot).requests == requests + 1, 10000);
    struct herd_stats before = serve_stats(slot);
    CHECK_EQ(before.state, HERD_STATE_BUSY);
    WAIT_UNTIL(serve_stats(slot).busy_us >= before.busy_us + 50000, 10000);
    struct herd_stats after = serve_stats(slot);
    CHECK_EQ(after.state_since_us, before.state_since_us);
    CHECK(after.now_us - after.state_since_us >= 50000);
    CHECK_EQ(after.waiting_us, before.waiting_us);
    CHECK_EQ(after.turns, before.turns);
    SHARED_SET(serve.shared->knob, 0);
    char byte;
    CHECK_EQ(recv(client, &byte, 1, 0), 1);
    serve_settle();
    CHECK_EQ(serve_stats(slot).requests, requests + 1);
    CHECK(times(slot, HERD_HISTOGRAM_TURN_WORK).longest_us >= 50000);
    before = serve_stats(slot);
    WAIT_UNTIL(serve_stats(slot).waiting_us >= before.waiting_us + 20000, 10000);
    close(client);
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
}

/* The text fits where the library says it does, and what does not fit is not written. */
static void as_text(void)
{
    int room = herd_stats_text(serve.herd, NULL, 0);
    CHECK(room > 1000);
    char *text = (char *)malloc((size_t)room);
    CHECK(text != NULL);
    text[0] = '?';
    CHECK_CODE(herd_stats_text(serve.herd, text, 0), -ENOSPC);
    CHECK_CODE(herd_stats_text(serve.herd, text, 100), -ENOSPC);
    CHECK_CODE(herd_stats_text(serve.herd, NULL, 100), -EINVAL);
    CHECK_EQ(text[0], '?');
    int length = herd_stats_text(serve.herd, text, (size_t)room);
    CHECK(length > 1000 && length < room);
    CHECK_EQ(strlen(text), length);
    CHECK(strstr(text, "\nherd_accepted_total{slot=\"2\"} ") != NULL);
    CHECK_CODE(herd_stats_text(serve.herd, text, (size_t)length - 100), -ENOSPC);
    free(text);
}

/* Since when a worker is in its state, and only if there is one. */
static void state_since_as_text(int gone)
{
    char text[1 << 16], sample[96];
    CHECK(herd_stats_text(serve.herd, text, sizeof text) > 0);
    for (int slot = 0; slot < workers; slot++) {
        snprintf(sample, sizeof sample, "\nherd_worker_state_since_timestamp_seconds{slot=\"%d\"} ", slot);
        const char *found = strstr(text, sample);
        CHECK_EQ(found == NULL, slot == gone);
        if (found != NULL) {
            double since = atof(found + strlen(sample)), now = (double)time(NULL);
            CHECK(since > now - 600 && since < now + 60); /* the machine's clock may be set */
        }
    }
}

/* Returns how many hand-overs were timed. */
static int run(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = mode;
    config.accept_delay_ms = 60000; /* no tick disturbs */
    serve.on_request = on_request;
    serve_start(&config, workers);
    struct herd_stats total = serve_total();
    CHECK_EQ(total.slots, workers);
    CHECK_EQ(total.open_jain, 1);
    int held[connections], timed = 0;
    for (int i = 0; i < connections; i++) {
        int slot;
        held[i] = serve_connect(&slot);
        serve_echo(held[i]);
    }
    serve_settle();
    total = serve_total();
    CHECK_EQ(total.accepted, connections);
    CHECK_EQ(total.opened, connections);
    CHECK_EQ(total.requests, connections);
    CHECK_EQ(total.load, connections);
    CHECK_EQ(times(HERD_ALL_SLOTS, HERD_HISTOGRAM_ACCEPT_DELAY).count, connections);
    CHECK_EQ(times(HERD_ALL_SLOTS, HERD_HISTOGRAM_TURN_WORK).count, total.turns + workers);
    CHECK(total.wakeups_by_listener >= connections);
    CHECK(total.wakeups_by_event >= connections);
    CHECK(total.handovers_received <= total.handovers);
    CHECK(total.open_most >= (connections + workers - 1) / workers);
    CHECK(total.open_least <= connections / workers);
    double squares = 0;
    for (int slot = 0; slot < workers; slot++) {
        squares += (double)serve_stats(slot).connections_open * (double)serve_stats(slot).connections_open;
    }
    double jain = connections * connections / (workers * squares);
    CHECK(total.open_jain > jain - 1e-9 && total.open_jain < jain + 1e-9);
    if (mode == HERD_MODE_MUTEX) {
        /* One has the right now, the others have given it up as often as they got it, or it was taken from them
         * (on a slow machine). */
        CHECK_EQ(times(HERD_ALL_SLOTS, HERD_HISTOGRAM_RIGHT_HELD).count + total.thefts, total.acquisitions - 1);
        CHECK(total.holder >= 0 && total.holder < workers);
        CHECK(total.holder_since_us > 0 && total.holder_since_us <= total.now_us);
        CHECK_EQ(serve_stats(0).holder, total.holder);
        CHECK(total.wakeups_by_bell >= total.handovers_received);
        timed = (int)times(HERD_ALL_SLOTS, HERD_HISTOGRAM_HANDOVER).count;
        CHECK(timed <= (int)total.handovers_received);
    } else {
        CHECK_EQ(total.holder, -1);
        CHECK_EQ(times(HERD_ALL_SLOTS, HERD_HISTOGRAM_RIGHT_HELD).count, 0);
    }
    for (int i = 0; i < connections; i++) {
        close(held[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    CHECK_EQ(serve_total().closed, connections);
    blocked_worker_shows();
    as_text();

    /* What a killed worker had open is lost, not closed. */
    int slot;
    int client = serve_connect(&slot);
    pid_t dead = serve_crash(slot);
    serve_report(slot, dead);
    CHECK_EQ(serve_stats(slot).lost, 1);
    CHECK_EQ(serve_stats(slot).state, HERD_STATE_NONE);
    CHECK_EQ(serve_stats(slot).pid, 0);
    state_since_as_text(slot);
    CHECK_EQ(serve_total().connections_open, 0);
    close(client);
    serve_end();
    return timed;
}

int main(void)
{
    test_begin(55);
    int timed;
    /* Where the guard's tick comes with the bell, it is the guard that has woken. */
    CHECK_IN_SOME_TRY(timed = run(HERD_MODE_MUTEX), timed > 0);
    CHECK_EQ(run(HERD_MODE_EXCLUSIVE), 0);
    test_exit(0);
}
