/* A herd's file that is damaged, hostile, of another version or shortened under the observer's eyes is
 * told from a good one, and never a crash. */
#include "check.h"

#include "figures.h"

#include <sys/stat.h>

static char name[64], path[128];

/* Whatever is in the file, each call comes back. */
static void look_at_all(void)
{
    struct herd *observer = NULL;
    int code = herd_open(name, &observer);
    CHECK(code == 0 || code == HERD_EDAMAGED || code == HERD_EVERSION || code == -ENOENT);
    if (code != 0) {
        return;
    }
    look_at_figures(observer, 0);
    CHECK(herd_is_alive(observer) >= 0);
    CHECK_CODE((herd_destroy)(observer), 0); /* without check.h's look at the figures */
}

static void refused(int code)
{
    struct herd *observer = NULL;
    int fds = open_fds();
    CHECK_CODE(herd_open(name, &observer), code);
    CHECK(observer == NULL);
    CHECK_EQ(open_fds(), fds);
}

static int write_at(const void *bytes, size_t count, off_t offset)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t written = pwrite(fd, bytes, count, offset);
    close(fd);
    return written == (ssize_t)count;
}

int main(void)
{
    test_begin(50);
    snprintf(name, sizeof name, "damaged-%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), name);
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL, *observer = NULL;
    config.name = name;
    config.max_workers = 5;
    CHECK_CODE(herd_create(&config, &herd), 0);
    struct stat good;
    CHECK_EQ(stat(path, &good), 0);
    size_t bytes = (size_t)good.st_size;
    unsigned char *copy = (unsigned char *)malloc(bytes);
    CHECK(copy != NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(read(fd, copy, bytes), (ssize_t)bytes);
    close(fd);
    look_at_all();

    /* Each of the first bytes, by which the file says what it is, and every word of the rest. */
    uint32_t seed = 12345;
    for (size_t at = 0; at < 64; at++) {
        for (int round = 0; round < 4; round++) {
            seed = seed * 1664525u + 1013904223u;
            unsigned char byte = (unsigned char)(seed >> 24);
            CHECK(write_at(&byte, 1, (off_t)at));
            look_at_all();
        }
        CHECK(write_at(copy + at, 1, (off_t)at));
    }
    for (int round = 0; round < 20; round++) {
        for (size_t at = 128; at < bytes; at++) {
            seed = seed * 1664525u + 1013904223u;
            ((unsigned char *)copy)[at] = round == 0 ? 0xff : (unsigned char)(seed >> 24);
        }
        CHECK(write_at(copy + 128, bytes - 128, 128));
        look_at_all();
    }
    uint64_t zero = 0;
    CHECK(write_at(&zero, sizeof zero, 0));
    refused(HERD_EDAMAGED);
    CHECK(write_at(copy, sizeof zero, 0));
    uint32_t other_layout = 999;
    CHECK(write_at(&other_layout, sizeof other_layout, 8));
    refused(HERD_EVERSION);
    CHECK(write_at(copy + 8, sizeof other_layout, 8));
    look_at_all();

    /* Shortened while somebody looks. The herd itself would not survive a touch of its memory. */
    CHECK_CODE(herd_open(name, &observer), 0);
    struct herd_stats stats;
    struct herd_histogram times;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    times.size = sizeof times;
    CHECK_EQ(truncate(path, 200), 0);
    CHECK_CODE(herd_stats_total(observer, &stats), HERD_EDAMAGED);
    CHECK_CODE(herd_stats_worker(observer, 4, &stats), HERD_EDAMAGED);
    CHECK_CODE(herd_stats_histogram(observer, HERD_ALL_SLOTS, 0, &times), HERD_EDAMAGED);
    CHECK_EQ(stats.turns, 0);
    CHECK_CODE((herd_destroy)(observer), 0);
    refused(HERD_EDAMAGED);
    CHECK_EQ(truncate(path, 0), 0);
    refused(-ENOENT); /* one that is just being made */
    CHECK_EQ(truncate(path, (off_t)bytes), 0);
    refused(HERD_EDAMAGED);
    CHECK_CODE((herd_destroy)(herd), 0);
    CHECK_EQ(access(path, F_OK), -1);
    free(copy);
    test_exit(0);
}
