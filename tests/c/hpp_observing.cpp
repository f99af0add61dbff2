// herd.hpp: a herd with a name is opened, read and let go by an owner, while it runs and when all of it
// has died; and one reads the same of a herd of its own.
#include "check.h"

#include <herd.hpp>

#include <vector>

static_assert(!std::is_copy_constructible_v<libherd::observer> && !std::is_copy_assignable_v<libherd::observer>);
static_assert(std::is_nothrow_move_constructible_v<libherd::observer>
              && std::is_nothrow_move_assignable_v<libherd::observer>);
static_assert(std::is_trivially_copyable_v<libherd::herd_ref>);
static_assert(std::is_constructible_v<libherd::herd_ref, ::herd *>
              && !std::is_constructible_v<libherd::herd_ref, const ::herd *>);
static_assert(sizeof(libherd::observer) == sizeof(void *) && sizeof(libherd::herd) == 2 * sizeof(void *));

namespace {

char name[64];

struct shared {
    char address[64];
    unsigned ready;
};

// One worker, which serves what it is sent in one turn: a request for each connection.
[[noreturn]] void serve(shared *to)
{
    libherd::config config;
    config.name = name;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 2;
    auto herd = libherd::herd::create(config);
    CHECK(herd);
    libherd::worker_ref own;
    CHECK(herd->listen("127.0.0.1:0", [&own](libherd::connection, libherd::peer) { CHECK(!own.request_done()); }));
    auto worker = libherd::worker::create(*herd);
    CHECK(worker);
    own = *worker;
    snprintf(to->address, sizeof to->address, "%s", herd->listener_address(0)->c_str());
    SHARED_SET(to->ready, 1u);
    CHECK(!worker->run());
    test_exit(1);
}

bool has(const std::string &text, const char *line)
{
    return text.find(line) != std::string::npos;
}

void reads(libherd::herd_ref herd, const char *alive)
{
    CHECK_EQ(*herd.mode(), HERD_MODE_MUTEX);
    CHECK_EQ(*herd.balance(), HERD_BALANCE_SPREAD);
    CHECK_EQ(*herd.slots(), 2);
    CHECK_EQ(herd.stats()->accepted, 1);
    CHECK_EQ(herd.stats()->requests, 1);
    CHECK_EQ(herd.stats(0)->accepted + herd.stats(1)->accepted, 1);
    CHECK(herd.stats(2).error() == std::errc::invalid_argument);
    CHECK_EQ(herd.histogram(HERD_HISTOGRAM_ACCEPT_DELAY)->count, 1);
    CHECK_EQ(herd.histogram(HERD_HISTOGRAM_ACCEPT_DELAY, 0)->count + herd.histogram(HERD_HISTOGRAM_ACCEPT_DELAY, 1)->count,
             1);
    CHECK(herd.histogram(99).error() == std::errc::invalid_argument);
    const auto text = herd.stats_text();
    CHECK(text && text->find('\0') == std::string::npos && text->back() == '\n');
    CHECK(has(*text, "\nherd_workers 1\n") && has(*text, alive));
}

} // namespace

int main()
{
    test_begin(30);
    snprintf(name, sizeof name, "hpp-%d", static_cast<int>(getpid()));
    const int fds = open_fds();
    CHECK(libherd::observer::open(name).error() == std::errc::no_such_file_or_directory);
    CHECK(libherd::observer::open(nullptr).error() == std::errc::invalid_argument);
    auto *server = static_cast<shared *>(shared_memory(sizeof(shared)));
    const pid_t pid = test_fork();
    if (pid == 0) {
        serve(server);
    }
    WAIT_UNTIL(SHARED_GET(server->ready), 10000);
    {
        auto opened = libherd::observer::open(name);
        CHECK(opened);
        libherd::observer observer = std::move(*opened), other;
        CHECK(!*opened && opened->stats().error() == std::errc::invalid_argument);
        CHECK(opened->stats_text().error() == std::errc::invalid_argument);
        close(connect_to(server->address));
        WAIT_UNTIL(observer.stats()->closed == 1, 10000);
        WAIT_UNTIL(observer.stats(0)->state == HERD_STATE_IDLE, 10000);
        CHECK(*observer.is_alive());
        reads(observer, "\nherd_alive 1\n");
        other = std::move(observer);
        CHECK(!observer && *other.is_alive());
        test_kill(pid);
        WAIT_UNTIL(!*other.is_alive(), 10000);
        reads(other, "\nherd_alive 0\n");
        auto late = libherd::observer::open(name);
        CHECK(late && !*late->is_alive());
        other = std::move(*late); // lets go of the one before
        reads(other, "\nherd_alive 0\n");
        other.close();
        CHECK(other.slots().error() == std::errc::invalid_argument);
        other.close(); // nothing to do
    }
    CHECK_EQ(open_fds(), fds);

    libherd::config config;
    config.name = name;
    config.mode = HERD_MODE_MUTEX;
    config.max_workers = 3;
    {
        auto own = libherd::herd::create(config);
        CHECK(own && *own->is_alive());
        const libherd::herd_ref looked_at = *own;
        CHECK_EQ(looked_at.stats()->workers, 0);
        CHECK(has(*looked_at.stats_text(), "\nherd_workers 0\n"));
        // What has room in it at first has room for all that comes.
        const int room = herd_stats_text(own->get(), nullptr, 0);
        std::vector<libherd::worker> workers;
        for (int i = 0; i < *own->slots(); i++) {
            auto worker = libherd::worker::create(*own);
            CHECK(worker && worker->run_once(std::chrono::milliseconds(0)));
            workers.push_back(std::move(*worker));
        }
        CHECK(static_cast<int>(looked_at.stats_text()->size()) < room);
    }
    CHECK(libherd::observer::open(name).error() == std::errc::no_such_file_or_directory);
    CHECK_EQ(open_fds(), fds);
    test_exit(0);
}
