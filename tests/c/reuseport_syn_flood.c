/* Connections that are begun and never completed do not count as a worker's load for long, also when
 * the worker sleeps: what comes after them goes to it as to the others. */
#include "reuseport.h"

enum { flood = 60, some = 20 };

static uint16_t checksum(const uint8_t *bytes, size_t count, uint32_t sum)
{
    for (size_t i = 0; i + 1 < count; i += 2) {
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

/* One SYN from a port that nobody uses: the answer is refused there. */
static void send_syn(int raw, uint16_t from_port, uint16_t to_port)
{
    uint8_t segment[20];
    struct sockaddr_in to;
    memset(segment, 0, sizeof segment);
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    segment[0] = (uint8_t)(from_port >> 8);
    segment[1] = (uint8_t)from_port;
    segment[2] = (uint8_t)(to_port >> 8);
    segment[3] = (uint8_t)to_port;
    segment[12] = 5 << 4; /* header of 5 words */
    segment[13] = 2;      /* SYN */
    segment[14] = 0xff;   /* window */
    /* The pseudo-header: 127.0.0.1 twice, the protocol, the length. */
    uint16_t sum = checksum(segment, sizeof segment, 2 * (0x7f00 + 1) + IPPROTO_TCP + sizeof segment);
    segment[16] = (uint8_t)(sum >> 8);
    segment[17] = (uint8_t)sum;
    CHECK_EQ(sendto(raw, segment, sizeof segment, 0, (struct sockaddr *)&to, sizeof to),
             sizeof segment);
}

static int clients[2 * some];

/* Returns how many of `some` connections went to slot 0. Each comes when both workers are idle: one that still
 * runs its turn gets none, however low its load. */
static int connect_some(int first)
{
    int to_0 = 0;
    for (int i = first; i < first + some; i++) {
        int slot;
        serve_settle();
        clients[i] = serve_connect(&slot);
        to_0 += slot == 0;
    }
    return to_0;
}

struct seen {
    int at_once, later;
};

static struct seen flood_and_connect(int raw)
{
    struct herd_config config = reuseport_config(1, 200);
    struct seen seen;
    serve_prepare(&config, 2);
    serve_fork(0);
    serve_settle();
    /* The other one has begun and waits for a word, so that it is there well before the flood is forgotten. */
    SHARED_SET(serve.shared->hold_back, 1u);
    serve_fork(1);
    for (int i = 0; i < flood; i++) {
        send_syn(raw, (uint16_t)(2000 + i), (uint16_t)atoi(strrchr(serve.address, ':') + 1));
    }
    SHARED_SET(serve.shared->hold_back, 0u);
    serve_settle();
    seen.at_once = connect_some(0);
    /* Slot 0 has a load of 0 now, and slot 1 one of 20. */
    sleep_ms(3000);
    seen.later = connect_some(some);
    printf("to the flooded worker: %d of %d at once, %d later\n", seen.at_once, some, seen.later);
    CHECK_EQ(serve_stats(0).accepted + serve_stats(1).accepted, 2 * some);
    for (int i = 0; i < 2 * some; i++) {
        close(clients[i]);
    }
    WAIT_UNTIL(serve_total().connections_open == 0, 10000);
    serve_end();
    return seen;
}

int main(void)
{
    test_begin(50);
    int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
    if (raw < 0 || !reuseport_can_steer()) {
        test_skip("raw sockets or bpf(2) are refused here");
    }
    struct seen seen;
    /* On a slow machine the flood is forgotten before all are connected. */
    CHECK_IN_SOME_TRY(seen = flood_and_connect(raw), seen.at_once <= 6); /* else this test sees no flood */
    CHECK(seen.later > 6); /* none at all, if it were not forgotten */
    test_exit(0);
}
