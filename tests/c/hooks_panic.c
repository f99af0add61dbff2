/* R39: a defect inside the library does not reach the host: the call returns HERD_EINTERNAL, the
 * message goes to the log callback and not to stderr, the accept right moves on at once, and the
 * worker can only be destroyed. */
#include "every_call.h"
#include "serve.h"

int herd_test_panic(struct herd_worker *worker);
int herd_test_panic_of_herd(struct herd *herd);

static char last_message[512];
static int last_level;

static void on_log(void *data, int level, const char *message)
{
    (void)data;
    last_level = level;
    snprintf(last_message, sizeof last_message, "%s", message);
}

static void panic_in_handler(struct herd_worker *worker, struct herd_event *event, uint32_t ready)
{
    (void)ready;
    *(int *)event->data = herd_test_panic(worker);
}

/* Panics in a call of the worker's, or without one in a call of the herd's: stderr stays empty. */
static void panic_quietly(struct herd_worker *worker)
{
    int captured = memfd_create("stderr", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
    CHECK(captured >= 0 && kept >= 0);
    CHECK(dup2(captured, STDERR_FILENO) >= 0);
    last_message[0] = '\0';
    int code = worker != NULL ? herd_test_panic(worker) : herd_test_panic_of_herd(serve.herd);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    CHECK_CODE(code, HERD_EINTERNAL);
    CHECK_EQ(lseek(captured, 0, SEEK_END), 0);
    CHECK_EQ(last_level, HERD_LOG_ERROR);
    CHECK(strstr(last_message, "asked for by a test") != NULL);
    close(captured);
    close(kept);
}

int main(void)
{
    struct herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; /* the safety net must not be what helps */
    config.max_workers = 2;
    config.log = on_log;
    test_begin(50);
    serve_prepare(&config, 2);
    SHARED_SET(serve.shared->hold_back, 1u);
    serve_fork(1);

    /* This process has the right when the other worker starts. */
    struct herd_worker *worker;
    CHECK_CODE(herd_worker_create(serve.herd, 0, &worker), 0);
    CHECK_CODE(herd_trylock(worker), 1);
    SHARED_SET(serve.shared->hold_back, 0u);
    serve_settle();
    CHECK_EQ(serve_stats(1).acquisitions, 0);

    panic_quietly(NULL);
    CHECK_EQ(herd_mode(serve.herd), HERD_MODE_MUTEX);
    panic_quietly(worker);
    int64_t panicked_ms = now_ms();
    int client = connect_to(serve.address);
    CHECK_EQ(serve_greeting(client, 5000), 1);
    printf("accepted %d ms after the panic\n", (int)(now_ms() - panicked_ms));
    serve_echo(client);
    CHECK_EQ(serve_stats(0).handovers, 1);
    CHECK_EQ(serve_total().thefts, 0);
    check_every_call(worker, HERD_EPOISONED, NULL, NULL);

    CHECK_CODE(herd_worker_destroy(worker), 0);
    CHECK_CODE(herd_worker_destroy(worker), HERD_EDESTROYED);
    CHECK_EQ(serve_stats(0).workers, 0);

    /* The slot can be used again; a defect met in a handler ends the loop, not the host. */
    CHECK_CODE(herd_worker_create(serve.herd, 0, &worker), 0);
    int code = 0;
    struct herd_event event;
    CHECK_CODE(herd_event_init(&event, panic_in_handler, &code), 0);
    CHECK_CODE(herd_post(worker, &event, HERD_POSTED_EVENTS), 1);
    CHECK_CODE(herd_run(worker), HERD_EPOISONED);
    CHECK_CODE(code, HERD_EINTERNAL);
    CHECK_CODE(herd_worker_destroy(worker), 0);
    close(client);
    serve_end();
    test_exit(0);
}
