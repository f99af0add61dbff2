/*
 * hello: a small HTTP/1.1 server in C++17 with <herd.hpp>: worker processes that share their listeners.
 *
 * usage: hello [ADDR [WORKERS]]    127.0.0.1:8080 and 2; with listeners passed by systemd, those instead of ADDR
 *
 * A server of your own keeps `client`'s members in their order, `serve` and `main`, and answers something else.
 * SIGTERM and SIGINT let the workers finish what they have. One that dies is replaced.
 */
#include <herd.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <utility>
#include <vector>

namespace {

using namespace std::string_view_literals;
using namespace std::chrono_literals;

constexpr std::size_t request_max_bytes = 8192;
constexpr auto idle_limit = 10s;

/* Lives as long as its connection: whatever ends it, the destructor takes it out of the worker and closes it. */
class client {
public:
    explicit client(libherd::connection accepted) : connection_(std::move(accepted)) {}

    bool start() { return !readable_.add(connection_.fd(), HERD_READ) && !silent_.start(idle_limit); }

private:
    void on_readable()
    {
        char bytes[4096];
        const ssize_t got = recv(connection_.fd(), bytes, sizeof bytes, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (got > 0) {
            request_.append(bytes, static_cast<std::size_t>(got));
        }
        if (got <= 0 || !answer_all() || silent_.start(idle_limit)) {
            delete this;
        }
    }

    bool answer_all() /* false: the connection is to be closed */
    {
        for (std::size_t end; (end = request_.find("\r\n\r\n")) != std::string::npos;) {
            const bool good = request_.compare(0, 4, "GET ") == 0;
            const auto state = connection_.worker().state();
            const bool keep = good && state && *state == HERD_WORKER_RUNNING
                && request_.substr(0, end).find("Connection: close") == std::string::npos;
            request_.erase(0, end + 4);
            const std::string_view body = good ? "hello\n"sv : "only GET\n"sv;
            std::string answer = good ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\n";
            answer += "X-Herd-Slot: " + std::to_string(*connection_.worker().slot());
            answer += "\r\nX-Herd-Pid: " + std::to_string(getpid());
            answer += "\r\nContent-Length: " + std::to_string(body.size());
            answer += keep ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
            answer += body;
            /* So short that it fits into the socket's buffer, unless the peer never reads: then it is closed. */
            const ssize_t sent = send(connection_.fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
            if (!keep || sent != static_cast<ssize_t>(answer.size())) {
                return false;
            }
        }
        return request_.size() < request_max_bytes;
    }

    std::string request_;
    libherd::connection connection_; /* before its event, so that it ends after it */
    libherd::event readable_{connection_.worker(), [this](std::uint32_t) { on_readable(); }};
    libherd::timer silent_{connection_.worker(), [this] { delete this; }};
};

void on_accept(libherd::connection connection, libherd::peer)
{
    auto accepted = std::make_unique<client>(std::move(connection));
    if (accepted->start()) {
        static_cast<void>(accepted.release()); /* its own from now on */
    }
}

[[noreturn]] void die(const char *what, const std::error_code &error)
{
    std::fprintf(stderr, "hello: %s: %s\n", what, error.message().c_str());
    std::exit(EXIT_FAILURE);
}

herd_worker *volatile running; /* a child's worker */

void on_signal(int)
{
    libherd::worker_ref(running).drain(); /* may be called in a signal handler */
}

/* `signals` are blocked until there is a worker that one can drain. 0: there can be none now. */
pid_t start_worker(const libherd::herd &herd, const sigset_t &signals)
{
    const pid_t pid = fork();
    if (pid < 0) {
        std::perror("hello: fork");
    }
    if (pid != 0) {
        return std::max(pid, 0);
    }
    auto worker = libherd::worker::create(herd);
    if (!worker) {
        die("worker", worker.error());
    }
    running = worker->get();
    std::signal(SIGTERM, on_signal);
    std::signal(SIGINT, on_signal);
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    if (const std::error_code error = worker->run()) {
        die("run", error);
    }
    std::_Exit(EXIT_SUCCESS);
}

} // namespace

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    const int workers = argc > 2 ? std::atoi(argv[2]) : 2;
    if (argc > 3 || workers < 1 || workers > HERD_MAX_WORKERS) {
        std::fputs("usage: hello [ADDR [WORKERS]]\n", stderr);
        return 2;
    }
    libherd::config config;
    config.max_workers = static_cast<std::uint32_t>(workers);
    auto herd = libherd::herd::create(config);
    if (!herd) {
        die("herd", herd.error());
    }
    auto passed = herd->listen_systemd(nullptr, on_accept);
    if (!passed) {
        die("listeners passed by systemd", passed.error());
    }
    if (*passed == 0) {
        if (auto listener = herd->listen(address, on_accept); !listener) {
            die(address, listener.error());
        }
    }
    sigset_t signals;
    sigemptyset(&signals);
    for (int number : {SIGTERM, SIGINT, SIGCHLD}) {
        sigaddset(&signals, number);
    }
    sigprocmask(SIG_BLOCK, &signals, nullptr); /* and taken with sigwaitinfo, so that none comes at a bad time */

    std::vector<pid_t> pids(static_cast<std::size_t>(workers));
    bool is_ready = false;
    for (int number = 0; number != SIGTERM && number != SIGINT;) {
        for (pid_t &pid : pids) {
            pid = pid == 0 ? start_worker(*herd, signals) : pid;
        }
        if (!std::exchange(is_ready, true)) {
            const std::string where = *herd->listener_address(0);
            std::printf("hello: ready on %s, %d workers, pid %d\n", where.c_str(), workers, getpid());
            std::fflush(stdout);
        }
        const timespec second{1, 0}; /* then what could not be started is tried again */
        number = sigtimedwait(&signals, nullptr, &second);
        for (pid_t ended; (ended = waitpid(-1, nullptr, WNOHANG)) > 0;) {
            herd->reap(ended);
            usleep(100000); /* one that ends at once is not started anew as fast as possible */
            std::replace(pids.begin(), pids.end(), ended, 0);
        }
    }
    for (pid_t pid : pids) {
        if (pid != 0) {
            kill(pid, SIGTERM);
        }
    }
    while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
    }
    return EXIT_SUCCESS;
}
