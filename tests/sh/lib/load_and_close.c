/* load_and_close LIBRARY: see tests/sh/dlopen.sh. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <herd.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, dlerror());   \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

enum { rounds = 40, warm = 4, threads = 3 };

static const char *path;
static sem_t used, closed;

/* The calls, by name at run time. ISO C has no conversion from an object's address to a function's. */
#define CALL(library, name)                                                                           \
    __typeof__(&name) name##_;                                                                        \
    do {                                                                                              \
        void *symbol = dlsym(library, #name);                                                         \
        CHECK(symbol != NULL);                                                                        \
        memcpy(&name##_, &symbol, sizeof symbol);                                                     \
    } while (0)

static void use(void *library)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    struct herd_worker *worker;
    CALL(library, herd_create);
    CALL(library, herd_destroy);
    CALL(library, herd_listen);
    CALL(library, herd_worker_create);
    CALL(library, herd_worker_destroy);
    CALL(library, herd_run_once);
    config.mode = HERD_MODE_MUTEX;
    CHECK(herd_create_(&config, &herd) == 0);
    CHECK(herd_listen_(herd, "127.0.0.1:0", NULL, NULL, NULL) == 0);
    CHECK(herd_worker_create_(herd, HERD_ANY_SLOT, &worker) == 0);
    CHECK(herd_run_once_(worker, 0) >= 0);
    CHECK(herd_worker_destroy_(worker) == 0);
    CHECK(herd_destroy_(herd) == 0);
}

static int entries(const char *directory)
{
    int count = 0;
    DIR *opened = opendir(directory);
    CHECK(opened != NULL);
    while (readdir(opened) != NULL) {
        count++;
    }
    closedir(opened);
    return count;
}

/* Threads that have ended and were joined a moment ago may still be there. */
static void wait_for_tasks(int count)
{
    for (int i = 0; entries("/proc/self/task") != count; i++) {
        CHECK(i < 1000);
        usleep(10000);
    }
}

/* How many more keys for data of threads there are (pthread_key_create(3)). */
static int free_keys(void)
{
    static pthread_key_t keys[PTHREAD_KEYS_MAX];
    int count = 0;
    while (count < PTHREAD_KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        pthread_key_delete(keys[i]);
    }
    return count;
}

static long mapped_pages(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    CHECK(statm != NULL && fscanf(statm, "%ld", &pages) == 1);
    fclose(statm);
    return pages;
}

/* Uses the library, and ends long after it was closed. */
static void *outlives(void *library)
{
    use(library);
    sem_post(&used);
    sem_wait(&closed);
    return NULL;
}

static void one_round(void)
{
    pthread_t thread[threads];
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    use(library);
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_create(&thread[i], NULL, outlives, library) == 0);
    }
    for (int i = 0; i < threads; i++) {
        sem_wait(&used);
    }
    wait_for_tasks(2 + 1 + threads);
    CHECK(dlclose(library) == 0);
    for (int i = 0; i < threads; i++) {
        sem_post(&closed);
    }
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
    }
}

int main(int argc, char **argv)
{
    int fds = 0, keys = 0;
    long pages = 0;
    alarm(50);
    CHECK(argc == 2 && sem_init(&used, 0, 0) == 0 && sem_init(&closed, 0, 0) == 0);
    path = argv[1];
    mallopt(M_ARENA_MAX, 1); /* an arena more is no mapping of the library */
    for (int i = 0; i < rounds; i++) {
        if (i == warm) {
            fds = entries("/proc/self/fd");
            keys = free_keys();
            pages = mapped_pages();
        }
        one_round();
    }
    CHECK(entries("/proc/self/fd") == fds);
    CHECK(free_keys() == keys);
    printf("%d rounds mapped %ld pages more\n", rounds - warm, mapped_pages() - pages);
    CHECK(mapped_pages() - pages < rounds - warm);
    wait_for_tasks(2 + 1);
    return 0;
}
