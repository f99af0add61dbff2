/* Frame for code that accepts by itself and passes connections on: a herd in HANDOFF, with a worker of this process. */
#define _GNU_SOURCE
#include <errno.h>
#include <herd.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct herd *herd;
static struct herd_worker *worker;
static int kept;

static void keep_for_later(int fd) { kept = fd; }

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd_accepted accepted = HERD_ACCEPTED_INIT;
    int pair[2], fd;
    alarm(20);
    config.mode = HERD_MODE_HANDOFF;
    if (herd_create(&config, &herd) < 0 || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0
        || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 2;
    fd = pair[0];
@BLOCK@
    int code;
    while (slot >= 0 && (code = herd_run_once(worker, 1000)) >= 0)
        if (herd_accept(worker, &accepted) == 0)
            return accepted.listener == HERD_LISTENER_NONE && accepted.tag_bytes == 3 ? EXIT_SUCCESS : EXIT_FAILURE;
    return kept ? 3 : EXIT_FAILURE;
}
