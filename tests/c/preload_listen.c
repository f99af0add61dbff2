/* unlink(2), listen(2) and flock(2) that let the test know where herd_listen is. */
#define _GNU_SOURCE
#include "listen_script.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

struct listen_script listen_script;

/* ISO C has no conversion from a data pointer to a function pointer. */
#define REAL(type, name, parameters)                                                               \
    type(*real) parameters;                                                                        \
    void *symbol = dlsym(RTLD_NEXT, name);                                                         \
    memcpy(&real, &symbol, sizeof real)

int unlink(const char *path)
{
    REAL(int, "unlink", (const char *));
    if (listen_script.before_unlink != 0) {
        listen_script.before_unlink();
    }
    return real(path);
}

int listen(int fd, int backlog)
{
    REAL(int, "listen", (int, int));
    if (listen_script.before_listen != 0) {
        listen_script.before_listen();
    }
    return real(fd, backlog);
}

int flock(int fd, int operation)
{
    REAL(int, "flock", (int, int));
    int result = real(fd, operation);
    if (result != 0 && listen_script.lock_is_taken != 0) {
        listen_script.lock_is_taken();
    }
    return result;
}
