// herd.hpp: owners move and end what they own once, in any order that the header allows; empty and
// moved-from ones answer -EINVAL; an object may end itself in its own handler.
#include "check.h"

#include <herd.hpp>

static_assert(!std::is_copy_constructible_v<libherd::herd> && !std::is_copy_assignable_v<libherd::herd>);
static_assert(!std::is_copy_constructible_v<libherd::worker> && !std::is_copy_assignable_v<libherd::worker>);
static_assert(!std::is_copy_constructible_v<libherd::connection>);
static_assert(!std::is_move_constructible_v<libherd::event> && !std::is_move_constructible_v<libherd::timer>);
static_assert(std::is_nothrow_move_constructible_v<libherd::herd> && std::is_nothrow_move_assignable_v<libherd::herd>);
static_assert(std::is_nothrow_move_constructible_v<libherd::worker>
              && std::is_nothrow_move_assignable_v<libherd::worker>);
static_assert(std::is_nothrow_move_constructible_v<libherd::connection>
              && std::is_nothrow_move_assignable_v<libherd::connection>);
static_assert(std::is_trivially_copyable_v<libherd::worker_ref>);
static_assert(sizeof(libherd::worker) == sizeof(void *) && sizeof(libherd::worker_ref) == sizeof(void *));
static_assert(sizeof(libherd::event) <= 112, "DESIGN: 128 bytes per watched descriptor, in all");

namespace {

int alive;

struct token { // what a callback owns
    token() { alive++; }
    token(const token &) { alive++; }
    ~token() { alive--; }
};

struct client {
    client(libherd::connection accepted, int *ends)
        : connection(std::move(accepted)), ends(ends),
          event(connection.worker(), [this](std::uint32_t) { delete this; })
    {
        CHECK(!event.add(connection.fd(), HERD_READ));
    }
    ~client() { ++*ends; }

    libherd::connection connection;
    int *ends;
    libherd::event event;
};

libherd::herd new_one()
{
    auto created = libherd::herd::create();
    CHECK(created);
    return std::move(*created);
}

void moves()
{
    libherd::herd first = new_one();
    ::herd *raw = first.get();
    CHECK_EQ(*first.listen("127.0.0.1:0", [kept = token()](libherd::connection, libherd::peer) {}), 0);
    CHECK_EQ(alive, 1);
    libherd::herd second(std::move(first));
    CHECK(second.get() == raw && !first);
    CHECK(first.listen("127.0.0.1:0").error() == std::errc::invalid_argument);
    CHECK(first.stats().error() == std::errc::invalid_argument);
    CHECK_EQ(alive, 1);
    second = new_one(); // which ends the one before
    CHECK_EQ(alive, 0);
    first = std::move(second);
    CHECK(first.get() != nullptr && !second);
    CHECK(first.free_slots());
    CHECK(!*first.worker_alive(0));
    auto &self = first;
    first = std::move(self);
    CHECK(first.free_slots());
    CHECK(!*first.worker_alive(0));

    CHECK_EQ(*first.listen("127.0.0.1:0", [kept = token()](libherd::connection, libherd::peer) {}), 0);
    CHECK_EQ(*first.listen("127.0.0.1:0", [kept = token()](libherd::connection, libherd::peer) {}), 1);
    CHECK_EQ(alive, 2);
    CHECK(!first.listen("nowhere", [kept = token()](libherd::connection, libherd::peer) {}));
    CHECK_EQ(*first.listen_systemd("none", [kept = token()](libherd::connection, libherd::peer) {}), 0);
    CHECK_EQ(alive, 2);
    CHECK(!first.remove_listener(0));
    CHECK_EQ(alive, 1);
    CHECK(first.remove_listener(0) == std::errc::no_such_file_or_directory);

    auto created = libherd::worker::create(first);
    CHECK(created);
    libherd::worker worker = std::move(*created), empty;
    CHECK(!*created && worker.slot());
    CHECK(created->slot().error() == std::errc::invalid_argument);
    CHECK(first.destroy() == std::errc::device_or_resource_busy);
    CHECK_EQ(alive, 1);
    empty = std::move(worker);
    CHECK(!worker && *empty.slot() == 0);
    CHECK_EQ(first.stats()->workers, 1);
    libherd::worker_ref reference = empty;
    empty = libherd::worker();
    CHECK(reference.slot().error() == libherd::errc::destroyed);
    CHECK_EQ(first.stats()->workers, 0);
    CHECK(!empty.destroy()); // nothing to do
    CHECK(!first.destroy());
    CHECK_EQ(alive, 0);
}

void connections()
{
    libherd::herd herd = new_one();
    CHECK(herd.listen("127.0.0.1:0"));
    auto worker = libherd::worker::create(herd);
    const std::string address = *herd.listener_address(0);
    auto accept_one = [&] {
        auto accepted = worker->accept();
        for (; !accepted; accepted = worker->accept()) {
            CHECK(worker->run_once(std::chrono::seconds(5)));
        }
        return std::move(*accepted);
    };
    int clients[3];
    for (int &client : clients) {
        client = connect_to(address.c_str());
    }
    libherd::connection first = accept_one(), second = accept_one(), third = accept_one();
    CHECK_EQ(herd.stats()->connections_open, 3);
    const int fd = first.fd();
    libherd::connection moved(std::move(first));
    CHECK(!first && first.fd() == -1 && moved.fd() == fd);
    first.close(); // nothing to do
    CHECK_EQ(herd.stats()->connections_open, 3);
    moved = std::move(second); // closes the first
    CHECK_EQ(fcntl(fd, F_GETFD), -1);
    CHECK_EQ(herd.stats()->connections_open, 2);
    moved.close();
    moved.close();
    CHECK_EQ(herd.stats()->connections_open, 1);
    const int released = third.release();
    third.close();
    CHECK_EQ(fcntl(released, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(*worker->conn_closed(), 0);
    close(released);
    for (int client : clients) {
        close(client);
    }
}

void ends_in_its_own_handler()
{
    libherd::herd herd = new_one();
    int ends = 0;
    CHECK(herd.listen("127.0.0.1:0", [&ends](libherd::connection connection, libherd::peer) {
        new client(std::move(connection), &ends);
    }));
    auto worker = libherd::worker::create(herd);
    for (int i = 1; i <= 3; i++) {
        int peer = connect_to(herd.listener_address(0)->c_str());
        CHECK_EQ(write(peer, "x", 1), 1);
        while (ends < i) {
            CHECK(worker->run_once());
        }
        close(peer);
    }
    CHECK_EQ(herd.stats()->connections_open, 0);
    CHECK_EQ(herd.stats()->stale_events, 0);

    // Added or posted when its owner goes; never used; and without a worker.
    int runs = 0, ends_of_pipe[2];
    CHECK_EQ(pipe2(ends_of_pipe, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_EQ(write(ends_of_pipe[1], "x", 1), 1);
    {
        libherd::event added(*worker, [&runs](std::uint32_t) { runs++; });
        libherd::event posted(*worker, [&runs](std::uint32_t) { runs++; });
        libherd::event unused(*worker, [&runs](std::uint32_t) { runs++; });
        libherd::event stray(libherd::worker_ref(), [&runs](std::uint32_t) { runs++; });
        libherd::timer pending(*worker, [&runs] { runs++; });
        CHECK(!added.add(ends_of_pipe[0], HERD_READ));
        CHECK(*posted.post());
        CHECK(!pending.start(std::chrono::milliseconds(0)));
        CHECK(stray.add(ends_of_pipe[0], HERD_READ) == std::errc::invalid_argument);
    }
    CHECK_EQ(*worker->run_once(std::chrono::milliseconds(20)), 0);
    CHECK_EQ(runs, 0);

    auto once = std::make_unique<libherd::event *>(nullptr);
    auto **place = once.get();
    *place = new libherd::event(*worker, [place, &runs](std::uint32_t) {
        delete *place;
        runs++; // what it captured is still there
    });
    CHECK(!(*place)->add(ends_of_pipe[0], HERD_READ));
    CHECK_EQ(*worker->run_once(), 1);
    CHECK_EQ(runs, 1);
    close(ends_of_pipe[0]);
    close(ends_of_pipe[1]);
}

} // namespace

int main()
{
    test_begin(30);
    int fds = open_fds();
    moves();
    connections();
    ends_in_its_own_handler();
    CHECK_EQ(open_fds(), fds);
    test_exit(0);
}
