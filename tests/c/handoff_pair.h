/* Two workers of one process in HERD_MODE_HANDOFF, and connections that the test sends to slot 0. Includes check.h.
 * C99. */
#ifndef HANDOFF_PAIR_H
#define HANDOFF_PAIR_H

#include "check.h"

enum { pair_delay_ms = 20 };

static struct {
    struct herd *herd;
    struct herd_worker *workers[2];
    unsigned delivered;
    /* To whom the last one was. */
    int slot;
} pair;

CHECK_HELPER void pair_on_handoff(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                                  uint32_t peer_length, const void *tag, size_t tag_bytes, void *data)
{
    (void)peer, (void)peer_length, (void)data;
    CHECK(tag_bytes == 4 && memcmp(tag, "real", 4) == 0);
    pair.delivered++;
    pair.slot = herd_worker_slot(worker);
    close(fd);
    CHECK_CODE(herd_conn_closed(worker), 0);
}

CHECK_HELPER void pair_start(herd_log_fn log)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = 2;
    config.accept_delay_ms = pair_delay_ms;
    config.handover_delay_us = 1000;
    config.log = log;
    CHECK_CODE(herd_create(&config, &pair.herd), 0);
    CHECK_CODE(herd_on_handoff(pair.herd, pair_on_handoff, NULL), 0);
    for (int slot = 0; slot < 2; slot++) {
        CHECK_CODE(herd_worker_create(pair.herd, slot, &pair.workers[slot]), 0);
        CHECK(herd_run_once(pair.workers[slot], 0) >= 0);
    }
}

CHECK_HELPER void pair_end(void)
{
    for (int slot = 0; slot < 2; slot++) {
        CHECK_CODE(herd_worker_destroy(pair.workers[slot]), 0);
    }
    CHECK_CODE(herd_destroy(pair.herd), 0);
}

/* Sends one connection to slot 0. Returns the client's end. */
CHECK_HELPER int pair_send(void)
{
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_CODE(herd_handoff_send(pair.herd, 0, ends[0], "real", 4), 0);
    return ends[1];
}

/* Turns of `slot` alone, until it has delivered one more. */
CHECK_HELPER void pair_turns_until_delivered(int slot)
{
    unsigned wanted = pair.delivered + 1;
    for (int64_t end = now_ms() + 10000 * test_scale(); pair.delivered < wanted;) {
        CHECK(now_ms() < end);
        CHECK(herd_run_once(pair.workers[slot], 10) >= 0);
    }
    CHECK_EQ(pair.delivered, wanted);
    CHECK_EQ(pair.slot, slot);
}

/* The other end was closed, and nothing was sent. */
CHECK_HELPER void pair_expect_end(int client)
{
    char byte;
    CHECK_EQ(recv(client, &byte, 1, MSG_DONTWAIT), 0);
    close(client);
}

#endif
