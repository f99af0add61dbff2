// herd.hpp: a lambda names the worker of a connection, which arrives with its peer; what is sent arrives with its
// tag, by lambda and by accept; and who owns the descriptor, as herd_handoff_send says.
#include "check.h"

#include <herd.hpp>

namespace {

struct token { // what a callback owns
    static int alive;
    token() { alive++; }
    token(const token &) { alive++; }
    ~token() { alive--; }
};
int token::alive;

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

void pair(int (&fds)[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

// The other end reads that nobody has the connection any more.
void check_closed(int fd)
{
    char byte;
    CHECK_EQ(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

void sends(const libherd::herd &herd, libherd::worker &to, const int &got)
{
    int fds[2];
    pair(fds);
    CHECK_EQ(*herd.handoff_send(fds[0], std::string_view("a\0b", 3), 1), 1);
    CHECK(!is_open(fds[0]));
    while (got == 0) {
        CHECK(to.run_once(std::chrono::seconds(5)));
    }
    check_closed(fds[1]);

    // On an error it stays whose it was.
    const std::string too_long(HERD_TAG_BYTES_MAX + 1, 't');
    pair(fds);
    CHECK(herd.handoff_send(fds[0], too_long).error() == std::errc::message_size);
    CHECK(herd.handoff_send(fds[0], {}, 2).error() == std::errc::no_such_process);
    CHECK(is_open(fds[0]));
    CHECK_EQ(*to.conn_opened(), 1);
    libherd::connection client(to, fds[0]);
    CHECK(herd.handoff_send(client, too_long).error() == std::errc::message_size);
    CHECK(client && is_open(client.fd()));
    CHECK_EQ(herd.stats(1)->connections_open, 1);
    CHECK_EQ(*herd.handoff_send(client, {}, 1), 1);
    CHECK(!client && !is_open(fds[0]));
    CHECK(herd.handoff_send(client).error() == std::errc::bad_file_descriptor);
    while (got == 1) {
        CHECK(to.run_once(std::chrono::seconds(5)));
    }
    CHECK_EQ(herd.stats()->connections_open, 0);
    check_closed(fds[1]);
}

void by_lambda()
{
    int named = 0, got = 0;
    auto pick = [&named](libherd::peer peer) {
        named += peer.address->sa_family == AF_INET && peer.length_bytes == sizeof(sockaddr_in);
        return 1;
    };
    libherd::config config;
    config.mode = HERD_MODE_HANDOFF;
    config.max_workers = 3;
    config.pick_by(pick);
    auto herd = libherd::herd::create(config);
    CHECK(herd);
    int served_by = -1;
    CHECK(herd->listen("127.0.0.1:0", [&served_by](libherd::connection client, libherd::peer) {
        served_by = *client.worker().slot();
    }));
    CHECK(!herd->on_handoff([kept = token()](libherd::connection, libherd::peer, std::string_view) { CHECK(false); }));
    CHECK_EQ(token::alive, 1);
    CHECK(!herd->on_handoff([&got](libherd::connection client, libherd::peer peer, std::string_view tag) {
        CHECK(client && peer.length_bytes >= sizeof(sa_family_t));
        CHECK(tag == (got == 0 ? std::string_view("a\0b", 3) : std::string_view()));
        got++;
    }));
    CHECK_EQ(token::alive, 0); // the one before
    CHECK(herd->remove_listener(libherd::detail::accept_handler::of_sent));
    auto first = libherd::worker::create(*herd, 0), second = libherd::worker::create(*herd, 1);
    CHECK(first && second);
    CHECK(herd->on_handoff([kept = token()](libherd::connection, libherd::peer, std::string_view) {})
          == std::errc::device_or_resource_busy);
    CHECK_EQ(token::alive, 0);
    sends(*herd, *second, got);
    CHECK_EQ(named, 0); // their slot was given

    const int client = connect_to(herd->listener_address(0)->c_str());
    while (served_by < 0) {
        CHECK(first->run_once(std::chrono::milliseconds(10)));
        CHECK(second->run_once(std::chrono::milliseconds(10)));
    }
    CHECK_EQ(served_by, 1);
    CHECK(named > 0);
    close(client);
}

// Without a lambda it is taken like any other.
void by_accept()
{
    libherd::config config;
    config.mode = HERD_MODE_HANDOFF;
    auto herd = libherd::herd::create(config);
    auto worker = libherd::worker::create(*herd);
    int fds[2];
    pair(fds);
    CHECK_EQ(*herd->handoff_send(fds[0], "tag"), *worker->slot());
    herd_accepted details;
    auto taken = worker->accept(details);
    for (; !taken; taken = worker->accept(details)) {
        CHECK(worker->run_once(std::chrono::seconds(5)));
    }
    CHECK_EQ(details.listener, HERD_LISTENER_NONE);
    CHECK_EQ(details.tag_bytes, 3);
    taken->close();
    check_closed(fds[1]);
}

void refused()
{
    int fds[2];
    pair(fds);
    auto other = libherd::herd::create();
    const auto on_sent = [](libherd::connection, libherd::peer, std::string_view) {};
    CHECK(other->on_handoff(on_sent) == std::errc::operation_not_supported);
    CHECK(other->handoff_send(fds[0]).error() == std::errc::operation_not_supported);
    libherd::herd empty;
    CHECK(empty.on_handoff(on_sent) == std::errc::invalid_argument);
    CHECK(empty.handoff_send(fds[0]).error() == std::errc::invalid_argument);
    CHECK(is_open(fds[0]));
    close(fds[0]);
    close(fds[1]);
}

} // namespace

int main()
{
    test_begin(30);
    const int fds = open_fds();
    by_lambda();
    by_accept();
    refused();
    CHECK_EQ(token::alive, 0);
    CHECK_EQ(open_fds(), fds);
    test_exit(0);
}
