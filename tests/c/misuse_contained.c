/* What a host does against the rules is answered or dropped, and harms no other worker. */
#include "check.h"

#include <sys/resource.h>
#include <sys/stat.h>

static int runs;

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)worker;
    (void)event;
    (void)ready;
    runs++;
}

/* An event that is in use at one worker is posted to another from outside. */
static void posted_to_the_wrong_worker(void)
{
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    struct herd_worker *owner = new_worker(herd), *other = new_worker(herd);
    struct herd_event events[3];
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(herd_event_init(&events[i], on_event, NULL), 0);
        CHECK_CODE(herd_post(owner, &events[i], HERD_POSTED_NEXT), 1);
        CHECK_CODE(herd_post_remote(other, &events[i]), 1);
    }
    runs = 0;
    CHECK_CODE(herd_run_once(other, 0), 0);
    CHECK_EQ(runs, 0);
    CHECK_EQ(herd_posted_count(owner, HERD_POSTED_NEXT), 3);
    CHECK_CODE(herd_run_once(owner, 0), 3);
    CHECK_EQ(runs, 3);
    CHECK_CODE(herd_worker_destroy(owner), 0);
    CHECK_CODE(herd_worker_destroy(other), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Deleting an event promises that it may be freed, so it is refused while another worker has it. */
static void deleted_while_posted_elsewhere(void)
{
    struct herd *herd = new_herd(HERD_MODE_MUTEX, 2);
    struct herd_worker *owner = new_worker(herd), *other = new_worker(herd);
    struct herd_event event;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_CODE(herd_event_add(owner, &event, ends[0], HERD_READ), 0);
    CHECK_CODE(herd_post_remote(other, &event), 1);
    CHECK_CODE(herd_event_del(owner, &event), -EBUSY);
    CHECK_CODE(herd_run_once(other, 0), 0);
    CHECK_CODE(herd_event_del(owner, &event), 0);
    close(ends[0]);
    close(ends[1]);
    CHECK_CODE(herd_worker_destroy(owner), 0);
    CHECK_CODE(herd_worker_destroy(other), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static int *accepted;

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer,
                      uint32_t peer_length, void *data)
{
    (void)peer;
    (void)peer_length;
    (void)data;
    SHARED_SET(*accepted, 1);
    close(fd);
    herd_conn_closed(worker);
}

/* A holder that makes turns but never accepts and never gives the right up loses it. */
static void right_never_given_up(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    config.accept_delay_ms = 200;
    CHECK_CODE(herd_create(&config, &herd), 0);
    int listener = new_listener(herd, on_accept, NULL);
    accepted = (int *)shared_memory(sizeof *accepted);
    pid_t spinning = test_fork();
    if (spinning == 0) {
        struct herd_worker *worker = new_worker(herd);
        CHECK_CODE(herd_trylock(worker), 1);
        for (;;) {
            herd_process_events(worker, -1, HERD_POST_EVENTS);
        }
    }
    WAIT_UNTIL(total_stats(herd).acquisitions == 1, 5000);
    pid_t good = test_fork();
    if (good == 0) {
        herd_run(new_worker(herd));
        _exit(0);
    }
    WAIT_UNTIL(total_stats(herd).workers == 2, 5000);
    int client = connect_to(address_of(herd, listener));
    WAIT_UNTIL(SHARED_GET(*accepted) == 1, 5000);
    close(client);
    kill(spinning, SIGKILL);
    kill(good, SIGKILL);
    test_join(spinning);
    test_join(good);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* The host closes every descriptor it finds, the library's epoll set among them. */
static void epoll_set_closed(void)
{
    struct herd *herd = new_herd(HERD_MODE_EXCLUSIVE, 2);
    int before = open_fds();
    struct herd_worker *worker = new_worker(herd);
    CHECK_CODE(herd_run_once(worker, 0), 0);
    CHECK_EQ(open_fds(), before + 1);
    for (int fd = 3; fd < 100; fd++) {
        char link[64], path[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = '\0';
        if (strcmp(path, "anon_inode:[eventpoll]") == 0) {
            close(fd);
        }
    }
    CHECK_CODE(herd_run_once(worker, 0), -EBADF);
    CHECK_CODE(herd_run_once(worker, 0), HERD_EPOISONED);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* The kernel would send SIGXFSZ. */
static void file_size_limit(void)
{
    struct rlimit limit, none;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    struct herd *herd = NULL;
    int fds = open_fds();
    CHECK_CODE(herd_create(NULL, &herd), -EFBIG);
    CHECK(herd == NULL);
    CHECK_EQ(open_fds(), fds);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A holder of the accept right accepts for all, so its listeners must be everybody's. */
static void listeners_changed_under_workers(void)
{
    static const uint32_t modes[] = { HERD_MODE_MUTEX, HERD_MODE_EXCLUSIVE, HERD_MODE_REUSEPORT,
                                      HERD_MODE_HANDOFF };
    for (int i = 0; i < 4; i++) {
        struct herd *herd = new_herd(modes[i], 2);
        CHECK(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) == 0);
        pid_t child = test_fork();
        if (child == 0) {
            new_worker(herd);
            for (;;) {
                pause();
            }
        }
        WAIT_UNTIL(total_stats(herd).workers == 1, 5000);
        int refused = modes[i] == HERD_MODE_MUTEX || modes[i] == HERD_MODE_HANDOFF;
        CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL), refused ? -EBUSY : 1);
        CHECK_CODE(herd_remove_listener(herd, 0), refused ? -EBUSY : 0);
        kill(child, SIGKILL);
        test_join(child);
        CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL), refused ? 1 : 0);
        CHECK_CODE(herd_destroy(herd), 0);
    }
}

/* A child that was forked before a listener was added would hold the right without it. */
static void forked_before_listening(void)
{
    static struct herd *herd; /* the child ends without giving it back: that is no leak */
    herd = new_herd(HERD_MODE_MUTEX, 2);
    int *go = (int *)shared_memory(sizeof *go);
    pid_t child = test_fork();
    if (child == 0) {
        struct herd_worker *worker = NULL;
        WAIT_UNTIL(SHARED_GET(*go) == 1, 5000);
        CHECK_CODE(herd_worker_create(herd, 0, &worker), -ESTALE);
        _exit(0);
    }
    CHECK_CODE(herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL), 0);
    SHARED_SET(*go, 1);
    CHECK_EQ(test_join(child), 0);
    CHECK_CODE(herd_worker_destroy(new_worker(herd)), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

/* Another server has put its own socket in the place. */
static void socket_file_of_another(void)
{
    char path[64], address[80];
    struct stat before, after;
    snprintf(path, sizeof path, "/tmp/herd-misuse-%d.sock", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    struct herd *old = new_herd(HERD_MODE_MUTEX, 2), *new = new_herd(HERD_MODE_MUTEX, 2);
    CHECK_CODE(herd_listen(old, address, NULL, NULL, NULL), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_CODE(herd_listen(new, address, NULL, NULL, NULL), 0);
    CHECK_EQ(stat(path, &before), 0);
    CHECK_CODE(herd_destroy(old), 0);
    CHECK_EQ(stat(path, &after), 0);
    CHECK_EQ(before.st_ino, after.st_ino);
    CHECK_CODE(herd_destroy(new), 0);
    CHECK_EQ(stat(path, &after), -1);
}

int main(void)
{
    test_begin(50);
    posted_to_the_wrong_worker();
    deleted_while_posted_elsewhere();
    right_never_given_up();
    epoll_set_closed();
    file_size_limit();
    listeners_changed_under_workers();
    forked_before_listening();
    socket_file_of_another();
    test_exit(0);
}
