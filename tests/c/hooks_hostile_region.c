/* A worker that writes anything at all into the shared memory of its herd, again and again, disturbs the herd
 * at most: the parent, which reaps and reads figures, the other workers and an observer meet errors, and never
 * crash, hang, or find a defect. HERD_TEST_SLOW=1: longer.
 * With the library that has its assertions, so that also a sum that wraps is a failure. timeout: 120 */
#include "check.h"

#include "figures.h"

enum { slots = 4 };

static char name[64];
static uint64_t seed;

static struct shared {
    int stop;
    unsigned made, steps, looks, scribbles;
} *shared;

static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* What no call may answer, whatever stands in the memory. */
#define CHECK_CONTAINED(call)                                                                   \
    do {                                                                                        \
        int contained = (call);                                                                 \
        if (contained == HERD_EINTERNAL || contained == HERD_EPOISONED) {                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                       \
                    herd_strerror(contained));                                                  \
            test_exit(1);                                                                       \
        }                                                                                       \
    } while (0)

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    if (level == HERD_LOG_ERROR && strstr(message, " at src/") != NULL) {
        fprintf(stderr, "%s\n", message);
    }
}

static void on_accept(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length,
                      void *data)
{
    struct sockaddr_storage copy;
    (void)data;
    CHECK(length <= sizeof copy);
    memcpy(&copy, peer, length);
    close(fd);
    CHECK_CONTAINED(herd_conn_closed(worker));
}

static void on_handoff(struct herd_worker *worker, int fd, const struct sockaddr *peer, uint32_t length,
                       const void *tag, size_t tag_bytes, void *data)
{
    char copy[HERD_TAG_BYTES_MAX];
    CHECK(tag_bytes <= sizeof copy);
    memcpy(copy, tag, tag_bytes);
    on_accept(worker, fd, peer, length, data);
}

/* --- The hostile worker ------------------------------------------------------------------ */

static struct mapping {
    unsigned char *start;
    size_t bytes;
} mappings[8];
static int mapping_count;

static void find_mappings(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        int is_herds = strstr(line, "herd-region") != NULL || strstr(line, "/dev/shm/herd-") != NULL ||
                       strstr(line, "bpf-map") != NULL;
        if (is_herds && strstr(line, " rw-s ") != NULL && mapping_count < 8 &&
            sscanf(line, "%lx-%lx", &start, &end) == 2) {
            mappings[mapping_count].start = (unsigned char *)(uintptr_t)start;
            mappings[mapping_count++].bytes = end - start;
        }
    }
    fclose(maps);
    CHECK(mapping_count >= 1);
}

static uint64_t value(void)
{
    switch (rnd() % 12) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return UINT64_MAX - rnd() % 40;
    case 3: return (uint64_t)now_us() + rnd() % 1000000;
    case 4: return (uint64_t)now_us() + (rnd() >> 20);
    case 5: return rnd() % 70;
    case 6: return 1ull << (rnd() % 64);
    case 7: return (rnd() % 6) << 32 | (uint64_t)getpid();
    case 8: return (rnd() % 6) << 48 | rnd() % 100;
    default: return rnd();
    }
}

static void scribble(void)
{
    struct mapping at = mappings[rnd() % (unsigned)mapping_count];
    size_t words = at.bytes / 8, first = rnd() % words, count = words - first;
    if (rnd() % 16 != 0) {
        /* One number, among those that others act on. */
        first = rnd() % 600 % words;
        count = 1;
    }
    uint64_t number = value();
    int same = rnd() % 2 == 0;
    for (size_t word = first; word < first + count; word++) {
        *(volatile uint64_t *)(void *)(at.start + 8 * word) = same ? number : value();
    }
}

/* The sockets by which connections are passed on. */
static void send_anything(void)
{
    int fd = (int)(rnd() % 64), type = 0;
    socklen_t length = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
        return;
    }
    uint64_t words[32];
    for (unsigned i = 0; i < 32; i++) {
        words[i] = value();
    }
    int fds[3] = {1, 2, fd};
    unsigned fd_count = (unsigned)(rnd() % 4);
    char control[CMSG_SPACE(sizeof fds)];
    struct iovec part = {words, rnd() % 2 == 0 ? 208 : rnd() % sizeof words};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    memset(control, 0, sizeof control);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
}

__attribute__((noreturn)) static void be_hostile(struct herd *herd)
{
    struct herd_worker *worker = NULL;
    seed = (uint64_t)getpid() * 2654435761u + 1;
    CHECK_CODE(herd_worker_create(herd, HERD_ANY_SLOT, &worker), 0);
    find_mappings();
    while (SHARED_GET(shared->made) < 3) {
        sleep_ms(1);
    }
    for (;;) {
        scribble();
        if (rnd() % 64 == 0) {
            send_anything();
        }
        if (rnd() % 4096 == 0) {
            sleep_ms(1); /* for the others to go a few steps with it */
        }
        SHARED_ADD(shared->scribbles, 1u);
    }
}

/* --- Its siblings, and an observer -------------------------------------------------------- */

__attribute__((noreturn)) static void work(struct herd *herd)
{
    while (!SHARED_GET(shared->stop)) {
        struct herd_worker *worker = NULL;
        int code = herd_worker_create(herd, HERD_ANY_SLOT, &worker);
        CHECK_CONTAINED(code);
        SHARED_ADD(shared->steps, 1u);
        if (code < 0) {
            sleep_ms(1); /* such as -ESTALE: the herd may be disturbed */
        } else {
            SHARED_ADD(shared->made, 1u);
        }
        while (code >= 0 && !SHARED_GET(shared->stop)) {
            code = herd_run_once(worker, 5);
            CHECK_CONTAINED(code);
            SHARED_ADD(shared->steps, 1u);
        }
        if (worker != NULL) {
            CHECK_CONTAINED(herd_worker_destroy(worker));
        }
    }
    test_exit(0);
}

__attribute__((noreturn)) static void observe(void)
{
    struct herd *herd = NULL;
    CHECK_CODE(herd_open(name, &herd), 0);
    SHARED_ADD(shared->made, 1u);
    while (!SHARED_GET(shared->stop)) {
        struct herd *again = NULL;
        int code = herd_open(name, &again);
        CHECK(code == 0 || code == HERD_EDAMAGED || code == HERD_EVERSION);
        if (code == 0) {
            look_at_figures(again, 0);
            CHECK_CODE((herd_destroy)(again), 0);
        }
        look_at_figures(herd, 0);
        CHECK_EQ(herd_is_alive(herd), 1);
        SHARED_ADD(shared->looks, 1u);
    }
    CHECK_CODE((herd_destroy)(herd), 0);
    test_exit(0);
}

/* --- The parent --------------------------------------------------------------------------- */

static void connect_without_waiting(const char *address)
{
    struct sockaddr_in to;
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int connected = connect(fd, (struct sockaddr *)&to, sizeof to);
    (void)connected;
    close(fd);
}

/* A worker that dies, to be reaped. */
static void lose_a_worker(struct herd *herd)
{
    pid_t pid = test_fork();
    if (pid == 0) {
        struct herd_worker *worker = NULL;
        CHECK_CONTAINED(herd_worker_create(herd, HERD_ANY_SLOT, &worker));
        _exit(0);
    }
    CHECK_EQ(test_join(pid), 0);
    CHECK_CONTAINED(herd_reap(herd, pid));
}

static void survive(uint32_t mode, int ms)
{
    struct herd_config config = HERD_CONFIG_INIT;
    struct herd *herd = NULL;
    pid_t pids[4];
    snprintf(name, sizeof name, "hostile-%d-%u", (int)getpid(), (unsigned)mode);
    config.mode = mode;
    config.name = name;
    config.max_workers = slots;
    config.accept_delay_ms = 10;
    config.handover_delay_us = 200;
    config.log = on_log;
    CHECK_CODE(herd_create(&config, &herd), 0);
    if (mode == HERD_MODE_HANDOFF) {
        CHECK_CODE(herd_on_handoff(herd, on_handoff, NULL), 0);
    }
    const char *address = address_of(herd, new_listener(herd, on_accept, NULL));
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < 4; i++) {
        pids[i] = test_fork();
        if (pids[i] == 0) {
            i == 0 ? be_hostile(herd) : i == 3 ? observe() : work(herd);
        }
    }
    WAIT_UNTIL(SHARED_GET(shared->scribbles) > 0, 20000);
    unsigned rounds = 0;
    for (int64_t end = now_ms() + ms; now_ms() < end || rounds < 20 || SHARED_GET(shared->steps) < 20 ||
                                      SHARED_GET(shared->looks) < 2;
         rounds++) {
        look_at_figures(herd, slots);
        CHECK_EQ(herd_mode(herd), mode);
        CHECK_CONTAINED(herd_free_slots(herd));
        if (rounds % 16 == 0) {
            lose_a_worker(herd);
        }
        connect_without_waiting(address);
        if (mode == HERD_MODE_HANDOFF) {
            int ends[2];
            CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
            int code = herd_handoff_send(herd, HERD_PICK, ends[0], "tag", 3);
            CHECK_CONTAINED(code);
            if (code < 0) {
                close(ends[0]);
            }
            close(ends[1]);
        }
        for (int i = 0; i < 4; i++) {
            CHECK(!test_ended(pids[i]));
        }
    }
    SHARED_SET(shared->stop, 1);
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(test_join(pids[i]), 0);
    }
    test_kill(pids[0]);
    CHECK_CONTAINED(herd_reap(herd, pids[0]));
    look_at_figures(herd, slots);
    CHECK_CODE((herd_destroy)(herd), 0);
    CHECK_EQ(herd_open(name, &herd), -ENOENT);
}

int main(void)
{
    test_begin(110);
    shared = (struct shared *)shared_memory(sizeof *shared);
    int ms = test_is_slow() ? 10000 : 500;
    survive(HERD_MODE_MUTEX, ms);
    survive(HERD_MODE_HANDOFF, ms);
    survive(HERD_MODE_EXCLUSIVE, ms);
    survive(HERD_MODE_REUSEPORT, ms);
    test_exit(0);
}
