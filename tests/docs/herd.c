/* Frame for what a parent does: a herd, and nothing else yet. */
#define _GNU_SOURCE
#include <errno.h>
#include <herd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct herd *herd;

static void die(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    exit(EXIT_FAILURE);
}

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    fprintf(stderr, "%d %s\n", level, message);
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length, void *data)
{
    (void)peer, (void)length, (void)data;
    close(fd);
    herd_conn_closed(worker);
}

static void start_another_worker(void) { }

int main(void)
{
    alarm(20);
    if (herd_create(NULL, &herd) < 0)
        die("create");
    if (getppid() == 0) /* uses them */
        on_log(NULL, 0, ""), on_accept(NULL, -1, NULL, 0, NULL), start_another_worker();
@BLOCK@
    return herd_mode(herd) > HERD_MODE_AUTO && herd_destroy(herd) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
