/* A Unix socket's relative path means the file in the folder where herd_listen was called: clients get the
 * whole path, and the file goes with its listener when the process has changed to another folder, where a
 * file of the same name stays. So it is where the whole path does not fit into a socket's name, and without
 * the right to search the folders above. */
#include "check.h"

#include "clients.h"

#include <sys/stat.h>

static char dir[64] = "/tmp/herd-chdir-XXXXXX";
static char long_name[101];
static pid_t maker;
static struct herd *herd;

static void remove_dir(void)
{
    if (getpid() == maker && chdir(dir) == 0) {
        unlink("a/s");
        unlink("b/s");
        if (chdir(long_name) == 0) {
            unlink("s");
            CHECK_EQ(chdir(dir), 0);
        }
        rmdir(long_name);
        rmdir("a");
        rmdir("b");
        rmdir(dir);
    }
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fclose(file) == 0);
}

static void enter(const char *folder)
{
    CHECK_EQ(chdir(dir), 0);
    CHECK_EQ(chdir(folder), 0);
}

static int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int listen_here(void)
{
    int listener = herd_listen(herd, "unix:s", NULL, NULL, NULL);
    CHECK(listener >= 0);
    CHECK(exists("s"));
    return listener;
}

static void the_path_is_whole(void)
{
    char whole[128];
    enter("a");
    int listener = listen_here();
    enter("b");
    write_file("s");
    snprintf(whole, sizeof whole, "unix:%s/a/s", dir);
    CHECK(strcmp(address_of(herd, listener), whole) == 0);
    close(connect_to(whole));
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    CHECK(exists("s") && !exists("../a/s"));
}

static void anothers_file_stays(void)
{
    enter("a");
    int listener = listen_here();
    enter("b");
    CHECK_EQ(rename("s", "../a/s"), 0);
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    CHECK(exists("../a/s"));
    CHECK_EQ(unlink("../a/s"), 0);
}

static void too_long_for_a_socket(void)
{
    enter(long_name);
    int listener = listen_here();
    CHECK(strcmp(address_of(herd, listener), "unix:s") == 0);
    close(connect_to("unix:s"));
    CHECK_EQ(chdir("/"), 0);
    CHECK_CODE(herd_remove_listener(herd, listener), 0);
    enter(long_name);
    CHECK(!exists("s"));
}

static void above_may_not_be_searched(void)
{
    pid_t child = test_fork();
    if (child == 0) {
        CHECK_EQ(chmod(dir, 0700), 0);
        enter("a");
        CHECK_EQ(chmod(".", 0777), 0);
        if (geteuid() == 0) {
            CHECK(setegid(65534) == 0 && seteuid(65534) == 0);
        } else {
            CHECK_EQ(chmod(dir, 0), 0);
        }
        int listener = listen_here();
        CHECK_CODE(herd_remove_listener(herd, listener), 0);
        CHECK(!exists("s"));
        test_exit(0);
    }
    CHECK_EQ(test_join(child), 0);
    CHECK_EQ(chmod(dir, 0755), 0);
}

static void missing_folders(void)
{
    enter("a");
    CHECK_CODE(herd_listen(herd, "unix:missing/s", NULL, NULL, NULL), -ENOENT);
    write_file("s");
    CHECK_CODE(herd_listen(herd, "unix:s/s", NULL, NULL, NULL), -ENOTDIR);
    CHECK_EQ(unlink("s"), 0);
}

int main(void)
{
    test_begin(30);
    CHECK(mkdtemp(dir) != NULL);
    maker = getpid();
    atexit(remove_dir);
    memset(long_name, 'x', sizeof long_name - 1);
    CHECK_EQ(chdir(dir), 0);
    CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mkdir(long_name, 0755) == 0);
    herd = new_herd(HERD_MODE_MUTEX, 2);
    the_path_is_whole();
    anothers_file_stays();
    too_long_for_a_socket();
    above_may_not_be_searched();
    missing_folders();
    enter("a");
    listen_here();
    CHECK_EQ(chdir("/"), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    enter("a");
    CHECK(!exists("s"));
    test_exit(0);
}
