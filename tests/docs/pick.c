/* Frame for a callback that names the worker: of two in this process the one that it names gets a client. */
#define _GNU_SOURCE
#include <herd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

@BLOCK 1@

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd_accepted accepted = HERD_ACCEPTED_INIT;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof any;
    struct herd *herd;
    struct herd_worker *both[2];
    uint32_t workers = 2;
    int client = socket(AF_INET, SOCK_STREAM, 0), taken[2] = { 0, 0 };
    alarm(20);
    config.max_workers = workers;
@BLOCK 2@
    if (herd_create(&config, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) < 0
        || getsockname(herd_listener_fd(herd, 0), (struct sockaddr *)&any, &bytes) != 0
        || herd_worker_create(herd, 0, &both[0]) < 0 || herd_worker_create(herd, 1, &both[1]) < 0)
        return 2;
    for (int i = 0; i < 4; i++) {
        if ((client = socket(AF_INET, SOCK_STREAM, 0)) < 0 || connect(client, (struct sockaddr *)&any, bytes) != 0)
            return 2;
        for (const int before = taken[0] + taken[1]; taken[0] + taken[1] == before;)
            for (int slot = 0; slot < 2; slot++)
                if (herd_run_once(both[slot], 10) >= 0 && herd_accept(both[slot], &accepted) == 0)
                    taken[slot]++;
    }
    const int named = by_network(&workers, (struct sockaddr *)&any, bytes);
    return taken[named] == 4 && taken[1 - named] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
