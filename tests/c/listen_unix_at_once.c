/* Of two processes that listen on one Unix socket's path at once one gets it, whose clients come through, and
 * the other is told that it is in use: when both find the file of a server that crashed, and when the first
 * has made its file and does not listen yet. A folder that another program keeps locked holds nobody up for
 * good. */
#include "preload.h"

#include "clients.h"
#include "listen_script.h"

#include <sys/file.h>

static char dir[] = "/tmp/herd-at-once-XXXXXX";
static char address[64];
static pid_t maker;
static struct listen_script *script;
static struct {
    int is_paused, fast_waits, fast_is_done, codes_known, codes[2], is_over;
} *shared;

static const char *path(void)
{
    return address + strlen("unix:");
}

static void remove_dir(void)
{
    if (getpid() == maker) {
        unlink(path());
        rmdir(dir);
    }
}

/* The slow one stands where it is until the fast one has listened, or waits for it to go on. */
static void let_the_fast_one_go(void)
{
    SHARED_SET(shared->is_paused, 1);
    WAIT_UNTIL(SHARED_GET(shared->fast_waits) || SHARED_GET(shared->fast_is_done), 20000);
}

static void note_wait(void)
{
    SHARED_SET(shared->fast_waits, 1);
}

static pid_t start(int number)
{
    pid_t pid = test_fork();
    if (pid != 0) {
        return pid;
    }
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    if (number == 1) {
        memset(script, 0, sizeof *script);
        script->lock_is_taken = note_wait;
        WAIT_UNTIL(SHARED_GET(shared->is_paused), 20000);
    }
    shared->codes[number] = herd_listen(herd, address, NULL, NULL, NULL);
    memset(script, 0, sizeof *script);
    if (number == 1) {
        SHARED_SET(shared->fast_is_done, 1);
    }
    SHARED_ADD(shared->codes_known, 1);
    WAIT_UNTIL(SHARED_GET(shared->is_over), 20000);
    CHECK_CODE((herd_destroy)(herd), 0); /* clients that nobody has accepted */
    test_exit(0);
}

/* The slow one stops before the call that the script says. */
static void one_gets_it(int winner)
{
    memset(shared, 0, sizeof *shared);
    pid_t slow = start(0), fast = start(1);
    memset(script, 0, sizeof *script);
    WAIT_UNTIL(SHARED_GET(shared->codes_known) == 2, 20000);
    CHECK_CODE(shared->codes[winner], 0);
    CHECK_CODE(shared->codes[!winner], -EADDRINUSE);
    close(connect_to(address));
    SHARED_SET(shared->is_over, 1);
    CHECK_EQ(test_join(slow), 0);
    CHECK_EQ(test_join(fast), 0);
    CHECK(access(path(), F_OK) < 0);
}

static void locked_for_good(void)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(flock(folder, LOCK_EX), 0);
    leave_stale_socket(path());
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    CHECK_CODE(herd_listen(herd, address, NULL, NULL, NULL), 0);
    close(connect_to(address));
    /* What is in use it does not wait for. */
    script->lock_is_taken = note_wait;
    shared->fast_waits = 0;
    CHECK_CODE(herd_listen(herd, address, NULL, NULL, NULL), -EADDRINUSE);
    CHECK_EQ(shared->fast_waits, 0);
    CHECK_CODE((herd_destroy)(herd), 0);
    close(folder);
}

int main(int argc, char **argv)
{
    (void)argc;
    test_begin(50);
    preload("preload_listen", argv);
    script = (struct listen_script *)dlsym(RTLD_DEFAULT, "listen_script");
    CHECK(script != NULL);
    shared = shared_memory(sizeof *shared);
    CHECK(mkdtemp(dir) != NULL);
    snprintf(address, sizeof address, "unix:%s/socket", dir);
    maker = getpid();
    atexit(remove_dir);

    leave_stale_socket(path());
    script->before_unlink = let_the_fast_one_go;
    one_gets_it(0);
    script->before_listen = let_the_fast_one_go;
    one_gets_it(0);
    locked_for_good();
    test_exit(0);
}
