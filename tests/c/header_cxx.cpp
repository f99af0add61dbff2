// R41: the header serves C++17 as it is: initialisers, lambdas for callbacks, no casts in the host.
#include "check.h"

#include <memory>
#include <string>

namespace {

struct HerdDeleter {
    void operator()(herd *herd) const { CHECK_CODE(herd_destroy(herd), 0); }
};
struct WorkerDeleter {
    void operator()(herd_worker *worker) const { CHECK_CODE(herd_worker_destroy(worker), 0); }
};

// The event first, so that a handler finds its connection.
struct Connection {
    herd_event event;
    int fd;
};

struct Server {
    std::string log;
    int served = 0;
    bool timer_fired = false;
};

} // namespace

int main()
{
    test_begin(30);
    Server server;
    static Server *current = &server;

    herd_config config = HERD_CONFIG_INIT;
    config.max_workers = 2;
    std::string name = "cxx-" + std::to_string(getpid());
    config.name = name.c_str();
    config.log_data = &server;
    config.log = [](void *log_data, int level, const char *message) {
        static_cast<Server *>(log_data)->log += std::to_string(level) + " " + message + "\n";
    };
    herd *made = nullptr;
    CHECK_CODE(herd_create(&config, &made), 0);
    std::unique_ptr<herd, HerdDeleter> herd(made);
    CHECK(server.log.find("mode") != std::string::npos);

    herd_listen_options options = HERD_LISTEN_OPTIONS_INIT;
    options.backlog = 16;
    herd_accept_fn on_accept = [](herd_worker *worker, int fd, const sockaddr *peer, uint32_t,
                                  void *) {
        CHECK_EQ(peer->sa_family, AF_INET);
        auto connection = std::make_unique<Connection>();
        connection->fd = fd;
        herd_event_fn on_request = [](herd_worker *worker, herd_event *event, uint32_t ready) {
            std::unique_ptr<Connection> connection(static_cast<Connection *>(event->data));
            char request[16];
            CHECK(ready & HERD_READ);
            CHECK_EQ(read(connection->fd, request, sizeof request), 5);
            CHECK_EQ(write(connection->fd, request, 5), 5);
            CHECK_CODE(herd_event_del(worker, event), 0);
            close(connection->fd);
            CHECK_EQ(herd_conn_closed(worker), 0);
            current->served++;
        };
        CHECK_CODE(herd_event_init(&connection->event, on_request, connection.get()), 0);
        CHECK_CODE(herd_event_add(worker, &connection->event, fd, HERD_READ), 0);
        connection.release();
    };
    int listener = herd_listen(herd.get(), "127.0.0.1:0", &options, on_accept, &server);
    CHECK_EQ(listener, 0);

    herd_worker *created = nullptr;
    CHECK_CODE(herd_worker_create(herd.get(), HERD_ANY_SLOT, &created), 0);
    std::unique_ptr<herd_worker, WorkerDeleter> worker(created);

    herd_timer timer;
    CHECK_CODE(herd_timer_init(
                   &timer,
                   [](herd_worker *, herd_timer *timer) {
                       static_cast<Server *>(timer->data)->timer_fired = true;
                   },
                   &server),
               0);
    CHECK_CODE(herd_timer_start(worker.get(), &timer, 0), 0);

    int client = connect_to(address_of(herd.get(), listener));
    CHECK_EQ(write(client, "hello", 5), 5);
    while (server.served == 0) {
        CHECK(herd_run_once(worker.get(), -1) >= 0);
    }
    char answer[16];
    CHECK_EQ(read(client, answer, sizeof answer), 5);
    CHECK(std::string(answer, 5) == "hello");
    CHECK_EQ(read(client, answer, sizeof answer), 0);
    close(client);
    CHECK(server.timer_fired);

    herd_stats stats{};
    stats.size = sizeof stats;
    CHECK_CODE(herd_stats_total(herd.get(), &stats), 0);
    CHECK_EQ(stats.accepted, 1);
    CHECK_EQ(stats.closed, 1);
    herd_accepted accepted = HERD_ACCEPTED_INIT;
    CHECK_CODE(herd_accept(worker.get(), &accepted), -EAGAIN);
    CHECK(herd_version_number() == HERD_VERSION_MAJOR * 10000 + HERD_VERSION_MINOR * 100 + HERD_VERSION_PATCH);
    CHECK_EQ(strcmp(herd_version_string(), HERD_VERSION_STRING), 0);
    CHECK_EQ(herd_abi(), HERD_ABI);
    CHECK_EQ(herd_is_alive(herd.get()), 1);
    CHECK_EQ(strcmp(herd_strerror(-4000), "unknown error code"), 0);
    return 0;
}
