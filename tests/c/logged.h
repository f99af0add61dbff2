/* A herd whose last line of the level error is kept, for tests of what the log explains. */
#ifndef LOGGED_H
#define LOGGED_H

#include "check.h"

static char logged[512];

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    if (level == HERD_LOG_ERROR) {
        snprintf(logged, sizeof logged, "%s", message);
    }
}

CHECK_HELPER struct herd *new_logging_herd(uint32_t mode)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = mode;
    config.log = on_log;
    config.max_workers = 2;
    CHECK_CODE(herd_create(&config, &herd), 0);
    return herd;
}

/* The log said `why`, since `logged` was emptied. */
CHECK_HELPER void check_logged(const char *why)
{
    if (strstr(logged, why) == NULL) {
        fprintf(stderr, "the log does not say '%s': '%s'\n", why, logged);
        test_exit(1);
    }
    logged[0] = '\0';
}

#endif
