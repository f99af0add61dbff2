/* What preload_epoll.so and the tests that use it share: the symbol `epoll_script` is one of these. */
#ifndef EPOLL_SCRIPT_H
#define EPOLL_SCRIPT_H

struct epoll_script {
    /* Answer EINVAL to EPOLLEXCLUSIVE, as kernels before 4.5 do. */
    int refuse_exclusive;
    /* Calls of epoll_ctl so far, and those that break the rules of EPOLLEXCLUSIVE. */
    int calls;
    int violations;
    /* Points to the process that is to stop itself as soon as it is woken by a timerfd; it finds the
     * signal number there, and is the only one. NULL or 0: nobody. */
    volatile int *signal_at_tick;
};

#endif
