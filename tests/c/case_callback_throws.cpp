// R39: an exception that leaves a callback ends the process, which the header says, and does not hang
// it; after its death is reported another worker accepts.
#include "serve.h"

#include <stdexcept>

namespace {

void throw_if_told(herd_worker *worker)
{
    if (SHARED_GET(serve.shared->knob) == herd_worker_slot(worker)) {
        throw std::runtime_error("thrown by a callback, as the test wants it");
    }
}

void on_accept(herd_worker *worker, int)
{
    throw_if_told(worker);
}

// The holder's callback throws: the one that accepts, or a handler of events.
void throw_in(bool accept_callback)
{
    serve.on_accept = accept_callback ? on_accept : nullptr;
    serve.on_request = accept_callback ? nullptr : throw_if_told;
    herd_config config = HERD_CONFIG_INIT;
    config.mode = HERD_MODE_MUTEX;
    config.balance = HERD_BALANCE_PACK;
    config.accept_delay_ms = 30000; // the safety net must not be what helps
    serve_prepare(&config, 3);
    SHARED_SET(serve.shared->knob, -1);
    for (int slot = 0; slot < serve.workers; slot++) {
        serve_fork(slot);
    }
    serve_settle();
    int holder = serve_find_holder(NULL);
    SHARED_SET(serve.shared->knob, holder);

    int client = connect_to(serve.address);
    if (accept_callback) {
        CHECK_EQ(serve_greeting(client, 10000), -2);
    } else {
        CHECK_EQ(serve_greeting(client, 10000), holder);
        CHECK_EQ(send(client, "x", 1, MSG_NOSIGNAL), 1);
    }
    pid_t pid = serve.pids[holder];
    serve.pids[holder] = 0;
    WAIT_UNTIL(test_ended(pid), 10000);
    CHECK_EQ(test_join(pid), 1000 + SIGABRT);
    close(client);

    serve_report(holder, pid);
    int slot;
    int64_t reported_ms = now_ms();
    client = serve_connect(&slot);
    CHECK(slot != holder);
    CHECK(now_ms() - reported_ms < 5000);
    serve.on_request = nullptr;
    serve_echo(client);
    close(client);
    serve_end();
}

} // namespace

int main()
{
    test_begin(50);
    rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    throw_in(true);
    throw_in(false);
    test_exit(0);
}
