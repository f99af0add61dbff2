// R39 for herd.hpp: an exception that leaves a callback ends the process by std::terminate, which still
// has it; none passes through the library.
#include "check.h"

#include <herd.hpp>

#include <exception>
#include <stdexcept>

namespace {

enum place { in_accept, in_event, in_timer, in_log, in_balance, in_pick, in_handoff, places };
enum { terminated = 42 };

void throw_here()
{
    throw std::runtime_error("thrown by a callback, as the test wants it");
}

void on_terminate()
{
    _exit(std::current_exception() ? terminated : 1);
}

[[noreturn]] void throw_in(place where)
{
    std::set_terminate(on_terminate);
    auto log = [where](int, const char *) { where == in_log ? throw_here() : void(); };
    auto policy = [where](std::uint64_t, std::uint64_t) {
        where == in_balance ? throw_here() : void();
        return false;
    };
    auto pick = [where](libherd::peer) {
        where == in_pick ? throw_here() : void();
        return HERD_PICK;
    };
    try {
        libherd::config config;
        config.log_to(log);
        config.mode = HERD_MODE_HANDOFF; // which has no balance callback
        config.pick_by(pick);
        if (where == in_balance) {
            config.balance_by(policy);
            config.balance_callback(config.balance_data, 1, 0); // as the library calls it
        }
        auto herd = libherd::herd::create(config);
        CHECK(herd->listen("127.0.0.1:0", [where](libherd::connection, libherd::peer) {
            where == in_accept ? throw_here() : void();
        }));
        CHECK(!herd->on_handoff([where](libherd::connection, libherd::peer, std::string_view) {
            where == in_handoff ? throw_here() : void();
        }));
        auto worker = libherd::worker::create(*herd);
        libherd::event event(*worker, [where](std::uint32_t) { where == in_event ? throw_here() : void(); });
        libherd::timer timer(*worker, [where] { where == in_timer ? throw_here() : void(); });
        CHECK(event.post() && !timer.start(std::chrono::milliseconds(0)));
        const int client = connect_to(herd->listener_address(0)->c_str());
        int sent[2];
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sent), 0);
        CHECK(herd->handoff_send(sent[0]));
        CHECK(worker->run_once());
        CHECK(worker->run_once(std::chrono::milliseconds(100)));
        close(client);
    } catch (const std::exception &) {
        test_exit(2); // it came through the library
    }
    test_exit(0);
}

} // namespace

int main()
{
    test_begin(30);
    for (int where = 0; where < places; where++) {
        const pid_t pid = test_fork();
        if (pid == 0) {
            throw_in(static_cast<place>(where));
        }
        CHECK_EQ(test_join(pid), terminated);
    }
    const pid_t pid = test_fork();
    if (pid == 0) {
        throw_in(places); // nowhere
    }
    CHECK_EQ(test_join(pid), 0);
    test_exit(0);
}
