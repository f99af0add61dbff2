/* R20: mode exclusive behind a polled descriptor is refused, with an error that names what to use. And
   every call that does not go with who waits gets an error and changes nothing. */
#include "logged.h"

#include <sys/epoll.h>

static void on_event(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)event;
    (void)ready;
    CHECK_CODE(herd_check(worker), HERD_EREENTERED);
    CHECK_CODE(herd_prepare(worker, 0), HERD_EREENTERED);
    CHECK_CODE(herd_attach_epoll(worker, 0, 0), HERD_EREENTERED);
}

static int new_epoll(void)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(epfd >= 0);
    return epfd;
}

static void check_waits_itself(struct herd_worker *worker)
{
    CHECK_CODE(herd_prepare(worker, 0), HERD_EHOSTLOOP);
    CHECK_CODE(herd_check(worker), HERD_EHOSTLOOP);
    CHECK(herd_run_once(worker, 0) >= 0);
}

static void check_host_waits(struct herd_worker *worker)
{
    struct herd_event event;
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_CODE(herd_event_add(worker, &event, pipes[0], HERD_READ), HERD_EHOSTLOOP);
    CHECK_CODE(herd_run_once(worker, 0), HERD_EHOSTLOOP);
    CHECK_CODE(herd_run(worker), HERD_EHOSTLOOP);
    CHECK_CODE(herd_process_events(worker, 0, 0), HERD_EHOSTLOOP);
    CHECK_CODE(herd_prepare(worker, -2), -EINVAL);
    /* No herd_prepare: nothing to do. Twice: harmless. */
    CHECK_CODE(herd_check(worker), 0);
    CHECK_CODE(herd_prepare(worker, 0), 0);
    CHECK_CODE(herd_prepare(worker, 0), 0);
    CHECK_EQ(herd_post(worker, &event, HERD_POSTED_EVENTS), 1);
    CHECK_CODE(herd_check(worker), 1);
    CHECK_CODE(herd_check(worker), 0);
    close(pipes[0]);
    close(pipes[1]);
}

static void nested_in_exclusive(uint32_t mode)
{
    struct herd *herd = new_logging_herd(mode);
    CHECK(herd_mode(herd) == HERD_MODE_EXCLUSIVE || herd_mode(herd) == HERD_MODE_REUSEPORT);
    new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd);
    CHECK_CODE(herd_worker_fd(worker), HERD_ENESTED);
    CHECK(strstr(logged, "HERD_MODE_MUTEX") != NULL);
    check_logged("herd_attach_epoll");
    CHECK(strstr(herd_strerror(HERD_ENESTED), "HERD_MODE_MUTEX") != NULL);
    check_waits_itself(worker);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

static void attached(uint32_t mode)
{
    struct herd *herd = new_logging_herd(mode);
    new_listener(herd, NULL, NULL);
    new_listener(herd, NULL, NULL); /* two: in mutex mode they are armed through a set of their own */
    struct herd_worker *worker = new_worker(herd), *other = new_worker(herd);
    int epfd = new_epoll(), pipes[2];
    struct herd_event event;
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    check_waits_itself(worker);
    CHECK_CODE(herd_attach_epoll(worker, -1, 1), -EBADF);
    check_logged("attach epoll -1");
    CHECK_CODE(herd_attach_epoll(worker, pipes[0], 1), -EINVAL);
    CHECK_CODE(herd_event_init(&event, on_event, NULL), 0);
    CHECK_CODE(herd_event_add(worker, &event, pipes[0], HERD_READ), 0);
    CHECK_CODE(herd_attach_epoll(worker, epfd, 1), -EBUSY);
    CHECK_CODE(herd_worker_fd(worker), mode == HERD_MODE_EXCLUSIVE ? HERD_ENESTED : -EBUSY);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    check_waits_itself(worker);

    /* Its last turn has left it armed. */
    CHECK_CODE(herd_attach_epoll(worker, epfd, 1), 0);
    CHECK_CODE(herd_attach_epoll(worker, epfd, 1), -EBUSY);
    CHECK_CODE(herd_attach_epoll(other, epfd, 2), -EEXIST);
    CHECK_CODE(herd_worker_fd(worker), mode == HERD_MODE_EXCLUSIVE ? HERD_ENESTED : HERD_EHOSTLOOP);
    check_host_waits(worker);
    /* A set has one worker, whether that one made a turn yet or not, and by whatever number. */
    int alias = dup(epfd);
    CHECK(alias >= 0);
    CHECK_CODE(herd_attach_epoll(other, epfd, 2), -EEXIST);
    CHECK_CODE(herd_attach_epoll(other, alias, 2), -EEXIST);
    check_waits_itself(other);
    CHECK_CODE(herd_attach_epoll(other, alias, 2), -EEXIST);
    close(alias);

    /* Its descriptors are open in the other worker too, and leave the set all the same. */
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK(herd_run_once(other, 0) >= 0);
    CHECK_CODE(herd_attach_epoll(other, epfd, 2), 0);
    check_host_waits(other);
    close(epfd); /* first, by mistake */
    CHECK_CODE(herd_worker_destroy(other), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    close(pipes[0]);
    close(pipes[1]);
}

static void nested(uint32_t mode)
{
    struct herd *herd = new_logging_herd(mode);
    new_listener(herd, NULL, NULL);
    struct herd_worker *worker = new_worker(herd), *other = new_worker(herd);
    int fd = herd_worker_fd(worker), epfd = new_epoll();
    CHECK(fd >= 0);
    CHECK_EQ(herd_worker_fd(worker), fd);
    CHECK_CODE(herd_attach_epoll(other, fd, 1), -EEXIST);
    CHECK_CODE(herd_worker_destroy(other), 0);
    CHECK_CODE(herd_attach_epoll(worker, epfd, 1), -EBUSY);
    check_host_waits(worker);
    close(epfd);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
}

int main(void)
{
    test_begin(20);
    int fds = open_fds();
    nested_in_exclusive(HERD_MODE_EXCLUSIVE);
    nested_in_exclusive(HERD_MODE_AUTO);
    nested_in_exclusive(HERD_MODE_REUSEPORT);
    attached(HERD_MODE_EXCLUSIVE);
    attached(HERD_MODE_MUTEX);
    attached(HERD_MODE_HANDOFF);
    attached(HERD_MODE_SHARED);
    nested(HERD_MODE_MUTEX);
    nested(HERD_MODE_HANDOFF);
    nested(HERD_MODE_SHARED);
    CHECK_EQ(open_fds(), fds);
    return 0;
}
