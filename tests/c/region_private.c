/* A herd's shared memory is its owner's alone: nobody else can open it, a worker that has given up its rights
 * can make nothing of it go away, a file that somebody else has put in its place is not used, and nothing of
 * the process is in it. */
#include "check.h"

#include <sys/stat.h>

#define SECRET "a-secret-of-the-environment"

static char name[64], path[128];

static struct herd *create(int *code)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    config.name = name;
    config.max_workers = 3;
    config.mode = HERD_MODE_MUTEX;
    *code = herd_create(&config, &herd);
    return herd;
}

static struct stat look(void)
{
    struct stat found;
    CHECK_EQ(lstat(path, &found), 0);
    return found;
}

/* --- Permissions -------------------------------------------------------------------------- */

/* What a descriptor leads to, and whether it is of a herd's memory. */
static int is_of_region(int fd)
{
    char link[64], target[256];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) {
        return 0;
    }
    target[length] = '\0';
    return strstr(target, "herd-region") != NULL || strstr(target, "/dev/shm/herd-") != NULL;
}

static void modes_are_the_owners(void)
{
    int count = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct stat found;
        if (is_of_region(fd)) {
            CHECK_EQ(fstat(fd, &found), 0);
            CHECK_EQ(found.st_mode & 07777, 0600);
            CHECK_EQ(found.st_uid, geteuid());
            CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
            count++;
        }
    }
    CHECK(count >= 1);
}

/* Whatever a worker's descriptors lead to. */
static void shrink_all(void)
{
    for (int fd = 3; fd < 256; fd++) {
        if (is_of_region(fd)) {
            int cut = ftruncate(fd, 0);
            (void)cut;
        }
    }
}

static void worker_cannot_shrink_it(struct herd *herd)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *worker = NULL;
        CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
        if (geteuid() == 0) {
            CHECK_EQ(setresuid(65534, 65534, 65534), 0);
            CHECK(open(path, O_RDWR | O_CLOEXEC) < 0 && open(path, O_RDONLY | O_CLOEXEC) < 0);
        }
        shrink_all();
        CHECK_CODE(herd_run_once(worker, 0), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
    CHECK_CODE(herd_reap(herd, pid), 1);
    CHECK_EQ(total_stats(herd).reaps, 1);
}

static void others_cannot_look(void)
{
    if (geteuid() != 0) {
        return;
    }
    pid_t pid = test_fork();
    if (pid == 0) {
        char of_root[80];
        struct herd *herd = NULL;
        snprintf(of_root, sizeof of_root, "0:%s", name);
        CHECK_EQ(setresuid(65534, 65534, 65534), 0);
        CHECK_CODE(herd_open(of_root, &herd), -EACCES);
        test_exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
}

/* --- What is in its place already ---------------------------------------------------------- */

static void make_empty(const char *at, mode_t mode)
{
    int fd = open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(fchmod(fd, mode), 0);
    close(fd);
}

/* The file in its place is replaced, and not used. */
static void is_replaced(void)
{
    int code;
    struct stat before = look();
    struct herd *herd = create(&code);
    CHECK_CODE(code, 0);
    struct stat now = look();
    CHECK(now.st_ino != before.st_ino);
    CHECK_EQ(now.st_mode & 07777, 0600);
    CHECK_EQ(now.st_nlink, 1);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* It is left as it is, and there is no herd. */
static void is_refused(int wanted)
{
    int code;
    struct stat before = look();
    create(&code);
    CHECK_CODE(code, wanted);
    struct stat now = look();
    CHECK(now.st_ino == before.st_ino && now.st_size == before.st_size);
    CHECK_EQ(remove(path), 0);
}

static void what_others_have_put_there(void)
{
    make_empty(path, 0666);
    is_replaced();

    char elsewhere[160];
    snprintf(elsewhere, sizeof elsewhere, "/dev/shm/herd-test-%s", name);
    make_empty(elsewhere, 0600);
    CHECK_EQ(link(elsewhere, path), 0);
    is_replaced();
    struct stat untouched;
    CHECK_EQ(stat(elsewhere, &untouched), 0);
    CHECK_EQ(untouched.st_size, 0);

    CHECK_EQ(symlink(elsewhere, path), 0);
    is_refused(-ELOOP);
    CHECK_EQ(stat(elsewhere, &untouched), 0);
    CHECK_EQ(untouched.st_size, 0);
    CHECK_EQ(unlink(elsewhere), 0);

    CHECK_EQ(mkfifo(path, 0600), 0);
    is_refused(-EPERM);
    CHECK_EQ(mkdir(path, 0700), 0);
    is_refused(-EISDIR);
    if (geteuid() == 0) {
        make_empty(path, 0666);
        CHECK_EQ(chown(path, 65534, 65534), 0);
        int code, protects = 0;
        FILE *setting = fopen("/proc/sys/fs/protected_regular", "re");
        CHECK(setting == NULL || fscanf(setting, "%d", &protects) == 1);
        if (setting != NULL) {
            fclose(setting);
        }
        struct stat before = look();
        create(&code);
        CHECK(code == -EPERM || (protects > 0 && code == -EACCES));
        CHECK(look().st_ino == before.st_ino && look().st_size == 0);
        CHECK_EQ(unlink(path), 0);
    }
}

/* --- What is in it ------------------------------------------------------------------------- */

struct range {
    uintptr_t start, end;
};

static struct range ranges[4096];
static int range_count;

/* Returns the memory of the herd, and notes where all else is. */
static unsigned char *find_region(size_t *bytes)
{
    char line[512];
    unsigned char *region = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    range_count = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        CHECK_EQ(sscanf(line, "%lx-%lx", &start, &end), 2);
        if (strstr(line, "herd-region") != NULL || strstr(line, "/dev/shm/herd-") != NULL) {
            region = (unsigned char *)(uintptr_t)start;
            *bytes = end - start;
        }
        /* What lies lower could be a time or a count as well. */
        if ((uint64_t)start >= (uint64_t)1 << 45 && range_count < 4096) {
            ranges[range_count].start = start;
            ranges[range_count++].end = end;
        }
    }
    fclose(maps);
    CHECK(region != NULL && range_count > 4);
    return region;
}

static void nothing_of_the_process_is_in_it(void)
{
    size_t bytes = 0;
    const unsigned char *region = find_region(&bytes);
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, region + at, sizeof word);
        for (int i = 0; i < range_count; i++) {
            if (word >= ranges[i].start && word < ranges[i].end) {
                fprintf(stderr, "at %zu of %zu: the address %llx\n", at, bytes, (unsigned long long)word);
                test_exit(1);
            }
        }
    }
    for (size_t at = 0; at + sizeof SECRET <= bytes; at++) {
        CHECK(memcmp(region + at, SECRET, strlen(SECRET)) != 0);
    }
    /* Behind what it says of itself: magic, and seven numbers. */
    for (size_t at = 36; at < 128; at++) {
        CHECK_EQ(region[at], 0);
    }
}

/* What this process had on its stack before. */
__attribute__((noinline)) static void soil_the_stack(void)
{
    volatile uintptr_t dirt[4096];
    for (unsigned i = 0; i < 4096; i++) {
        dirt[i] = (uintptr_t)&dirt[i];
    }
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length,
                      void *data)
{
    (void)peer, (void)length, (void)data;
    close(fd);
    CHECK(herd_conn_closed(worker) >= 0);
}

static void serve_and_look(uint32_t mode, const char *named)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    struct herd_worker *worker = NULL;
    config.name = named;
    config.mode = mode;
    config.max_workers = 3;
    soil_the_stack();
    CHECK_CODE(herd_create(&config, &herd), 0);
    modes_are_the_owners();
    nothing_of_the_process_is_in_it();
    const char *address = address_of(herd, new_listener(herd, on_accept, herd));
    soil_the_stack();
    CHECK_CODE(herd_worker_create(herd, 1, &worker), 0);
    for (int i = 0; i < 20; i++) {
        int client = connect_try(address);
        CHECK(client >= 0);
        WAIT_UNTIL(herd_run_once(worker, 10) > 0, 10000);
        close(client);
    }
    nothing_of_the_process_is_in_it();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    nothing_of_the_process_is_in_it();
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(50);
    CHECK_EQ(setenv("HERD_SECRET", SECRET, 1), 0);
    umask(0);
    snprintf(name, sizeof name, "private-%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), name);

    int code;
    struct herd *herd = create(&code);
    CHECK_CODE(code, 0);
    struct stat file = look();
    CHECK(S_ISREG(file.st_mode) && (file.st_mode & 07777) == 0600 && file.st_nlink == 1);
    modes_are_the_owners();
    others_cannot_look();
    worker_cannot_shrink_it(herd);
    CHECK_CODE(herd_destroy(herd), 0);
    what_others_have_put_there();

    struct herd_config config = HERD_CONFIG_INIT;
    config.max_workers = 3;
    CHECK_CODE(herd_create(&config, &herd), 0);
    worker_cannot_shrink_it(herd);
    CHECK_CODE(herd_destroy(herd), 0);

    static const uint32_t all[] = {HERD_MODE_MUTEX, HERD_MODE_HANDOFF, HERD_MODE_EXCLUSIVE,
                                   HERD_MODE_REUSEPORT};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        serve_and_look(all[i], i % 2 == 0 ? name : NULL);
    }
    test_exit(0);
}
