/* Counters: one GET on a connection of its own, that waits. Knows the names as text, not what they mean. */
#define _GNU_SOURCE
#include "counters.h"
#include "http.h"
#include "load.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_MAX_BYTES = 65536 };

bool fetch_counters(struct counters *counters, const struct target *target, double timeout_ms)
{
    static char text[ANSWER_MAX_BYTES];
    const struct request request = make_request("/counters", false);
    const struct timeval timeout = { (time_t)(timeout_ms / 1000), (long)timeout_ms % 1000 * 1000 };
    int fd = connect_to(target, 0);
    size_t bytes = 0;
    ssize_t got = -1;
    if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0
        && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0
        && send(fd, request.text, request.bytes, MSG_NOSIGNAL) == (ssize_t)request.bytes)
        while ((got = recv(fd, text + bytes, sizeof text - 1 - bytes, 0)) > 0)
            bytes += (size_t)got;
    const int error = fd < 0 ? -fd : got < 0 ? errno : 0;
    text[bytes] = '\0';
    if (fd >= 0)
        close(fd);
    const char *line = strstr(text, "\r\n\r\n");
    if (error != 0 || line == NULL || strncmp(text + strlen("HTTP/1.1"), " 200", 4) != 0) {
        warnx("GET /counters: %s", error != 0 ? strerror(error) : "no answer with status 200");
        return false;
    }
    counters->count = 0;
    for (line += strlen("\r\n\r"); line != NULL && counters->count < COUNTERS_MAX; line = strchr(line + 1, '\n'))
        /* Names go into our JSON as they are, so nothing that would need quoting; 63 is COUNTER_NAME_BYTES - 1. */
        if (sscanf(line, "\n%63[A-Za-z0-9_.] %" SCNd64, counters->list[counters->count].name,
                   &counters->list[counters->count].value) == 2)
            counters->count++;
    return true;
}

void subtract_counters(struct counters *after, const struct counters *before)
{
    for (size_t i = 0; i < after->count; i++)
        for (size_t j = 0; j < before->count; j++)
            if (strcmp(after->list[i].name, before->list[j].name) == 0)
                after->list[i].value -= before->list[j].value;
}

double counter_value(const struct counters *counters, const char *name)
{
    for (size_t i = 0; i < counters->count; i++)
        if (strcmp(counters->list[i].name, name) == 0)
            return (double)counters->list[i].value;
    return -1;
}
