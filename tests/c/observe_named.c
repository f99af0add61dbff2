/* A herd that has a name is seen by processes that are not of it, while it runs and after all of it
 * has died; its name is never taken from it while one of its processes lives, and taken afterwards. */
#include "serve.h"

#include <sys/stat.h>

enum { workers = 3 };

static char name[64], path[128];
static char last_error[256];

static void on_log(void *log_data, int level, const char *message)
{
    (void)log_data;
    if (level == HERD_LOG_ERROR) {
        snprintf(last_error, sizeof last_error, "%s", message);
    }
}

static struct herd_config named(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.name = name;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = workers;
    config.log = on_log;
    return config;
}

static struct herd *opened(void)
{
    struct herd *observer = NULL;
    CHECK_CODE(herd_open(name, &observer), 0);
    return observer;
}

static void name_is_taken(void)
{
    struct herd_config config = named();
    struct herd *second = NULL;
    int fds = open_fds();
    last_error[0] = '\0';
    CHECK_CODE(herd_create(&config, &second), -EADDRINUSE);
    CHECK(second == NULL);
    CHECK(strstr(last_error, name) != NULL && strstr(last_error, path) != NULL);
    CHECK_EQ(open_fds(), fds);
}

/* What only the herd's processes may do. */
static void observer_only_looks(struct herd *observer)
{
    char text[64];
    struct herd_worker *worker = NULL;
    CHECK_CODE(herd_listen(observer, "127.0.0.1:0", NULL, NULL, NULL), HERD_EOBSERVER);
    CHECK_CODE(herd_add_listener(observer, 0, NULL, NULL), HERD_EOBSERVER);
    CHECK_CODE(herd_remove_listener(observer, 0), HERD_EOBSERVER);
    CHECK_CODE(herd_listener_address(observer, 0, text, sizeof text), HERD_EOBSERVER);
    CHECK_CODE(herd_listener_fd(observer, 0), HERD_EOBSERVER);
    CHECK_CODE(herd_reap(observer, 1), HERD_EOBSERVER);
    CHECK_CODE(herd_worker_alive(observer, 0), HERD_EOBSERVER);
    CHECK_CODE(herd_free_slots(observer), HERD_EOBSERVER);
    CHECK_CODE(herd_worker_create(observer, HERD_ANY_SLOT, &worker), HERD_EOBSERVER);
    CHECK(worker == NULL);
    struct herd_stats stats = total_stats(observer);
    CHECK_CODE(herd_stats_worker(observer, workers, &stats), -EINVAL);
    CHECK_CODE(herd_stats_worker(observer, -1, &stats), -EINVAL);
}

static void while_it_runs(const struct serve_apart *server)
{
    struct stat file;
    CHECK_EQ(stat(path, &file), 0);
    CHECK_EQ(file.st_mode & 07777, 0600);
    CHECK_EQ(file.st_uid, geteuid());

    struct herd *observer = opened();
    CHECK_CODE(herd_is_alive(observer), 1);
    CHECK_EQ(herd_mode(observer), HERD_MODE_MUTEX);
    CHECK_EQ(herd_balance(observer), HERD_BALANCE_SPREAD);
    CHECK_EQ(herd_slots(observer), workers);
    CHECK_EQ(total_stats(observer).workers, workers);
    for (int slot = 0; slot < workers; slot++) {
        CHECK_EQ(slot_stats(observer, slot).pid, server->workers[slot]);
        WAIT_UNTIL(slot_stats(observer, slot).state == HERD_STATE_IDLE, 10000);
    }
    int client = connect_to(server->address);
    WAIT_UNTIL(total_stats(observer).connections_open == 1, 10000);
    CHECK_EQ(total_stats(observer).accepted, 1);
    WAIT_UNTIL(total_stats(observer).holder >= 0, 10000);
    observer_only_looks(observer);
    name_is_taken();
    close(client);
    WAIT_UNTIL(total_stats(observer).closed == 1, 10000);
    CHECK_CODE(herd_destroy(observer), 0);
    CHECK_CODE(herd_is_alive(observer = opened()), 1);
    CHECK_CODE(herd_destroy(observer), 0);
}

static void by_others(void)
{
    struct herd *observer = NULL;
    char text[96];
    CHECK_CODE(herd_open("no-herd-has-this-name", &observer), -ENOENT);
    static const char *const bad[] = {"", ":", "0:", ":web", "a/b", "../herd", "x:web", "-1:web"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_CODE(herd_open(bad[i], &observer), -EINVAL);
    }
    snprintf(text, sizeof text, "%u:%s", (unsigned)geteuid(), name);
    CHECK_CODE(herd_open(text, &observer), 0);
    CHECK_CODE(herd_destroy(observer), 0);
    if (geteuid() != 0) {
        return;
    }
    pid_t pid = test_fork();
    if (pid == 0) {
        CHECK_EQ(setuid(65534), 0);
        CHECK_CODE(herd_open(name, &observer), -ENOENT); /* its own of this name */
        CHECK_CODE(herd_open(text, &observer), -EACCES);
        test_exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
}

/* A worker that opens and closes its own herd's name must not lose the mark that it lives. */
static void a_worker_may_look_at_its_herd(void)
{
    struct herd_config config = named();
    struct herd *herd = NULL, *observer;
    unsigned *has_looked = (unsigned *)shared_memory(sizeof *has_looked);
    CHECK_CODE(herd_create(&config, &herd), 0);
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *worker = new_worker(herd);
        observer = opened();
        CHECK_EQ(total_stats(observer).workers, 1);
        CHECK_CODE(herd_destroy(observer), 0);
        name_is_taken();
        SHARED_SET(*has_looked, 1u);
        CHECK(herd_run(worker) == 0);
        test_exit(0);
    }
    /* A failed check in the child ends it: then the flag does not come. */
    WAIT_UNTIL(SHARED_GET(*has_looked) || test_ended(pid), 10000);
    CHECK(SHARED_GET(*has_looked));
    CHECK_CODE(herd_reap(herd, pid), 0);
    CHECK_EQ(total_stats(herd).reaps, 0);
    CHECK_EQ(total_stats(herd).workers, 1);
    kill(pid, SIGKILL);
    CHECK_EQ(test_join(pid), 1000 + SIGKILL); /* and not earlier, by a failure of its own */
    CHECK_CODE(herd_reap(herd, pid), 1);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(access(path, F_OK), -1); /* the last one took it along */
}

int main(void)
{
    test_begin(55);
    snprintf(name, sizeof name, "observe-%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/herd-%u-%s", (unsigned)geteuid(), name);
    struct herd_config config = named();
    struct serve_apart *server = serve_start_apart(&config, workers);
    while_it_runs(server);
    by_others();

    /* All but one worker die, then it as well. The herd is alive until then. The workers are killed
     * through their parent's death or by hand: prctl(2), PR_SET_PDEATHSIG. */
    struct herd *observer = opened();
    kill(server->workers[0], SIGKILL);
    kill(server->workers[1], SIGKILL);
    CHECK_CODE(herd_is_alive(observer), 1);
    name_is_taken();
    kill(server->workers[2], SIGKILL);
    CHECK_CODE(herd_is_alive(observer), 1); /* the parent is left */
    CHECK_EQ(total_stats(observer).accepted, 1);
    name_is_taken();
    test_kill(server->pid);
    WAIT_UNTIL(herd_is_alive(observer) == 0, 10000);
    CHECK_EQ(total_stats(observer).accepted, 1);
    struct herd *late = opened();
    CHECK_CODE(herd_is_alive(late), 0);
    CHECK_EQ(total_stats(late).accepted, 1);
    CHECK_CODE(herd_destroy(late), 0);

    /* Another herd replaces it, and who looked at the old one still sees the old one. */
    server = serve_start_apart(&config, workers);
    CHECK_EQ(total_stats(observer).accepted, 1);
    CHECK_CODE(herd_is_alive(observer), 0);
    late = opened();
    CHECK_EQ(total_stats(late).accepted, 0);
    CHECK_EQ(total_stats(late).workers, workers);
    CHECK_CODE(herd_destroy(late), 0);
    CHECK_CODE(herd_destroy(observer), 0);
    serve_kill_apart(server);
    observer = opened();
    WAIT_UNTIL(herd_is_alive(observer) == 0, 10000);
    CHECK_CODE(herd_destroy(observer), 0);
    a_worker_may_look_at_its_herd();
    unlink(path);
    test_exit(0);
}
