/* What preload_transfer.c is to do: shared between a test, its workers, and the preloaded object. */
#ifndef TRANSFER_SCRIPT_H
#define TRANSFER_SCRIPT_H

#include <sys/types.h>

enum transfer_point { before_send = 1, after_send, before_take, after_take };

struct transfer_script {
    /* Sent to the calling process at the point, once; 0: none. */
    int signal_number;
    enum transfer_point point;
    pid_t pid;
};

/* Where the script is, in the preloaded object. */
struct transfer_script_place {
    volatile struct transfer_script *script;
};

#endif
