/* Descriptors that are closed, unsuitable, watched twice or closed too early give the documented
   code, and hit nobody else. */
#include "check.h"

static struct herd *herd;
static struct herd_worker *worker;
static int runs[8];

static void on_event(struct herd_worker *of, struct herd_event *event, uint32_t ready)
{
    CHECK(of == worker);
    CHECK(ready & HERD_READ);
    ++*(int *)event->data;
}

static struct herd_event new_event(int number)
{
    struct herd_event event;
    CHECK_CODE(herd_event_init(&event, on_event, &runs[number]), 0);
    return event;
}

static void new_pipe(int ends[2])
{
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
}

static int closed_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    return fd;
}

static void unsuitable(void)
{
    struct herd_event event = new_event(0);
    CHECK_CODE(herd_event_add(worker, &event, closed_fd(), HERD_READ), -EBADF);
    CHECK_CODE(herd_event_add(worker, &event, -1, HERD_READ), -EBADF);
    CHECK_CODE(herd_event_add(worker, &event, INT32_MIN, HERD_READ), -EBADF);
    CHECK_CODE(herd_event_add(worker, &event, 1000000, HERD_READ), -EBADF);
    CHECK_CODE(herd_event_add(worker, &event, INT32_MAX, HERD_READ), -EBADF);
    FILE *regular = tmpfile();
    CHECK(regular != NULL);
    CHECK_CODE(herd_event_add(worker, &event, fileno(regular), HERD_READ), -EPERM);
    CHECK_EQ(event.fd, -1);
    CHECK_CODE(herd_event_mod(worker, &event, HERD_READ), -ENOENT);
    CHECK_CODE(herd_event_del(worker, &event), -ENOENT);
    fclose(regular);

    int ends[2];
    new_pipe(ends);
    static const uint32_t unknown[] = {HERD_ERROR, HERD_HANGUP, 64, 1u << 30, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < 6; i++) {
        CHECK_CODE(herd_event_add(worker, &event, ends[0], unknown[i]), -EINVAL);
    }
    CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
    CHECK_CODE(herd_event_mod(worker, &event, HERD_READ | HERD_ERROR), -EINVAL);
    CHECK_EQ(event.interest, HERD_READ);
    CHECK_CODE(herd_event_del(worker, &event), 0);
    CHECK_CODE(herd_event_del(worker, &event), -ENOENT);
    close(ends[0]);
    close(ends[1]);
}

static void twice(void)
{
    int ends[2], others[2];
    new_pipe(ends);
    new_pipe(others);
    struct herd_event first = new_event(1), second = new_event(2);
    CHECK_CODE(herd_event_add(worker, &first, ends[0], HERD_READ), 0);
    CHECK_CODE(herd_event_add(worker, &first, ends[0], HERD_READ), -EEXIST);
    CHECK_CODE(herd_event_add(worker, &first, others[0], HERD_READ), -EEXIST);
    CHECK_CODE(herd_event_add(worker, &second, ends[0], HERD_READ), -EEXIST);
    CHECK_EQ(first.fd, ends[0]);
    CHECK_EQ(second.fd, -1);
    CHECK_CODE(herd_event_del(worker, &second), -ENOENT);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(write(others[1], "x", 1), 1);
    CHECK_CODE(herd_run_once(worker, 5000), 1);
    CHECK_EQ(runs[1], 1);
    CHECK_EQ(runs[2], 0);
    CHECK_CODE(herd_event_del(worker, &first), 0);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(others[i]);
    }
}

/* The host closes a descriptor and tells nobody. */
static void closed_before_del(void)
{
    int ends[2];
    new_pipe(ends);
    struct herd_event event = new_event(3);
    CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
    close(ends[0]);
    CHECK_CODE(herd_event_mod(worker, &event, HERD_READ), -EBADF);
    CHECK_CODE(herd_event_del(worker, &event), -EBADF);
    CHECK_EQ(event.fd, -1);
    CHECK_CODE(herd_event_del(worker, &event), -ENOENT);
    close(ends[1]);

    /* The same when the number leads to another file by now, which nobody watches. */
    new_pipe(ends);
    CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
    CHECK_EQ(dup3(ends[1], ends[0], O_CLOEXEC), ends[0]);
    CHECK_CODE(herd_event_mod(worker, &event, HERD_READ), -EBADF);
    CHECK_CODE(herd_event_del(worker, &event), -EBADF);
    CHECK_CODE(herd_event_del(worker, &event), -ENOENT);
    close(ends[0]);
    close(ends[1]);
}

/* The number goes to another event before the first one is deleted: that one loses nothing. */
static void number_used_again(void)
{
    int old_ends[2], new_ends[2];
    new_pipe(old_ends);
    struct herd_event before = new_event(4), after = new_event(5);
    CHECK_CODE(herd_event_add(worker, &before, old_ends[0], HERD_READ), 0);
    new_pipe(new_ends);
    CHECK_EQ(dup3(new_ends[0], old_ends[0], O_CLOEXEC), old_ends[0]);
    CHECK_CODE(herd_event_add(worker, &after, old_ends[0], HERD_READ), 0);
    CHECK_CODE(herd_event_mod(worker, &before, HERD_READ | HERD_EDGE), -EBADF);
    CHECK_CODE(herd_event_del(worker, &before), -EBADF);
    CHECK_EQ(write(new_ends[1], "x", 1), 1);
    CHECK_CODE(herd_run_once(worker, 5000), 1);
    CHECK_EQ(runs[4], 0);
    CHECK_EQ(runs[5], 1);
    CHECK_CODE(herd_event_del(worker, &after), 0);
    CHECK_CODE(herd_run_once(worker, 0), 0);
    close(old_ends[0]);
    close(old_ends[1]);
    close(new_ends[0]);
    close(new_ends[1]);
}

/* A closed descriptor whose file lives on elsewhere reports for ever: dropped, without spinning. */
static void file_lives_on(void)
{
    int ends[2];
    new_pipe(ends);
    int copy = dup(ends[0]);
    struct herd_event event = new_event(6);
    CHECK_CODE(herd_event_add(worker, &event, ends[0], HERD_READ), 0);
    close(ends[0]);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_CODE(herd_event_del(worker, &event), -EBADF);
    memset(&event, 0xff, sizeof event);
    for (int i = 0; i < 10; i++) {
        CHECK_CODE(herd_run_once(worker, 0), 0);
    }
    CHECK_EQ(runs[6], 0);
    CHECK_EQ(total_stats(herd).stale_events, 1);
    close(ends[1]);
    close(copy);
}

static void not_listeners(void)
{
    int fds = open_fds();
    struct herd *fresh = new_herd(HERD_MODE_MUTEX, 2);
    int ends[2];
    new_pipe(ends);
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_CODE(herd_add_listener(fresh, closed_fd(), NULL, NULL), -EBADF);
    CHECK_CODE(herd_add_listener(fresh, -1, NULL, NULL), -EBADF);
    CHECK_CODE(herd_add_listener(fresh, INT32_MAX, NULL, NULL), -EBADF);
    CHECK_CODE(herd_add_listener(fresh, INT32_MIN, NULL, NULL), -EBADF);
    CHECK_CODE(herd_add_listener(fresh, ends[0], NULL, NULL), -ENOTSOCK);
    CHECK_CODE(herd_add_listener(fresh, udp, NULL, NULL), -EINVAL);
    CHECK_CODE(herd_add_listener(fresh, tcp, NULL, NULL), -EINVAL);
    CHECK_CODE(herd_listener_fd(fresh, 0), -ENOENT);
    CHECK_EQ(fcntl(tcp, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(listen(tcp, 8), 0);
    CHECK_CODE(herd_add_listener(fresh, tcp, NULL, NULL), 0);
    CHECK(herd_listener_fd(fresh, 0) != tcp);
    close(tcp);
    close(connect_to(address_of(fresh, 0)));
    CHECK_CODE(herd_remove_listener(fresh, 0), 0);
    close(udp);
    close(ends[0]);
    close(ends[1]);
    CHECK_CODE(herd_destroy(fresh), 0);
    CHECK_EQ(open_fds(), fds);
}

int main(void)
{
    test_begin(30);
    int fds = open_fds();
    herd = new_herd(HERD_MODE_MUTEX, 2);
    worker = new_worker(herd);
    unsuitable();
    twice();
    closed_before_del();
    number_used_again();
    file_lives_on();
    not_listeners();
    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_destroy(herd), 0);
    CHECK_EQ(open_fds(), fds);
    return 0;
}
