// herd.hpp: every return code is an error of one category, with the library's text, and equal to the
// std::errc of its errno.
#include "check.h"

#include <herd.hpp>

int main()
{
    test_begin(30);
    const std::error_code in_use = libherd::to_error(-EADDRINUSE);
    CHECK(in_use.category() == libherd::category());
    CHECK(std::string(in_use.category().name()) == "libherd");
    CHECK_EQ(in_use.value(), -EADDRINUSE);
    CHECK(in_use.message() == herd_strerror(-EADDRINUSE));
    CHECK(in_use == std::errc::address_in_use);
    CHECK(in_use != std::errc::permission_denied);
    CHECK(libherd::to_error(-4095).default_error_condition().category() == std::generic_category());

    const std::error_code no_slot = libherd::errc::no_slot;
    CHECK(no_slot == libherd::to_error(HERD_ENOSLOT));
    CHECK(no_slot != libherd::to_error(HERD_EREAPED));
    CHECK(no_slot.message() == herd_strerror(HERD_ENOSLOT));
    CHECK(no_slot.default_error_condition().category() == libherd::category());
    for (int code : {0, 1, INT32_MAX}) {
        CHECK(!libherd::to_error(code));
    }

    // As calls return them.
    auto herd = libherd::herd::create();
    CHECK(herd && !herd.error());
    const auto listener = herd->listen("127.0.0.1:0");
    CHECK(listener);
    CHECK_EQ(*listener, 0);
    const auto address = herd->listener_address(0);
    CHECK(address && *address == address_of(herd->get(), 0));
    CHECK(herd->listen(address->c_str()).error() == std::errc::address_in_use);
    CHECK(herd->listen("nowhere").error() == std::errc::invalid_argument);
    CHECK(herd->listener_address(7).error() == std::errc::no_such_file_or_directory);
    CHECK(herd->add_listener(-1).error() == std::errc::bad_file_descriptor);
    CHECK_EQ(*herd->listen_systemd(nullptr), 0);
    libherd::config config;
    config.mode = 77;
    CHECK(libherd::herd::create(config).error() == std::errc::invalid_argument);
    config = libherd::config();
    config.max_workers = 1;
    auto small = libherd::herd::create(config);
    CHECK(small);
    auto first = libherd::worker::create(*small), second = libherd::worker::create(*small);
    CHECK(first);
    CHECK(second.error() == libherd::errc::no_slot);
    CHECK(!*second);
    CHECK(first->run_once(std::chrono::hours(-1)).error() == std::errc::invalid_argument);
    CHECK(first->accept().error() == std::errc::resource_unavailable_try_again);
    libherd::timer timer(*first, [] {});
    CHECK(timer.start(std::chrono::milliseconds(-1)) == std::errc::invalid_argument);
    test_exit(0);
}
