/*
 * libherd for C++17 and newer: <herd.h> with owners instead of destroy calls, std::error_code instead
 * of int, and lambdas instead of function and data pointers. Header only; the same library is linked.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * <herd.h> says what each call does and who may make it. In addition:
 *
 * Namespace. `libherd`: C has taken the name `herd` for a struct, so it cannot be a namespace. For the same
 * reason `using namespace libherd` makes a plain `herd` ambiguous: write `libherd::herd`.
 *
 * Errors. Nothing here throws of its own, and it works with -fno-exceptions and -fno-rtti. A call
 * returns std::error_code, or result<T> where it has something to give: [[nodiscard]], but for calls
 * that end something.
 * Error codes are of `libherd::category()` and compare with std::errc where they are an errno:
 * `error == std::errc::address_in_use`.
 *
 * Exceptions. A callback that lets one out ends the process by std::terminate, whose handler can
 * still ask std::current_exception. None passes through the library, where it would leave work half
 * done. Catch inside of the callback what is meant to be survived.
 *
 * Owners. `herd`, `observer`, `worker` and `connection` move and are not copied; `event` and `timer`
 * stay where they are, being linked into the worker, and belong as members into the host's own object.
 * An owner whose end fails in its destructor or in an assignment tells nobody: `destroy` does. Empty or
 * moved-from ones answer every call with -EINVAL, but ending them does nothing. Ends come in this order:
 * events and timers, then their connections, then the worker, then the herd. Members are destroyed in
 * reverse, so: the connection is declared before its event.
 *
 * Allocations. None by an event, a timer or a connection: a handler is kept inside of its event and
 * has room for three pointers. `herd::listen` and its like make one, for the callback.
 */

#ifndef HERD_HPP
#define HERD_HPP

#include "herd.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace libherd {

// --- Errors ----------------------------------------------------------------------------------

/// The library's own codes: see HERD_E... in <herd.h>. The others are negated errno values.
enum class errc : int {
    forked = HERD_EFORKED,
    poisoned = HERD_EPOISONED,
    reentered = HERD_EREENTERED,
    destroyed = HERD_EDESTROYED,
    internal = HERD_EINTERNAL,
    abi = HERD_EABI,
    no_slot = HERD_ENOSLOT,
    reaped = HERD_EREAPED,
    nested = HERD_ENESTED,
    host_loop = HERD_EHOSTLOOP,
    version = HERD_EVERSION,
    damaged = HERD_EDAMAGED,
    observer = HERD_EOBSERVER
};

namespace detail {

// One in the whole process, also where a program's parts are built with -fvisibility=hidden: std::error_code
// compares categories by address.
class __attribute__((visibility("default"))) error_category final : public std::error_category {
public:
    const char *name() const noexcept override { return "libherd"; }

    std::string message(int code) const override { return herd_strerror(code); }

    std::error_condition default_error_condition(int code) const noexcept override
    {
        constexpr int lowest_errno = -4095;
        return code < 0 && code >= lowest_errno ? std::error_condition(-code, std::generic_category())
                                                : std::error_condition(code, *this);
    }
};

} // namespace detail

/// The category of every error code of the library. Their values are the return codes of <herd.h>.
__attribute__((visibility("default"))) inline const std::error_category &category() noexcept
{
    static const detail::error_category instance;
    return instance;
}

inline std::error_code make_error_code(errc code) noexcept
{
    return {static_cast<int>(code), category()};
}

/// A return code of <herd.h>: no error from 0 on.
[[nodiscard]] inline std::error_code to_error(int code) noexcept
{
    return code < 0 ? std::error_code(code, category()) : std::error_code();
}

/// What a call gives, or why it does not: true if it does. Without one, the value is an empty one.
template <class T>
class result {
public:
    result(T value) noexcept : value_(std::move(value)) {}
    result(std::error_code error) noexcept : error_(error) {}

    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    std::error_code error() const noexcept { return error_; }

    T &operator*() & noexcept { return value_; }
    const T &operator*() const & noexcept { return value_; }
    T &&operator*() && noexcept { return std::move(value_); }
    T *operator->() noexcept { return std::addressof(value_); }
    const T *operator->() const noexcept { return std::addressof(value_); }

private:
    T value_{};
    std::error_code error_;
};

namespace detail {

/// A return code whose success is a number, or a yes.
template <class T = int>
result<T> to_result(int code) noexcept
{
    if (code < 0) {
        return to_error(code);
    }
    return static_cast<T>(code);
}

inline int to_timeout_ms(std::chrono::milliseconds timeout) noexcept
{
    using limits = std::numeric_limits<int>;
    const auto count = timeout.count();
    return count > limits::max() ? limits::max() : count < limits::min() ? limits::min() : static_cast<int>(count);
}

/// A handler inside of its event or timer. It is copied and dropped as bytes, so that it can run from
/// a copy on the stack, and may end the object that it is part of.
class inplace_handler {
public:
    template <class F>
    explicit inplace_handler(const F &function) noexcept
    {
        static_assert(sizeof(F) <= sizeof bytes_ && alignof(F) <= alignof(void *),
                      "a handler has room for three pointers: capture `this`, or references");
        static_assert(std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>,
                      "a handler captures pointers, references and numbers only");
        ::new (static_cast<void *>(bytes_)) F(function);
    }

    template <class F>
    F get() const noexcept
    {
        return *std::launder(reinterpret_cast<const F *>(bytes_));
    }

private:
    alignas(void *) unsigned char bytes_[3 * sizeof(void *)];
};

} // namespace detail

// --- The herd's workers ----------------------------------------------------------------------

/// For timeouts: as long as it takes.
inline constexpr std::chrono::milliseconds forever{-1};

class connection;

/// A worker that somebody else owns: a pointer with the calls on it, to be passed by value.
class worker_ref {
public:
    worker_ref() noexcept = default;
    worker_ref(herd_worker *worker) noexcept : worker_(worker) {}

    herd_worker *get() const noexcept { return worker_; }
    explicit operator bool() const noexcept { return worker_ != nullptr; }

    [[nodiscard]] result<int> slot() const noexcept { return detail::to_result(herd_worker_slot(worker_)); }
    /// HERD_WORKER_...
    [[nodiscard]] result<int> state() const noexcept { return detail::to_result(herd_worker_state(worker_)); }

    [[nodiscard]] std::error_code run() const noexcept { return to_error(herd_run(worker_)); }
    [[nodiscard]] result<int> run_once(std::chrono::milliseconds timeout = forever) const noexcept
    {
        return detail::to_result(herd_run_once(worker_, detail::to_timeout_ms(timeout)));
    }

    /// These two may be called in any thread of the process, and in signal handlers.
    std::error_code stop() const noexcept { return to_error(herd_stop(worker_)); }
    std::error_code drain() const noexcept { return to_error(herd_drain(worker_)); }

    /// The next connection of the listeners that have no callback.
    [[nodiscard]] inline result<connection> accept() const noexcept;
    [[nodiscard]] inline result<connection> accept(herd_accepted &details) const noexcept;

    [[nodiscard]] result<int> conn_opened() const noexcept { return detail::to_result(herd_conn_opened(worker_)); }
    [[nodiscard]] std::error_code request_done() const noexcept { return to_error(herd_request_done(worker_)); }
    [[nodiscard]] result<int> conn_closed() const noexcept { return detail::to_result(herd_conn_closed(worker_)); }
    [[nodiscard]] std::error_code set_load(std::int64_t load) const noexcept
    {
        return to_error(herd_set_load(worker_, load));
    }

    // nginx's parts of a turn.
    [[nodiscard]] result<bool> trylock() const noexcept { return detail::to_result<bool>(herd_trylock(worker_)); }
    [[nodiscard]] result<bool> unlock() const noexcept { return detail::to_result<bool>(herd_unlock(worker_)); }
    [[nodiscard]] std::error_code enable_accept() const noexcept { return to_error(herd_enable_accept(worker_)); }
    [[nodiscard]] std::error_code disable_accept() const noexcept { return to_error(herd_disable_accept(worker_)); }
    [[nodiscard]] result<int> process_events(std::chrono::milliseconds timeout, std::uint32_t flags) const noexcept
    {
        return detail::to_result(herd_process_events(worker_, detail::to_timeout_ms(timeout), flags));
    }
    [[nodiscard]] result<int> process_posted(std::uint32_t queue) const noexcept
    {
        return detail::to_result(herd_process_posted(worker_, queue));
    }
    [[nodiscard]] result<int> process_timers() const noexcept
    {
        return detail::to_result(herd_process_timers(worker_));
    }
    [[nodiscard]] result<int> posted_count(std::uint32_t queue) const noexcept
    {
        return detail::to_result(herd_posted_count(worker_, queue));
    }
    [[nodiscard]] result<int> accept_disabled() const noexcept
    {
        return detail::to_result(herd_accept_disabled(worker_));
    }

    // A loop of the host's.
    [[nodiscard]] std::error_code attach_epoll(int epfd, std::uint64_t epoll_data) const noexcept
    {
        return to_error(herd_attach_epoll(worker_, epfd, epoll_data));
    }
    [[nodiscard]] result<int> fd() const noexcept { return detail::to_result(herd_worker_fd(worker_)); }
    /// Milliseconds.
    [[nodiscard]] result<int> prepare(std::chrono::milliseconds timeout = forever) const noexcept
    {
        return detail::to_result(herd_prepare(worker_, detail::to_timeout_ms(timeout)));
    }
    [[nodiscard]] result<int> check() const noexcept { return detail::to_result(herd_check(worker_)); }

protected:
    herd_worker *worker_ = nullptr;
};

/// An accepted connection: its end closes the descriptor, and counts it as closed. It knows of no epoll set:
/// before its end the event that watches it ends, or in a loop of the host's own the descriptor leaves the set
/// (EPOLL_CTL_DEL), since close(2) does not always take it out.
class connection {
public:
    connection() noexcept = default;
    connection(worker_ref worker, int fd) noexcept : worker_(worker), fd_(fd) {}
    connection(connection &&other) noexcept : worker_(other.worker_), fd_(other.release()) {}
    connection &operator=(connection &&other) noexcept
    {
        if (this != &other) {
            close();
            worker_ = other.worker_;
            fd_ = other.release();
        }
        return *this;
    }
    ~connection() { close(); }

    int fd() const noexcept { return fd_; }
    /// The one that accepted it.
    worker_ref worker() const noexcept { return worker_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

    void close() noexcept
    {
        const int fd = release();
        if (fd >= 0) {
            ::close(fd);
            static_cast<void>(worker_.conn_closed());
        }
    }

    /// Its descriptor, for the caller to close and to count as closed.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

private:
    worker_ref worker_;
    int fd_ = -1;
};

inline result<connection> worker_ref::accept(herd_accepted &details) const noexcept
{
    details.size = sizeof details;
    const int code = herd_accept(worker_, &details);
    if (code < 0) {
        return to_error(code);
    }
    return connection(*this, details.fd);
}

inline result<connection> worker_ref::accept() const noexcept
{
    herd_accepted details;
    return accept(details);
}

// --- Events and timers -----------------------------------------------------------------------

/// Something that happens on a descriptor, or that is posted: then `handler` runs, as
/// `void(std::uint32_t ready)`. Its end, also within its own handler, takes it out of the worker.
class event {
public:
    template <class F, class = std::enable_if_t<std::is_invocable_v<F &, std::uint32_t>>>
    event(worker_ref worker, F handler) noexcept : worker_(worker), handler_(handler)
    {
        static_assert(std::is_invocable_v<const F &, std::uint32_t>,
                      "a handler is called const, so no mutable lambda: capture a reference to what it changes");
        herd_event_init(&event_, run<F>, this);
    }
    event(const event &) = delete;
    event &operator=(const event &) = delete;
    ~event() { static_cast<void>(herd_event_del(worker_.get(), &event_)); }

    /// For the calls of <herd.h>.
    herd_event *get() noexcept { return &event_; }
    worker_ref worker() const noexcept { return worker_; }
    /// The descriptor while added, else -1.
    int fd() const noexcept { return event_.fd; }
    std::uint32_t interest() const noexcept { return event_.interest; }

    [[nodiscard]] std::error_code add(int fd, std::uint32_t interest) noexcept
    {
        return to_error(herd_event_add(worker_.get(), &event_, fd, interest));
    }
    [[nodiscard]] std::error_code mod(std::uint32_t interest) noexcept
    {
        return to_error(herd_event_mod(worker_.get(), &event_, interest));
    }
    std::error_code del() noexcept { return to_error(herd_event_del(worker_.get(), &event_)); }

    [[nodiscard]] result<bool> post(std::uint32_t queue = HERD_POSTED_EVENTS) noexcept
    {
        return detail::to_result<bool>(herd_post(worker_.get(), &event_, queue));
    }
    [[nodiscard]] result<bool> unpost() noexcept { return detail::to_result<bool>(herd_unpost(worker_.get(), &event_)); }
    /// From any thread of the process.
    [[nodiscard]] result<bool> post_remote() noexcept
    {
        return detail::to_result<bool>(herd_post_remote(worker_.get(), &event_));
    }

private:
    template <class F>
    static void run(herd_worker *, herd_event *ready_event, std::uint32_t ready) noexcept
    {
        const F handler = static_cast<const event *>(ready_event->data)->handler_.template get<F>();
        handler(ready);
    }

    herd_event event_;
    worker_ref worker_;
    detail::inplace_handler handler_;
};

/// Runs `handler`, as `void()`, once after each start. Its end, also within its own handler, stops it.
class timer {
public:
    template <class F, class = std::enable_if_t<std::is_invocable_v<F &>>>
    timer(worker_ref worker, F handler) noexcept : worker_(worker), handler_(handler)
    {
        static_assert(std::is_invocable_v<const F &>,
                      "a handler is called const, so no mutable lambda: capture a reference to what it changes");
        herd_timer_init(&timer_, run<F>, this);
    }
    timer(const timer &) = delete;
    timer &operator=(const timer &) = delete;
    ~timer() { static_cast<void>(herd_timer_stop(worker_.get(), &timer_)); }

    herd_timer *get() noexcept { return &timer_; }
    worker_ref worker() const noexcept { return worker_; }

    [[nodiscard]] std::error_code start(std::chrono::milliseconds after) noexcept
    {
        if (after.count() < 0) {
            return to_error(-EINVAL);
        }
        return to_error(herd_timer_start(worker_.get(), &timer_, static_cast<std::uint64_t>(after.count())));
    }
    /// Whether it was pending.
    result<bool> stop() noexcept { return detail::to_result<bool>(herd_timer_stop(worker_.get(), &timer_)); }

private:
    template <class F>
    static void run(herd_worker *, herd_timer *expired) noexcept
    {
        const F handler = static_cast<const timer *>(expired->data)->handler_.template get<F>();
        handler();
    }

    herd_timer timer_;
    worker_ref worker_;
    detail::inplace_handler handler_;
};

// --- The herd --------------------------------------------------------------------------------

/// Who connected; valid while the callback runs. A length of 0: not known.
struct peer {
    const sockaddr *address;
    std::uint32_t length_bytes;
};

/// A herd_config with its defaults.
struct config : herd_config {
    config() noexcept : herd_config HERD_CONFIG_INIT {}

    /// `sink` gets messages, as `void(int level, const char *message)`. It has to outlive the herd.
    template <class F>
    void log_to(F &sink) noexcept
    {
        log_data = data_of(sink);
        log = [](void *data, int level, const char *message) noexcept { (*static_cast<F *>(data))(level, message); };
    }

    /// `policy` decides, as `bool(std::uint64_t own_load, std::uint64_t least_load)`. It has to outlive
    /// the herd.
    template <class F>
    void balance_by(F &policy) noexcept
    {
        balance = HERD_BALANCE_CALLBACK;
        balance_data = data_of(policy);
        balance_callback = [](void *data, std::uint64_t own_load, std::uint64_t least_load) noexcept {
            return (*static_cast<F *>(data))(own_load, least_load) ? 1 : 0;
        };
    }

    /// `pick` names the slot of a connection's worker, or HERD_PICK, as `int(libherd::peer)`, in
    /// HERD_MODE_HANDOFF. It has to outlive the herd.
    template <class F>
    void pick_by(F &pick) noexcept
    {
        pick_data = data_of(pick);
        pick_callback = [](void *data, const sockaddr *address, std::uint32_t length_bytes) noexcept -> int {
            return (*static_cast<F *>(data))(peer{address, length_bytes});
        };
    }

private:
    template <class F>
    static void *data_of(F &function) noexcept
    {
        return const_cast<void *>(static_cast<const void *>(std::addressof(function)));
    }
};

/// A herd_listen_options with its defaults.
struct listen_options : herd_listen_options {
    listen_options() noexcept : herd_listen_options HERD_LISTEN_OPTIONS_INIT {}
};

namespace detail {

/// The callback of a listener, for as long as the herd has the listener; or that for sent connections.
struct accept_handler {
    static constexpr int of_several = -1, of_sent = -2;

    accept_handler *next = nullptr;
    int listener = of_several;

    virtual ~accept_handler() = default;
};

template <class F>
struct accept_handler_of final : accept_handler {
    const F function;

    explicit accept_handler_of(F &&moved) : function(std::move(moved)) {}

    static void run(herd_worker *worker, int fd, const sockaddr *address, std::uint32_t length_bytes,
                    void *data) noexcept
    {
        const auto *self = static_cast<const accept_handler_of *>(data);
        self->function(connection(worker, fd), peer{address, length_bytes});
    }

    static void run_sent(herd_worker *worker, int fd, const sockaddr *address, std::uint32_t length_bytes,
                         const void *tag, std::size_t tag_bytes, void *data) noexcept
    {
        const auto *self = static_cast<const accept_handler_of *>(data);
        self->function(connection(worker, fd), peer{address, length_bytes},
                       std::string_view(static_cast<const char *>(tag), tag_bytes));
    }
};

template <class F>
using if_accepts = std::enable_if_t<std::is_invocable_v<F &, connection, peer>>;

template <class F>
using if_takes_sent = std::enable_if_t<std::is_invocable_v<F &, connection, peer, std::string_view>>;

} // namespace detail

/// A herd that somebody else owns, to be looked at: a pointer with the reading calls on it, to be passed by
/// value.
class herd_ref {
public:
    herd_ref() noexcept = default;
    herd_ref(::herd *of) noexcept : herd_(of) {}

    /// For the calls of <herd.h>.
    ::herd *get() const noexcept { return herd_; }
    explicit operator bool() const noexcept { return herd_ != nullptr; }

    /// HERD_MODE_... and HERD_BALANCE_... in force.
    [[nodiscard]] result<int> mode() const noexcept { return detail::to_result(herd_mode(herd_)); }
    [[nodiscard]] result<int> balance() const noexcept { return detail::to_result(herd_balance(herd_)); }
    [[nodiscard]] result<int> slots() const noexcept { return detail::to_result(herd_slots(herd_)); }
    [[nodiscard]] result<bool> is_alive() const noexcept { return detail::to_result<bool>(herd_is_alive(herd_)); }

    /// Figures of the whole herd, or of one slot.
    [[nodiscard]] result<herd_stats> stats() const noexcept
    {
        return filled<herd_stats>([this](herd_stats *total) noexcept { return herd_stats_total(herd_, total); });
    }
    [[nodiscard]] result<herd_stats> stats(int slot) const noexcept
    {
        return filled<herd_stats>([&](herd_stats *own) noexcept { return herd_stats_worker(herd_, slot, own); });
    }

    /// `which` is HERD_HISTOGRAM_...
    [[nodiscard]] result<herd_histogram> histogram(std::uint32_t which, int slot = HERD_ALL_SLOTS) const noexcept
    {
        return filled<herd_histogram>(
            [&](herd_histogram *times) noexcept { return herd_stats_histogram(herd_, slot, which, times); });
    }

    /// All figures as text for Prometheus.
    [[nodiscard]] result<std::string> stats_text() const
    {
        const int room = herd_stats_text(herd_, nullptr, 0);
        if (room < 0) {
            return to_error(room);
        }
        std::string text(static_cast<std::size_t>(room), '\0');
        const int length = herd_stats_text(herd_, text.data(), text.size());
        if (length < 0) {
            return to_error(length);
        }
        text.resize(static_cast<std::size_t>(length));
        return text;
    }

protected:
    ::herd *herd_ = nullptr;

private:
    template <class T, class Read>
    static result<T> filled(const Read &read) noexcept
    {
        T figures{};
        figures.size = sizeof figures;
        const int code = read(&figures);
        return code < 0 ? result<T>(to_error(code)) : result<T>(figures);
    }
};

/// A herd that other processes run, or ran, opened by its name to be looked at.
class observer : public herd_ref {
public:
    observer() noexcept = default;
    observer(observer &&other) noexcept : herd_ref(std::exchange(other.herd_, nullptr)) {}
    observer &operator=(observer &&other) noexcept
    {
        if (this != &other) {
            close();
            herd_ = std::exchange(other.herd_, nullptr);
        }
        return *this;
    }
    ~observer() { close(); }

    /// "web", or "33:web" for the herd of the user with id 33.
    [[nodiscard]] static result<observer> open(const char *name) noexcept
    {
        observer opened;
        if (const auto error = to_error(herd_open(name, &opened.herd_))) {
            return error;
        }
        return opened;
    }

    void close() noexcept
    {
        if (herd_ != nullptr) {
            herd_destroy(std::exchange(herd_, nullptr));
        }
    }
};

/// Made by the parent before it forks or starts the threads that are to be workers.
///
/// `on_accept` is called as `void(libherd::connection, libherd::peer)` by every worker, so by several
/// at once if they are threads: it is kept const. In a forked child it is the child's own copy.
/// Without it, connections are taken with `worker_ref::accept`.
class herd : public herd_ref {
public:
    herd() noexcept = default;
    herd(herd &&other) noexcept
        : herd_ref(std::exchange(other.herd_, nullptr)), handlers_(std::exchange(other.handlers_, nullptr))
    {
    }
    herd &operator=(herd &&other) noexcept
    {
        if (this != &other) {
            static_cast<void>(destroy());
            herd_ = std::exchange(other.herd_, nullptr);
            handlers_ = std::exchange(other.handlers_, nullptr);
        }
        return *this;
    }
    /// A herd that a worker of this process still uses stays as it is, for ever.
    ~herd() { static_cast<void>(destroy()); }

    [[nodiscard]] static result<herd> create(const herd_config &config = libherd::config()) noexcept
    {
        herd created;
        if (const auto error = to_error(herd_create(&config, &created.herd_))) {
            return error;
        }
        return created;
    }

    /// What the destructor does, with an answer: -EBUSY while a worker of this process is there.
    std::error_code destroy() noexcept
    {
        const int code = herd_ != nullptr ? herd_destroy(herd_) : 0;
        if (code == 0) {
            while (handlers_ != nullptr) {
                delete std::exchange(handlers_, handlers_->next);
            }
            herd_ = nullptr;
        }
        return to_error(code);
    }

    /// 1: a program in the kernel sends connections to workers (HERD_MODE_REUSEPORT); 0: none does.
    [[nodiscard]] result<int> is_steered() const noexcept { return detail::to_result(herd_is_steered(herd_)); }

    /// The number of the new listener.
    template <class F, class = detail::if_accepts<F>>
    [[nodiscard]] result<int> listen(const char *address, F on_accept,
                                     const herd_listen_options &options = listen_options())
    {
        return with_handler(std::move(on_accept), true, [&](herd_accept_fn run, void *data) noexcept {
            return herd_listen(herd_, address, &options, run, data);
        });
    }
    [[nodiscard]] result<int> listen(const char *address,
                                     const herd_listen_options &options = listen_options()) noexcept
    {
        return detail::to_result(herd_listen(herd_, address, &options, nullptr, nullptr));
    }

    template <class F, class = detail::if_accepts<F>>
    [[nodiscard]] result<int> add_listener(int fd, F on_accept)
    {
        return with_handler(std::move(on_accept), true, [&](herd_accept_fn run, void *data) noexcept {
            return herd_add_listener(herd_, fd, run, data);
        });
    }
    [[nodiscard]] result<int> add_listener(int fd) noexcept
    {
        return detail::to_result(herd_add_listener(herd_, fd, nullptr, nullptr));
    }

    /// How many listeners were added. `name` may be null: all that were passed.
    template <class F, class = detail::if_accepts<F>>
    [[nodiscard]] result<int> listen_systemd(const char *name, F on_accept)
    {
        return with_handler(std::move(on_accept), false, [&](herd_accept_fn run, void *data) noexcept {
            return herd_listen_systemd(herd_, name, run, data);
        });
    }
    [[nodiscard]] result<int> listen_systemd(const char *name) noexcept
    {
        return detail::to_result(herd_listen_systemd(herd_, name, nullptr, nullptr));
    }

    [[nodiscard]] std::error_code remove_listener(int listener) noexcept
    {
        const int code = herd_remove_listener(herd_, listener);
        if (code == 0) {
            forget(listener);
        }
        return to_error(code);
    }

    /// `on_sent` is called as `void(libherd::connection, libherd::peer, std::string_view tag)`, otherwise as
    /// `on_accept`, with what came by `handoff_send`. Peer and tag are valid while it runs.
    template <class F, class = detail::if_takes_sent<F>>
    [[nodiscard]] std::error_code on_handoff(F on_sent)
    {
        static_assert(std::is_invocable_v<const F &, connection, peer, std::string_view>,
                      "on_sent is called const, so no mutable lambda: capture a reference to what it changes");
        auto handler = new_handler(std::move(on_sent));
        if (handler == nullptr) {
            return to_error(-ENOMEM);
        }
        const int code = herd_on_handoff(herd_, handler->run_sent, handler.get());
        if (code == 0) {
            forget(detail::accept_handler::of_sent);
            keep(std::move(handler), detail::accept_handler::of_sent);
        }
        return to_error(code);
    }

    /// The slot that the connection was sent to. `fd` is closed then; on an error it stays the caller's.
    [[nodiscard]] result<int> handoff_send(int fd, std::string_view tag = {}, int slot = HERD_PICK) const noexcept
    {
        return detail::to_result(herd_handoff_send(herd_, slot, fd, tag.data(), tag.size()));
    }
    /// The same with one that a worker of this thread has: it is empty then, and counts as closed. On an error
    /// nothing has changed.
    [[nodiscard]] result<int> handoff_send(connection &client, std::string_view tag = {},
                                           int slot = HERD_PICK) const noexcept
    {
        const auto sent = handoff_send(client.fd(), tag, slot);
        if (sent) {
            static_cast<void>(client.release());
            static_cast<void>(client.worker().conn_closed());
        }
        return sent;
    }

    [[nodiscard]] result<std::string> listener_address(int listener) const
    {
        char text[160]; // a Unix socket's address has 108 bytes at most
        const int length = herd_listener_address(herd_, listener, text, sizeof text);
        if (length < 0) {
            return to_error(length);
        }
        return std::string(text, static_cast<std::size_t>(length));
    }
    [[nodiscard]] result<int> listener_fd(int listener) const noexcept
    {
        return detail::to_result(herd_listener_fd(herd_, listener));
    }
    [[nodiscard]] result<int> slot_listener_fd(int listener, int slot) const noexcept
    {
        return detail::to_result(herd_slot_listener_fd(herd_, listener, slot));
    }

    /// The slots freed.
    result<int> reap(int pid) const noexcept { return detail::to_result(herd_reap(herd_, pid)); }
    /// Whether the slot has a worker that lives.
    [[nodiscard]] result<bool> worker_alive(int slot) const noexcept
    {
        return detail::to_result<bool>(herd_worker_alive(herd_, slot));
    }
    [[nodiscard]] result<int> free_slots() const noexcept { return detail::to_result(herd_free_slots(herd_)); }

private:
    /// `add` gives the listener, or how many there are, as it says with `is_one`.
    template <class F, class Add>
    result<int> with_handler(F &&on_accept, bool is_one, const Add &add)
    {
        static_assert(std::is_invocable_v<const F &, connection, peer>,
                      "on_accept is called const, so no mutable lambda: capture a reference to what it changes");
        auto handler = new_handler(std::forward<F>(on_accept));
        if (handler == nullptr) {
            return to_error(-ENOMEM);
        }
        const int code = add(handler->run, handler.get());
        if (code > 0 || (is_one && code == 0)) {
            keep(std::move(handler), is_one ? code : detail::accept_handler::of_several);
        }
        return detail::to_result(code);
    }

    template <class F>
    static std::unique_ptr<detail::accept_handler_of<F>> new_handler(F &&function)
    {
        using handler_type = detail::accept_handler_of<F>;
        return std::unique_ptr<handler_type>(new (std::nothrow) handler_type(std::move(function)));
    }

    void keep(std::unique_ptr<detail::accept_handler> handler, int listener) noexcept
    {
        handler->listener = listener;
        handler->next = handlers_;
        handlers_ = handler.release();
    }

    void forget(int listener) noexcept
    {
        for (detail::accept_handler **at = &handlers_; *at != nullptr; at = &(*at)->next) {
            if ((*at)->listener == listener) {
                delete std::exchange(*at, (*at)->next);
                break;
            }
        }
    }

    detail::accept_handler *handlers_ = nullptr;
};

/// A worker of this process, made in the child after the fork, or in the thread that runs it.
///
/// It cannot end in a callback of its own (HERD_EREENTERED). Destroyed or assigned to there, it lets go of
/// the worker, which keeps its slot and its descriptors until the process ends: leave the loop first
/// (`stop`), or ask `destroy`.
class worker : public worker_ref {
public:
    worker() noexcept = default;
    worker(worker &&other) noexcept : worker_ref(other.release()) {}
    worker &operator=(worker &&other) noexcept
    {
        if (this != &other) {
            static_cast<void>(destroy());
            worker_ = other.release();
        }
        return *this;
    }
    ~worker() { static_cast<void>(destroy()); }

    [[nodiscard]] static result<worker> create(const herd &of, int slot = HERD_ANY_SLOT) noexcept
    {
        worker created;
        if (const auto error = to_error(herd_worker_create(of.get(), slot, &created.worker_))) {
            return error;
        }
        return created;
    }

    /// What the destructor does, with an answer: HERD_EREENTERED in a callback, where it cannot be.
    std::error_code destroy() noexcept
    {
        const int code = worker_ != nullptr ? herd_worker_destroy(worker_) : 0;
        if (code == 0) {
            worker_ = nullptr;
        }
        return to_error(code);
    }

    /// The worker, for the caller to destroy.
    [[nodiscard]] herd_worker *release() noexcept { return std::exchange(worker_, nullptr); }
};

} // namespace libherd

template <>
struct std::is_error_code_enum<libherd::errc> : std::true_type {};

#endif /* HERD_HPP */
