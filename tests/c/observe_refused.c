/* Whatever else than a herd's file has a herd's name is refused, by herd_open with the code that its
 * comment in herd.h names; nothing stays open and nothing is stored. herd_create refuses it as well. */
#include "check.h"

#include <sys/resource.h>
#include <sys/stat.h>

static char name[64], path[128];

static void opens_with(int code)
{
    struct herd *observer = NULL;
    int fds = open_fds();
    CHECK_CODE(herd_open(name, &observer), code);
    CHECK(observer == NULL);
    CHECK_EQ(open_fds(), fds);
}

static void refused(int open_code, int create_code)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    opens_with(open_code);
    config.name = name;
    int fds = open_fds();
    CHECK_CODE(herd_create(&config, &herd), create_code);
    CHECK(herd == NULL);
    CHECK_EQ(open_fds(), fds);
}

static void put_file(const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

int main(void)
{
    test_begin(20);
    snprintf(name, sizeof name, "refused-%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), name);
    opens_with(-ENOENT);
    leave_stale_socket(path);
    refused(-ENXIO, -ENXIO);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(symlink("/etc/passwd", path), 0);
    refused(-ELOOP, -ELOOP);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(mkdir(path, 0700), 0);
    refused(-EPERM, -EISDIR);
    CHECK_EQ(rmdir(path), 0);
    CHECK_EQ(mkfifo(path, 0600), 0);
    refused(-EPERM, -EPERM);
    CHECK_EQ(unlink(path), 0);
    put_file("");
    opens_with(-ENOENT); /* as if it were just being made */
    put_file("no herd's, and shorter than one");
    opens_with(HERD_EDAMAGED);

    struct rlimit limit, none;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    struct herd *observer = NULL;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    int code = herd_open(name, &observer);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_CODE(code, -EMFILE);

    if (geteuid() == 0) {
        CHECK_EQ(chown(path, 65534, 65534), 0);
        opens_with(-EPERM); /* another user's file with this user's name */
        CHECK_EQ(chown(path, 0, 0), 0);
        pid_t pid = test_fork();
        if (pid == 0) {
            char text[96];
            snprintf(text, sizeof text, "0:%s", name);
            CHECK_EQ(setuid(65534), 0);
            CHECK_CODE(herd_open(text, &observer), -EACCES);
            test_exit(0);
        }
        CHECK_EQ(test_join(pid), 0);
    }
    CHECK_EQ(unlink(path), 0);
    test_exit(0);
}
