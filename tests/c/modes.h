/* All modes, for tests that run in each. Include check.h before. */
#ifndef MODES_H
#define MODES_H

static const uint32_t all_modes[] = {HERD_MODE_EXCLUSIVE, HERD_MODE_MUTEX, HERD_MODE_REUSEPORT,
                                     HERD_MODE_HANDOFF, HERD_MODE_SHARED};
enum { mode_count = sizeof all_modes / sizeof all_modes[0] };

CHECK_HELPER const char *mode_name(uint32_t mode)
{
    switch (mode) {
    case HERD_MODE_EXCLUSIVE:
        return "exclusive";
    case HERD_MODE_MUTEX:
        return "mutex";
    case HERD_MODE_REUSEPORT:
        return "reuseport";
    case HERD_MODE_HANDOFF:
        return "handoff";
    default:
        return "shared";
    }
}

#endif
