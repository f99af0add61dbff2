/* Making system calls of the library fail, with preload_faults.so. Includes preload.h. C99. */
#ifndef INJECT_H
#define INJECT_H

#include "preload.h"

#include "faults.h"
#include "modes.h"

static struct faults *shim;
/* In memory that the test and its children share. */
static struct fault_script *script;

CHECK_HELPER void disarm(void)
{
    SHARED_SET(script->call, FAULT_CALLS);
}

/* The call after the first `before` ones fails, and `failing` in all. */
CHECK_HELPER void arm(int call, int error, int before, int failing)
{
    disarm();
    script->error = error;
    script->before = before;
    script->failing = failing;
    SHARED_SET(script->hits, 0);
    SHARED_SET(script->call, call);
}

/* Starts the program anew with the object preloaded, once. Call it after test_begin. */
CHECK_HELPER void inject_begin(char **argv)
{
    preload("preload_faults", argv);
    shim = (struct faults *)dlsym(RTLD_DEFAULT, "faults");
    CHECK(shim != NULL);
    script = (struct fault_script *)shared_memory(sizeof *script);
    disarm();
    shim->script = script;
}

CHECK_HELPER const char *armed_name(void)
{
    int call = SHARED_GET(script->call);
    return call < FAULT_CALLS ? shim->calls[call].name : "(disarmed since)";
}

/* All that the library has made. */
CHECK_HELPER long long calls_made(void)
{
    long long sum = 0;
    for (int call = 0; call < FAULT_CALLS; call++) {
        sum += SHARED_GET(script->made[call]);
    }
    return sum;
}

CHECK_HELPER int error_count(int call)
{
    int count = 0;
    while (count < FAULT_ERRNOS_MAX && shim->calls[call].errnos[count] != 0) {
        count++;
    }
    return count;
}

/* What can last: a shortage, or signals that keep coming. */
CHECK_HELPER int can_last(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == ENOSPC ||
           error == EINTR || error == EAGAIN || error == ENOLCK;
}

/* --- The connections of the test's server ---------------------------------------------------- */

enum { connections_most = 64 };

static struct connection {
    struct herd_event event;
    int fd; /* -1: a free place */
    int slot;
} connections[connections_most];

/* The test's: has the worker in the connection's slot watch it. */
static void (*watch_connection)(struct connection *);

CHECK_HELPER void inject_connections(void (*watch)(struct connection *))
{
    watch_connection = watch;
    for (int i = 0; i < connections_most; i++) {
        connections[i].fd = -1;
    }
}

/* Greets with the slot. */
CHECK_HELPER void inject_on_accept(struct herd_worker *of, int fd, const struct sockaddr *peer,
                                   uint32_t peer_length, void *data)
{
    struct connection *connection = connections;
    char greeting = (char)herd_worker_slot(of);
    (void)peer;
    (void)peer_length;
    (void)data;
    while (connection->fd >= 0) {
        connection++;
        CHECK(connection < connections + connections_most);
    }
    connection->fd = fd;
    connection->slot = greeting;
    watch_connection(connection);
    CHECK_EQ(send(fd, &greeting, 1, MSG_NOSIGNAL), 1);
}

#endif
