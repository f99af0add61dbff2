/* Frame for a server in the library's loop: it answers, lets idle clients go, and ends when it is told to. */
#define _GNU_SOURCE
#include <errno.h>
#include <herd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct herd *herd;
static struct herd_worker *worker;
static uint64_t idle_ms;
#define IDLE_MS idle_ms

@BLOCK@

static void on_signal(int number)
{
    (void)number;
    herd_drain(worker);
}

static pid_t start_worker(uint64_t lets_go_after_ms)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    idle_ms = lets_go_after_ms;
    if (herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0)
        _exit(3);
    signal(SIGTERM, on_signal);
    run_worker();
    const int code = herd_worker_destroy(worker);
    _exit(code == 0 && herd_destroy(herd) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static int has_ended_well(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int connect_to(const struct sockaddr_in *server)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)server, sizeof *server) != 0)
        exit(4);
    return fd;
}

static int is_answered(int fd)
{
    char byte = 'x';
    return send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) == 1;
}

int main(void)
{
    struct sockaddr_in server = { .sin_family = AF_INET };
    socklen_t bytes = sizeof server;
    char byte;
    alarm(20);
    if (herd_create(NULL, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL) < 0
        || getsockname(herd_listener_fd(herd, 0), (struct sockaddr *)&server, &bytes) != 0)
        return 2;

    pid_t pid = start_worker(60000);
    int client = connect_to(&server), gone = connect_to(&server);
    if (!is_answered(client) || !is_answered(gone) || close(gone) != 0 || !is_answered(client))
        return 5;
    kill(pid, SIGTERM);
    while (is_answered(client)) { } /* until the answer after which it is closed */
    if (!has_ended_well(pid))
        return 6;

    pid = start_worker(50);
    client = connect_to(&server);
    if (recv(client, &byte, 1, 0) != 0)
        return 7;
    kill(pid, SIGTERM);
    return has_ended_well(pid) && herd_destroy(herd) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
