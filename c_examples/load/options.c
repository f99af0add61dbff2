/*
 * Options: one table gives parsing, limits, the text of defaults and --help. Knows which option has a meaning in which
 * mode, and not what a mode does.
 */
#define _GNU_SOURCE
#include "options.h"
#include "load.h"

#include <ctype.h>
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_BYTES = 512 };
enum { SECONDS_NOT_GIVEN = -1 };

static const char *const mode_names[MODE_COUNT] = { "short", "rate", "hold" };

#define IN(mode) (1u << (mode))
#define IN_ALL (IN(MODE_SHORT) | IN(MODE_RATE) | IN(MODE_HOLD))

static struct options options = { .mode_name = "short", .path = "/", .clients = 16, .seconds = SECONDS_NOT_GIVEN,
                                  .rate = 100, .slow_ms = 200, .timeout_ms = 5000 };

static const struct option_rule {
    const char *name, *value_name;
    enum { WHOLE, DECIMAL, TEXT, FLAG } kind;
    unsigned modes;
    void *value;
    double least, most;
    const char *help;
} rules[] = {
    { "mode", "short|rate|hold", TEXT, IN_ALL, &options.mode_name, 0, 0, "scenario (short)" },
    { "clients", "N", WHOLE, IN(MODE_SHORT) | IN(MODE_HOLD), &options.clients, 1, 100000,
      "concurrent clients; in hold: connects in flight (16)" },
    { "seconds", "S", DECIMAL, IN_ALL, &options.seconds, 0, 86400,
      "how long (short, rate: 3, or what --count takes; hold: stay open, 0)" },
    { "count", "N", WHOLE, IN_ALL, &options.count, 1, 1e9, "how many connections (hold: 2000)" },
    { "rate", "R", DECIMAL, IN(MODE_RATE), &options.rate, 0, 1e6, "connections a second (100)" },
    { "slow-every", "K", WHOLE, IN(MODE_RATE), &options.slow_every, 1, 1e9,
      "every K-th request is GET /slow?ms=M, and kept out of the latencies" },
    { "slow-ms", "M", WHOLE, IN(MODE_RATE), &options.slow_ms, 0, 60000, "M of it (200)" },
    { "gap-us", "G", WHOLE, IN(MODE_HOLD), &options.gap_us, 0, 1e7, "time between two connects (0)" },
    { "path", "PATH", TEXT, IN_ALL, &options.path, 0, 0, "what to GET (/)" },
    { "timeout-ms", "T", WHOLE, IN_ALL, &options.timeout_ms, 1, 600000, "no full answer by then is an error (5000)" },
    { "slots", "N", WHOLE, IN_ALL, &options.slots, 1, SLOTS_MAX,
      "workers there are, so that unused ones count as zero" },
    { "server-pid", "PID", WHOLE, IN_ALL, &options.server_pid, 1, INT32_MAX,
      "count sleeps and CPU time of it and all its descendants" },
    { "counters", NULL, FLAG, IN_ALL, &options.counters, 0, 0, "GET /counters before and after, report differences" },
    { "json", NULL, FLAG, IN_ALL, &options.json, 0, 0, "one JSON object, one key a line" },
    { "help", NULL, FLAG, IN_ALL, &options.help, 0, 0, "this text" },
};

static void print_help(void)
{
    puts("load [options] ADDR      ADDR: 127.0.0.1:8080, [::1]:8080 or unix:/path (nothing but this machine)\n\n"
         "  short  clients that connect, GET with Connection: close, read to the end, again at once\n"
         "  rate   a new connection with one request at fixed times, whatever the server does;\n"
         "         latency counts from the scheduled time\n"
         "  hold   connections that stay open, each with one request, until all are open\n");
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", rules[i].name, rules[i].value_name ? rules[i].value_name : "");
        printf("  %-24s %s", left, rules[i].help);
        for (unsigned mode = 0; rules[i].modes != IN_ALL && mode < MODE_COUNT; mode++)
            if (rules[i].modes & IN(mode))
                printf(" [%s]", mode_names[mode]);
        putchar('\n');
    }
    puts("\nExit code: 0 no connection failed, 1 any did, 2 usage. SIGINT stops early and still reports.");
}

static void take_option(const struct option_rule *rule, const char *text)
{
    if (rule->kind == FLAG) {
        *(bool *)rule->value = true;
    } else if (rule->kind == TEXT) {
        *(const char **)rule->value = text;
    } else {
        char *end;
        double value = strtod(text, &end);
        if (!isdigit((unsigned char)text[0]) || *end != '\0' || !(value >= rule->least && value <= rule->most)
            || (rule->kind == WHOLE && value != (double)(uint64_t)value))
            errx(EXIT_USAGE, "--%s %s: not a %snumber from %.0f to %.0f (see load --help)", rule->name, text,
                 rule->kind == WHOLE ? "whole " : "", rule->least, rule->most);
        *(double *)rule->value = value;
    }
}

static void settle_defaults(void)
{
    const bool hold = options.mode == MODE_HOLD;
    if ((options.seconds == 0 && !hold) || (options.rate == 0 && options.mode == MODE_RATE))
        errx(EXIT_USAGE, "--seconds 0, --rate 0: must be more (see load --help)");
    if (options.seconds == SECONDS_NOT_GIVEN) /* a run limited by count alone needs no clock */
        options.seconds = hold || options.count != 0 ? 0 : 3;
    if (hold && options.count == 0)
        options.count = 2000;
}

const struct options *parse_options(int argc, char **argv)
{
    struct option long_options[COUNT_OF(rules) + 1] = { { 0 } };
    unsigned given = 0;
    int index, found;
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        long_options[i] = (struct option){ .name = rules[i].name, .has_arg = rules[i].kind != FLAG };
    while ((found = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (found != 0)
            exit(EXIT_USAGE); /* getopt_long has said why */
        given |= 1u << index;
        take_option(&rules[index], optarg);
    }
    if (options.help) {
        print_help();
        exit(EXIT_SUCCESS);
    }
    while (options.mode < MODE_COUNT && strcmp(options.mode_name, mode_names[options.mode]) != 0)
        options.mode++;
    if (options.mode == MODE_COUNT)
        errx(EXIT_USAGE, "--mode %s: not one of short, rate, hold (see load --help)", options.mode_name);
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if ((given & (1u << i)) && !(rules[i].modes & IN(options.mode)))
            errx(EXIT_USAGE, "--%s: has no meaning in mode %s (see load --help)", rules[i].name, options.mode_name);
    if (optind + 1 != argc)
        errx(EXIT_USAGE, "%s (see load --help)", optind == argc ? "no address" : "more than one address");
    options.address = argv[optind];
    if (options.path[0] != '/' || strlen(options.path) > PATH_MAX_BYTES)
        errx(EXIT_USAGE, "--path %s: must start with / and have at most %d bytes", options.path, PATH_MAX_BYTES);
    for (const char *at = options.path; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            errx(EXIT_USAGE, "--path %s: only printable characters without spaces", options.path);
    settle_defaults();
    return &options;
}
