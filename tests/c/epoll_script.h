/* What preload_epoll.so and the tests that use it share: the symbol `epoll_script` is one of these. */
#ifndef EPOLL_SCRIPT_H
#define EPOLL_SCRIPT_H

struct epoll_script {
    /* Answer EINVAL to EPOLLEXCLUSIVE, as kernels before 4.5 do. */
    int refuse_exclusive;
    /* Calls of epoll_ctl so far, and those that break the rules of EPOLLEXCLUSIVE. */
    int calls;
    int violations;
    /* A signal number in shared memory: the first process that a timerfd wakes sends it to itself
     * before it reads the timer, and puts 0 in its place. NULL or 0: nobody does. */
    volatile int *signal_at_tick;
};

#endif
