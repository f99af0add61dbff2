/* HTTP: the text of a request, the head of an answer and the worker that it names. Knows bytes, not where they are from. */
#define _GNU_SOURCE
#include "http.h"
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request make_request(const char *path, bool keep_alive)
{
    struct request request = { .keep_alive = keep_alive };
    request.bytes = (size_t)snprintf(request.text, sizeof request.text, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                                     path, keep_alive ? "" : "Connection: close\r\n");
    return request;
}

static uint64_t header_value(const char *head, const char *name)
{
    const size_t name_bytes = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += strlen("\r\n");
        if (strncasecmp(line, name, name_bytes) == 0 && line[name_bytes] == ':')
            return strtoull(line + name_bytes + 1, NULL, 10);
    }
    return NEVER;
}

/* A server that names no slots but its processes: they get slots in the order in which they are seen. */
static uint64_t slot_of_process(uint64_t pid)
{
    static uint64_t seen[SLOTS_MAX];
    static size_t count;
    if (pid == NEVER)
        return NEVER;
    for (size_t i = 0; i < count; i++)
        if (seen[i] == pid)
            return i;
    if (count == SLOTS_MAX)
        return NEVER;
    seen[count] = pid;
    return count++;
}

bool take_head_bytes(struct answer *answer, size_t bytes)
{
    answer->head_bytes += bytes;
    answer->head[answer->head_bytes] = '\0';
    char *end = strstr(answer->head, "\r\n\r\n");
    if (end == NULL)
        return answer->head_bytes < HEAD_MAX_BYTES;
    end[2] = '\0'; /* the body is not searched for headers */
    answer->slot = header_value(answer->head, "X-Herd-Slot");
    if (answer->slot == NEVER)
        answer->slot = slot_of_process(header_value(answer->head, "X-Herd-Pid"));
    answer->length_bytes = header_value(answer->head, "Content-Length");
    answer->body_bytes = answer->head_bytes - (size_t)(end + 4 - answer->head);
    answer->head_complete = true;
    return sscanf(answer->head, "HTTP/1.%*1d %3d", &answer->status) == 1;
}
