// herd.hpp: lambdas for connections, events, timers, messages and the balance policy; what they get is
// what the C calls get; and no event, timer or connection allocates.
#include "check.h"

#include <herd.hpp>

#include <atomic>
#include <optional>
#include <thread>

static unsigned long allocations;

void *operator new(std::size_t bytes)
{
    allocations++;
    return std::malloc(bytes);
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept
{
    allocations++;
    return std::malloc(bytes);
}
void operator delete(void *memory) noexcept
{
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace {

enum { clients = 200 };

struct echo {
    libherd::connection connection;
    std::optional<echo> &place; // where this is
    int requests = 0;
    libherd::event event;

    echo(libherd::connection accepted, std::optional<echo> &place)
        : connection(std::move(accepted)), place(place),
          event(connection.worker(), [this](std::uint32_t ready) { on_ready(ready); })
    {
        CHECK(!event.add(connection.fd(), HERD_READ));
        CHECK_EQ(event.fd(), connection.fd());
        CHECK_EQ(event.interest(), HERD_READ);
    }

    void on_ready(std::uint32_t ready)
    {
        char bytes[16];
        CHECK(ready & HERD_READ);
        const ssize_t got = recv(event.fd(), bytes, sizeof bytes, 0);
        if (got > 0) {
            requests++;
            CHECK_EQ(send(event.fd(), bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
            CHECK(!event.mod(HERD_READ | HERD_PEER_CLOSED));
        } else {
            CHECK(!event.del());
            place.reset();
        }
    }
};

void connections_events_and_timers()
{
    std::string logged;
    auto log = [&logged](int level, const char *message) { logged += std::to_string(level) + message; };
    libherd::config config;
    config.max_workers = 2;
    config.log_to(log);
    auto herd = libherd::herd::create(config);
    CHECK(herd && logged.find("mode") != std::string::npos);

    std::optional<echo> served;
    int families = 0;
    const auto on_accept = [&](libherd::connection connection, libherd::peer peer) {
        families += peer.address->sa_family == AF_INET && peer.length_bytes == sizeof(sockaddr_in);
        served.emplace(std::move(connection), served);
    };
    const unsigned long before_listen = allocations;
    CHECK_EQ(*herd->listen("127.0.0.1:0", on_accept), 0);
    CHECK(allocations - before_listen <= 1);
    auto worker = libherd::worker::create(*herd);
    CHECK(worker);
    const std::string address = *herd->listener_address(0);

    int ticks = 0, remotes = 0;
    const unsigned long before = allocations;
    for (int i = 0; i < clients; i++) {
        const int client = connect_to(address.c_str());
        char byte = 'x';
        libherd::timer timer(*worker, [&ticks] { ticks++; });
        libherd::event posted(*worker, [&remotes](std::uint32_t ready) { remotes += ready == 0; });
        CHECK_EQ(write(client, &byte, 1), 1);
        CHECK(!timer.start(std::chrono::milliseconds(0)));
        CHECK(*posted.post());
        CHECK(!*posted.post());
        while (!served || served->requests == 0 || ticks <= i || remotes <= i) {
            CHECK(worker->run_once(std::chrono::seconds(5)));
        }
        CHECK_EQ(read(client, &byte, 1), 1);
        close(client);
        while (served) {
            CHECK(worker->run_once(std::chrono::seconds(5)));
        }
    }
    CHECK_EQ(allocations - before, 0);
    CHECK_EQ(families, clients);
    CHECK_EQ(herd->stats(*worker->slot())->accepted, clients);
    CHECK_EQ(herd->stats()->closed, clients);

    libherd::timer timer(*worker, [&ticks] { ticks++; });
    libherd::event posted(*worker, [&remotes](std::uint32_t ready) { remotes += ready == 0; });
    CHECK(!timer.start(std::chrono::hours(1)));
    CHECK(*timer.stop());
    CHECK(!*timer.stop());
    CHECK(*posted.post(HERD_POSTED_NEXT));
    CHECK_EQ(*worker->posted_count(HERD_POSTED_NEXT), 1);
    CHECK(*posted.unpost());
    std::thread([&posted] { CHECK(*posted.post_remote()); }).join();
    CHECK_EQ(*worker->run_once(), 1);
    CHECK_EQ(remotes, clients + 1);
}

// nginx's turn from its parts, and the end from another thread.
void parts_and_stop()
{
    auto herd = libherd::herd::create();
    CHECK(herd->listen("127.0.0.1:0", [](libherd::connection, libherd::peer) {}));
    auto worker = libherd::worker::create(*herd);
    const int client = connect_to(herd->listener_address(0)->c_str());
    CHECK(*worker->trylock());
    CHECK_EQ(*worker->process_events(std::chrono::seconds(5), HERD_POST_EVENTS), 1);
    CHECK_EQ(*worker->process_posted(HERD_POSTED_ACCEPT), 1);
    CHECK(worker->unlock());
    CHECK_EQ(*worker->process_timers(), 1); // hands the connection over
    CHECK_EQ(*worker->process_posted(HERD_POSTED_EVENTS), 0);
    CHECK_EQ(*worker->accept_disabled(), 0);
    CHECK(!worker->disable_accept() && !worker->enable_accept());
    CHECK_EQ(herd->stats()->closed, 1); // the callback let it go
    close(client);
    CHECK_EQ(*worker->conn_opened(), 1);
    CHECK_EQ(*worker->conn_closed(), 0);
    CHECK(!worker->set_load(7));
    CHECK_EQ(*worker->state(), HERD_WORKER_RUNNING);
    std::thread stopper([&worker] { CHECK(!worker->stop()); });
    CHECK(!worker->run());
    stopper.join();
    CHECK_EQ(*worker->state(), HERD_WORKER_STOPPED);
}

// The policy of the host is asked once a worker has accepted, with another one idle.
void balance()
{
    std::atomic<int> asked{0};
    auto policy = [&asked](std::uint64_t own_load, std::uint64_t least_load) {
        asked++;
        return own_load > least_load;
    };
    libherd::config config;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    config.balance_by(policy);
    auto herd = libherd::herd::create(config);
    CHECK_EQ(*herd->balance(), HERD_BALANCE_CALLBACK);
    CHECK_EQ(*herd->mode(), HERD_MODE_MUTEX);
    CHECK(herd->listen("127.0.0.1:0", [](libherd::connection connection, libherd::peer) {
        static_cast<void>(connection.release());
    }));
    auto one = libherd::worker::create(*herd);
    std::atomic<bool> over{false};
    std::thread idle([&] {
        auto other = libherd::worker::create(*herd);
        while (!over) {
            CHECK(other->run_once(std::chrono::milliseconds(100)));
        }
    });
    const std::string address = *herd->listener_address(0);
    WAIT_UNTIL(herd->stats()->workers == 2, 10000);
    int open[256], count = 0;
    for (; herd->stats()->handovers == 0 && count < 256; count++) {
        open[count] = connect_to(address.c_str());
        CHECK(one->run_once(std::chrono::milliseconds(20)));
    }
    over = true;
    idle.join();
    CHECK(asked > 0);
    CHECK(herd->stats()->handovers > 0);
    while (count > 0) {
        close(open[--count]);
    }
}

} // namespace

int main()
{
    test_begin(50);
    connections_events_and_timers();
    parts_and_stop();
    balance();
    test_exit(0);
}
