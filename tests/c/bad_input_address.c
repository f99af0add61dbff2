/* Addresses that cannot be listened on are refused with a clear code, which the log explains; files
   of Unix sockets are replaced and removed only when that is right. */
#include "logged.h"

#include <sys/stat.h>

static struct herd *herd;
static char dir[] = "/tmp/herd-address-XXXXXX";
static pid_t maker;

/* Address and path of a file in the test's own directory. */
static const char *in_dir(const char *name)
{
    static char address[8][128];
    static unsigned next;
    char *text = address[next++ % 8];
    snprintf(text, sizeof address[0], "unix:%s/%s", dir, name);
    return text;
}

static const char *path_of(const char *address)
{
    return address + strlen("unix:");
}

static void remove_dir(void)
{
    if (getpid() == maker && chdir(dir) == 0) {
        unlink("regular");
        unlink("stale");
        unlink("live");
        unlink("link");
        rmdir(dir);
    }
}

static int listen_at(const char *address)
{
    return herd_listen(herd, address, NULL, NULL, NULL);
}

static int exists(const char *address)
{
    struct stat status;
    return lstat(path_of(address), &status) == 0;
}

static void not_addresses(void)
{
    static const char *const bad[] = {
        "", " ", ":", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:+1", "127.0.0.1:80 ", " 127.0.0.1:80", "127.0.0.1:80x", "127.0.0.1:0x50",
        "127.0.0.1:99999999999999999999", "127.0.0.1:80:80", "256.0.0.1:80", "127.0.0:80", "1.2.3.4.5:80",
        "localhost:80", "*:80", "::1:80", "[::1]", "[::1]:", "[::1:80", "::1]:80", "[::g]:80",
        "[127.0.0.1]:80", "[]:80", "tcp:127.0.0.1:80", "http://127.0.0.1:80", "unix", "unix:",
        "unix:@", "Unix:/tmp/x", "127.0.0.1:80\n", "\xff\xfe:80", "%n%n%n%s"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int code = listen_at(bad[i]);
        if (code != -EINVAL) {
            fprintf(stderr, "\"%s\": %d (%s)\n", bad[i], code, herd_strerror(code));
            test_exit(1);
        }
        /* Not the one that is no text. */
        if (bad[i][0] != '\xff') {
            check_logged(": an address is like ");
        }
    }
    CHECK_CODE(herd_listener_fd(herd, 0), -ENOENT);
}

static void bad_options(void)
{
    struct herd_listen_options options = HERD_LISTEN_OPTIONS_INIT;
    options.flags = ~(uint32_t)HERD_LISTEN_DUAL_STACK;
    CHECK_CODE(herd_listen(herd, in_dir("live"), &options, NULL, NULL), -EINVAL);
    check_logged(": flags 0xfffffffe, unix_mode 00");
    options.flags = 0;
    options.unix_mode = 01000;
    CHECK_CODE(herd_listen(herd, in_dir("live"), &options, NULL, NULL), -EINVAL);
    check_logged(": flags 0x0, unix_mode 01000");
    CHECK(!exists(in_dir("live")));
}

static void taken_and_foreign(void)
{
    int listener = listen_at("127.0.0.1:0");
    CHECK(listener >= 0);
    CHECK_CODE(listen_at(address_of(herd, listener)), -EADDRINUSE);
    CHECK_CODE(listen_at("192.0.2.1:0"), -EADDRNOTAVAIL);
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    CHECK_CODE(herd_remove_listener(herd, listener), -ENOENT);
    static const int nobodys[] = {-1, 1, 1000, 70000, INT32_MAX, INT32_MIN};
    char text[8];
    for (size_t i = 0; i < 6; i++) {
        CHECK_CODE(herd_remove_listener(herd, nobodys[i]), -ENOENT);
        CHECK_CODE(herd_listener_fd(herd, nobodys[i]), -ENOENT);
        CHECK_CODE(herd_listener_address(herd, nobodys[i], text, sizeof text), -ENOENT);
    }
    /* Not -EBUSY, as for one that a worker uses. */
    struct herd_worker *worker;
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
    CHECK_CODE(herd_remove_listener(herd, 1000), -ENOENT);
    CHECK_CODE(herd_worker_destroy(worker), 0);

    char name[64];
    snprintf(name, sizeof name, "unix:@herd-test-%d", (int)getpid());
    listener = listen_at(name);
    CHECK(listener >= 0);
    CHECK(strcmp(address_of(herd, listener), name) == 0);
    CHECK_CODE(listen_at(name), -EADDRINUSE);
    close(connect_to(name));
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    CHECK_EQ(connect_try(name), -ECONNREFUSED);
}

/* A process without rights, whoever runs the test. */
static void permission(void)
{
    pid_t child = test_fork();
    if (child == 0) {
        CHECK(geteuid() != 0 || (setegid(65534) == 0 && seteuid(65534) == 0));
        CHECK(geteuid() == getuid() || geteuid() == 65534);
        CHECK(chmod(dir, 0555) == 0 || errno == EPERM);
        CHECK_CODE(listen_at(in_dir("live")), -EACCES);
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);
    CHECK_EQ(chmod(dir, 0755), 0);
}

static void unix_paths(void)
{
    char path[256] = "unix:";
    /* sun_path has 108 bytes, its last one is the NUL. Relative, so that the length is exact. */
    CHECK_EQ(chdir(dir), 0);
    memset(path + 5, 'x', 108);
    CHECK_CODE(listen_at(path), -ENAMETOOLONG);
    path[5 + 107] = '\0';
    int listener = listen_at(path);
    CHECK(listener >= 0);
    CHECK(exists(path));
    close(connect_to(address_of(herd, listener)));
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    CHECK(!exists(path));
    memset(path + 5, '@', 1);
    memset(path + 6, 'x', 108);
    CHECK_CODE(listen_at(path), -ENAMETOOLONG);

    CHECK_CODE(listen_at(in_dir("missing/socket")), -ENOENT);
    CHECK_CODE(listen_at("unix:/dev/null/socket"), -ENOTDIR);
    CHECK_CODE(listen_at("unix:/tmp"), -EADDRINUSE);

    struct herd_listen_options options = HERD_LISTEN_OPTIONS_INIT;
    struct stat status;
    options.unix_mode = 0620;
    listener = herd_listen(herd, in_dir("mode"), &options, NULL, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(stat(path_of(in_dir("mode")), &status), 0);
    CHECK_EQ(status.st_mode & 0777, 0620);
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
}

static void unix_files(void)
{
    leave_stale_socket(path_of(in_dir("stale")));
    int stale = listen_at(in_dir("stale"));
    CHECK(stale >= 0);
    close(connect_to(in_dir("stale")));

    int live = listen_at(in_dir("live"));
    CHECK(live >= 0);
    CHECK_CODE(listen_at(in_dir("live")), -EADDRINUSE);
    close(connect_to(in_dir("live")));

    FILE *regular = fopen(path_of(in_dir("regular")), "we");
    CHECK(regular != NULL && fputs("precious", regular) >= 0 && fclose(regular) == 0);
    CHECK_CODE(listen_at(in_dir("regular")), -EADDRINUSE);
    struct stat status;
    CHECK_EQ(stat(path_of(in_dir("regular")), &status), 0);
    CHECK_EQ(status.st_size, 8);

    /* A link stays, and what it leads to stays as well. */
    CHECK_EQ(symlink("live", path_of(in_dir("link"))), 0);
    CHECK_CODE(listen_at(in_dir("link")), -EADDRINUSE);
    CHECK(exists(in_dir("link")));
    close(connect_to(in_dir("live")));

    /* The file belongs to the process that made it. */
    pid_t child = test_fork();
    if (child == 0) {
        CHECK_CODE(herd_remove_listener(herd, stale), 0);
        CHECK_CODE(herd_destroy(herd), 0);
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);
    CHECK(exists(in_dir("stale")));
    CHECK(exists(in_dir("live")));
    close(connect_to(in_dir("live")));
    CHECK_CODE(herd_remove_listener(herd, stale), 0);
    CHECK(!exists(in_dir("stale")));
}

static void buffers(int listener)
{
    char text[128], again[128];
    memset(text, 'x', sizeof text);
    int length = herd_listener_address(herd, listener, text, sizeof text);
    CHECK(length > 0);
    CHECK_EQ(strlen(text), length);
    CHECK_EQ(text[length + 1], 'x');
    memset(again, 'x', sizeof again);
    for (int bytes = 0; bytes <= length; bytes++) {
        CHECK_CODE(herd_listener_address(herd, listener, again, (size_t)bytes), -ENOSPC);
        CHECK_EQ(again[0], 'x');
    }
    CHECK_EQ(herd_listener_address(herd, listener, again, (size_t)length + 1), length);
    CHECK(strcmp(again, text) == 0);
    CHECK_EQ(again[length + 1], 'x');
}

int main(void)
{
    test_begin(30);
    int fds = open_fds();
    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(chmod(dir, 0755), 0);
    maker = getpid();
    atexit(remove_dir);
    herd = new_logging_herd(HERD_MODE_MUTEX);
    not_addresses();
    bad_options();
    /* What the herd keeps for its listeners comes with the first one. */
    taken_and_foreign();
    int herd_fds = open_fds();
    taken_and_foreign();
    permission();
    unix_paths();
    CHECK_EQ(open_fds(), herd_fds);
    unix_files();
    buffers(new_listener(herd, NULL, NULL));
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK(!exists(in_dir("live")));
    CHECK(exists(in_dir("regular")));
    CHECK_EQ(open_fds(), fds);
    return 0;
}
