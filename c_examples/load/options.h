/* The command line. */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include <stdbool.h>

enum mode { MODE_SHORT, MODE_RATE, MODE_HOLD, MODE_COUNT };

struct options {
    const char *mode_name, *path, *address;
    enum mode mode;
    /* 0: not asked for. Whole numbers are exact: all limits are far below 2^53. */
    double clients, seconds, count, rate, slow_every, slow_ms, gap_us, timeout_ms, slots, server_pid;
    bool counters, json, help;
};

/* Ends the program if there is nothing to run: after --help, or with EXIT_USAGE. */
const struct options *parse_options(int argc, char **argv);

#endif
