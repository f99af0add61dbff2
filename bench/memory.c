/*
 * memory [FDS [CYCLES]]: the memory that watched descriptors cost in the process: the growth of its resident set while
 * FDS eventfds are added, the host's array of struct herd_event included; and how much CYCLES more times of taking one
 * out and putting it in again let it grow. Prints: bytes_per_fd B, bytes_per_event B (the struct alone), and grown G.
 */
#define _GNU_SOURCE
#include <herd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker, (void)event, (void)ready;
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        exit(EXIT_FAILURE);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void on_accept(struct herd_worker *w, int fd, const struct sockaddr *peer, uint32_t length, void *data)
{
    (void)w, (void)fd, (void)peer, (void)length, (void)data;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 50000;
    const long cycles = argc > 2 ? atol(argv[2]) : 1000000;
    struct rlimit files = { (rlim_t)count + 64, (rlim_t)count + 64 };
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) { /* only root may raise it */
        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        count = count < (long)files.rlim_cur - 64 ? count : (long)files.rlim_cur - 64;
    }
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    struct herd_worker *worker;
    config.max_workers = 2;
    if (herd_create(&config, &herd) < 0 || herd_listen(herd, "127.0.0.1:0", NULL, on_accept, NULL) < 0
        || herd_worker_create(herd, HERD_ANY_SLOT, &worker) < 0 || herd_run_once(worker, 0) < 0) {
        fputs("memory: no herd\n", stderr);
        return EXIT_FAILURE;
    }
    const long before = resident_bytes();
    struct herd_event *events = malloc((size_t)count * sizeof *events);
    for (long i = 0; i < count; i++) {
        herd_event_init(&events[i], on_event, NULL);
        const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (fd < 0 || herd_event_add(worker, &events[i], fd, HERD_READ) != 0) {
            fputs("memory: an event could not be added\n", stderr);
            return EXIT_FAILURE;
        }
    }
    const long with_all = resident_bytes();
    for (long i = 0; i < cycles; i++) {
        struct herd_event *event = &events[i % count];
        const int fd = event->fd;
        if (herd_event_del(worker, event) < 0 || herd_event_add(worker, event, fd, HERD_READ) != 0)
            return EXIT_FAILURE;
    }
    printf("bytes_per_fd %.1f\nbytes_per_event %zu\ngrown %ld\n", (double)(with_all - before) / (double)count,
           sizeof(struct herd_event), resident_bytes() - with_all);
    return EXIT_SUCCESS;
}
