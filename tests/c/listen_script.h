/*
 * What preload_listen.so and the test that uses it share: the symbol `listen_script` is one of these. Each is
 * called before the system call of its name, if it is set.
 */
#ifndef LISTEN_SCRIPT_H
#define LISTEN_SCRIPT_H

struct listen_script {
    void (*before_unlink)(void);
    void (*before_listen)(void);
    /* After flock(2) has said that another has the lock. */
    void (*lock_is_taken)(void);
};

#endif
