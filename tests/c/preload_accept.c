/* accept4(2) that fails as the test says, and counts its calls. */
#define _GNU_SOURCE
#include "accept_script.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct accept_script accept_script;

/* <sys/socket.h> declares accept4 with a type of glibc's own. */
struct sockaddr;

typedef int (*accept4_fn)(int fd, struct sockaddr *peer, unsigned *peer_length, int flags);

int accept4(int fd, struct sockaddr *peer, unsigned *peer_length, int flags)
{
    accept_script.calls++;
    if (accept_script.next < accept_script.count) {
        errno = accept_script.errors[accept_script.next++];
        return -1;
    }
    /* ISO C has no conversion from a data pointer to a function pointer. */
    void *symbol = dlsym(RTLD_NEXT, "accept4");
    accept4_fn real;
    memcpy(&real, &symbol, sizeof real);
    return real(fd, peer, peer_length, flags);
}
