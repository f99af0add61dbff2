/* R36: with a shared-memory file system of 4 KiB, as in small containers, a herd of 64 slots works or
 * is refused with -ENOMEM; never a SIGBUS. */
#include "serve.h"

#include <sched.h>
#include <sys/mount.h>

static int files_in_shm(void)
{
    int files = 0;
    struct dirent *entry;
    DIR *folder = opendir("/dev/shm");
    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        files += entry->d_name[0] != '.';
    }
    closedir(folder);
    return files;
}

int main(void)
{
    test_begin(50);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k") != 0) {
        test_skip("needs a mount namespace of its own");
    }
    struct herd_config config = HERD_CONFIG_INIT;
    config.max_workers = 64;
    struct herd *herd;
    /* One with a name is a file there: refused, and nothing is left of it. */
    config.name = "small";
    CHECK_CODE(herd_create(&config, &herd), -ENOMEM);
    CHECK_EQ(files_in_shm(), 0);
    config.name = NULL;
    int code = herd_create(&config, &herd);
    if (code == -ENOMEM) {
        test_exit(0);
    }
    CHECK_CODE(code, 0);
    CHECK_CODE(herd_destroy(herd), 0);
    /* The slots at both ends of the region. */
    serve_prepare(&config, 64);
    serve_fork(0);
    serve_fork(63);
    serve_settle();
    int slot;
    close(serve_connect(&slot));
    serve_end();
    test_exit(0);
}
