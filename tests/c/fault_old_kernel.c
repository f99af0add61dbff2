/* On a kernel that lacks what the library needs (or whose calls are filtered), herd_create says so, and with
 * which call, and leaves nothing behind; not the first worker. Without EPOLLEXCLUSIVE it works. */
#include "inject.h"

static const struct lack {
    int call;
    int error;
    int code;
    const char *named;
} lacks[] = {
    /* First, since a process does it once. */
    {FAULT_MADVISE, EINVAL, -ENOSYS, "madvise MADV_WIPEONFORK (Linux 4.14)"},
    {FAULT_MADVISE, EPERM, -EPERM, "madvise MADV_WIPEONFORK"},
    {FAULT_EVENTFD, ENOSYS, -ENOSYS, "eventfd"},
    {FAULT_EPOLL_CREATE1, ENOSYS, -ENOSYS, "epoll"},
    {FAULT_EPOLL_ADD, EPERM, -EPERM, "epoll"},
    {FAULT_MEMFD_CREATE, ENOSYS, -ENOSYS, "memfd_create"},
    {FAULT_FALLOCATE, EOPNOTSUPP, -EOPNOTSUPP, "fallocate"},
    {FAULT_TIMERFD_CREATE, ENOSYS, -ENOSYS, "timerfd_create"},
    {FAULT_SOCKETPAIR, ENOSYS, -ENOSYS, "socketpair"},
};

static char last_error[256];

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    if (level == HERD_LOG_ERROR) {
        snprintf(last_error, sizeof last_error, "%s", message);
    }
}

static int create(struct herd **herd)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_HANDOFF; /* it needs most */
    config.max_workers = 2;
    config.log = on_log;
    last_error[0] = '\0';
    return herd_create(&config, herd);
}

int main(int argc, char **argv)
{
    struct herd *herd = NULL;
    (void)argc;
    test_begin(50);
    inject_begin(argv);
    CHECK_CODE(herd_create(NULL, NULL), -EINVAL); /* makes what it keeps for panics */
    int fds = open_fds();
    long blocks = shim->blocks;
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        const struct lack *lack = &lacks[i];
        arm(lack->call, lack->error, 0, 1);
        CHECK_CODE(create(&herd), lack->code);
        CHECK_EQ(script->hits, 1);
        CHECK(herd == NULL);
        if (strstr(last_error, "create: ") == NULL || strstr(last_error, lack->named) == NULL ||
            strstr(last_error, herd_strerror(lack->code)) == NULL) {
            fprintf(stderr, "%s: '%s' does not name it\n", lack->named, last_error);
            test_exit(1);
        }
        CHECK_EQ(open_fds(), fds);
        CHECK_EQ(shim->blocks, blocks);
    }
    arm(FAULT_EPOLL_ADD, EINVAL, 0, 1);
    CHECK_CODE(create(&herd), 0);
    CHECK_EQ(script->hits, 1);
    CHECK(last_error[0] == '\0');
    new_listener(herd, NULL, NULL);
    CHECK_CODE(herd_worker_destroy(new_worker(herd)), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    test_exit(0);
}
