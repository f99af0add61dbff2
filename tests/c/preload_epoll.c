/* epoll_ctl(2) that counts its calls, checks the rules of EPOLLEXCLUSIVE and can refuse it;
 * epoll_wait(2) that can end its process when a timerfd was reported. */
#define _GNU_SOURCE
#include "epoll_script.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct epoll_script epoll_script;

/* The tag of the timerfd that this process watches. */
static unsigned long long timer_tag;
static int has_timer;

typedef int (*epoll_ctl_fn)(int epfd, int operation, int fd, struct epoll_event *event);
typedef int (*epoll_wait_fn)(int epfd, struct epoll_event *events, int most, int timeout_ms);

/* ISO C has no conversion from a data pointer to a function pointer. */
static void find_real(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, sizeof symbol);
}

static int is_timer(int fd)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    return strstr(target, "timerfd") != NULL;
}

int epoll_ctl(int epfd, int operation, int fd, struct epoll_event *event)
{
    epoll_ctl_fn real;
    find_real("epoll_ctl", &real);
    epoll_script.calls++;
    if (operation != EPOLL_CTL_DEL && event != NULL && (event->events & EPOLLEXCLUSIVE) != 0) {
        if (operation != EPOLL_CTL_ADD || (event->events & (EPOLLRDHUP | EPOLLONESHOT)) != 0) {
            epoll_script.violations++;
        }
        if (epoll_script.refuse_exclusive) {
            errno = EINVAL;
            return -1;
        }
    }
    if (operation == EPOLL_CTL_ADD && epoll_script.signal_at_tick != NULL && is_timer(fd)) {
        timer_tag = event->data.u64;
        has_timer = 1;
    }
    return real(epfd, operation, fd, event);
}

int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout_ms)
{
    epoll_wait_fn real;
    find_real("epoll_wait", &real);
    int count = real(epfd, events, most, timeout_ms);
    for (int i = 0; i < count && has_timer; i++) {
        if (events[i].data.u64 == timer_tag) {
            int signal_number = __atomic_exchange_n(epoll_script.signal_at_tick, 0, __ATOMIC_SEQ_CST);
            if (signal_number != 0) {
                raise(signal_number);
            }
        }
    }
    return count;
}
