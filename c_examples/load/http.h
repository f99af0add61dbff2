/* HTTP/1.1, as much of it as a client of these servers needs. */
#ifndef LOAD_HTTP_H
#define LOAD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_MAX_BYTES = 640, HEAD_MAX_BYTES = 1024 };

struct request {
    char text[REQUEST_MAX_BYTES];
    size_t bytes;
    bool keep_alive;
};

struct request make_request(const char *path, bool keep_alive);

struct answer {
    char head[HEAD_MAX_BYTES + 1]; /* may hold the begin of the body too */
    size_t head_bytes;             /* in head so far */
    bool head_complete;
    int status;
    uint64_t slot, body_bytes, length_bytes; /* slot: NEVER if not named; length: NEVER if the stream's end ends it */
};

/* Takes bytes that were received at answer->head + head_bytes; false: this is not HTTP. */
bool take_head_bytes(struct answer *answer, size_t bytes);

#endif
