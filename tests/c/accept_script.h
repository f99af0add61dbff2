/* What preload_accept.so and the test that uses it share: the symbol `accept_script` is one of these. */
#ifndef ACCEPT_SCRIPT_H
#define ACCEPT_SCRIPT_H

struct accept_script {
    /* Errors that the next calls of accept4 fail with, one each; then the real ones follow. */
    int errors[32];
    int count;
    int next;
    /* Calls of accept4 so far. */
    int calls;
};

#endif
