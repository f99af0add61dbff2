/* What the reuseport_ programs share: a herd whose connections are steered, or placed by the kernel's
 * hash. A host's own balance policy takes the hash, with the privilege for bpf(2) or without. */
#ifndef REUSEPORT_H
#define REUSEPORT_H

#include "serve.h"

static const char *const reuseport_names[] = {"hash", "steered"};

CHECK_HELPER int reuseport_never(void *data, uint64_t own_load, uint64_t least_load)
{
    (void)data;
    (void)own_load;
    (void)least_load;
    return 0;
}

CHECK_HELPER struct herd_config reuseport_config(int steered, uint32_t accept_delay_ms)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_REUSEPORT;
    config.accept_delay_ms = accept_delay_ms;
    if (!steered) {
        config.balance = HERD_BALANCE_CALLBACK;
        config.balance_callback = reuseport_never;
    }
    return config;
}

/* Whether connections can be steered here. */
CHECK_HELPER int reuseport_can_steer(void)
{
    struct herd *herd;
    struct herd_config config = reuseport_config(1, 0);
    config.max_workers = 2;
    CHECK_CODE(herd_create(&config, &herd), 0);
    CHECK_EQ(herd_mode(herd), HERD_MODE_REUSEPORT);
    int steered = herd_is_steered(herd);
    CHECK_CODE(herd_destroy(herd), 0);
    if (!steered) {
        printf("bpf(2) is refused here: only the hash is tested\n");
    }
    return steered;
}

#endif
