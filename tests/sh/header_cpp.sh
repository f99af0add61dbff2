#!/bin/sh
# herd.hpp compiles alone, in C++17 and newer, without exceptions and run-time types, by each compiler
# that is here, without a warning that a host may have switched on. HERD_TEST_SLOW=1: each standard, each way.
# timeout: 120
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wcast-qual
    -Wnon-virtual-dtor -Woverloaded-virtual -Wundef -Werror -fsyntax-only'

cp "$root/include/herd.h" "$root/include/herd.hpp" "$tmp/"
# Every template used once; in the second line, that a second inclusion adds nothing.
cat >"$tmp/alone.cpp" <<'END'
#include "herd.hpp"
#include "herd.hpp"
int main()
{
    libherd::config config;
    auto log = [](int, const char *) {};
    auto policy = [](std::uint64_t, std::uint64_t) { return true; };
    config.log_to(log);
    config.balance_by(policy);
    auto herd = libherd::herd::create(config);
    auto accept = [](libherd::connection, libherd::peer) {};
    if (!herd || !herd->listen("127.0.0.1:0", accept) || !herd->add_listener(3, accept)
        || !herd->listen_systemd(nullptr, accept)) {
        return 1;
    }
    auto observer = libherd::observer::open("herd");
    if (observer && observer->stats(0) && observer->histogram(HERD_HISTOGRAM_HANDOVER) && observer->stats_text()) {
        return 2;
    }
    auto worker = libherd::worker::create(*herd);
    libherd::event event(*worker, [&herd](std::uint32_t) { static_cast<void>(herd->stats()); });
    libherd::timer timer(*worker, [&event] { static_cast<void>(event.post()); });
    return worker->run() == libherd::errc::forked;
}
END
# Compilers run side by side. all_well: none of those begun has failed.
pids=
begin() { "$@" & pids="$pids $!"; }
all_well() {
    for pid in $pids; do wait "$pid"; done
    pids=
}
compilers=
for compiler in "${CXX:-c++}" g++ clang++; do
    real=$(readlink -f "$(command -v "${compiler%% *}")") || continue
    case " $compilers " in *" $real "*) continue ;; esac # one and the same by another name
    compilers="$compilers $real"
    begin $compiler -std=c++17 $warnings "$tmp/alone.cpp"
    begin $compiler -std=c++17 $warnings -fno-exceptions -fno-rtti "$tmp/alone.cpp"
    begin $compiler -std=c++2b $warnings "$tmp/alone.cpp"
    begin $compiler -std=gnu++17 $warnings -I"$root/include" "$root/c_examples/hello.cpp"
    all_well
    test "${HERD_TEST_SLOW:-}" = 1 || continue
    begin $compiler -std=c++20 $warnings "$tmp/alone.cpp"
    begin $compiler -std=c++20 $warnings -fno-exceptions -fno-rtti "$tmp/alone.cpp"
    begin $compiler -std=c++2b $warnings -fno-exceptions -fno-rtti "$tmp/alone.cpp"
    all_well
done
test -n "$compilers"

# What must not compile: a handler that would be cut off, or that owns something; an answer that is ignored.
refused() {
    if ${CXX:-c++} -std=c++17 -Wall -Werror -fsyntax-only "$tmp/refused-$1.cpp" 2>"$tmp/said-$1"; then
        echo "compiles: $2"
        return 1
    fi
    grep -q "$3" "$tmp/said-$1" || { cat "$tmp/said-$1"; return 1; }
}
count=0
refuses() {
    count=$((count + 1))
    sed "s|return worker->run.*|$1 return 0;|" "$tmp/alone.cpp" >"$tmp/refused-$count.cpp"
    begin refused "$count" "$@"
    test $((count % 4)) != 0 || all_well
}
refuses 'std::string text; libherd::event large(*worker, [text](std::uint32_t) {});' 'room for three pointers'
refuses 'auto owned = std::make_shared<int>(); libherd::timer owner(*worker, [owned] {});' 'pointers, references and numbers'
refuses 'int n = 0; libherd::timer changing(*worker, [n]() mutable { n++; });' 'no mutable lambda'
refuses 'int n = 0; libherd::event changing(*worker, [n](std::uint32_t) mutable { n++; });' 'no mutable lambda'
refuses 'int n = 0; static_cast<void>(herd->add_listener(3, [n](libherd::connection, libherd::peer) mutable { n++; }));' 'no mutable lambda'
refuses 'config.log_to([](int, const char *) {});' 'lvalue'
refuses 'worker->run();' 'unused-result'
refuses 'herd->listen("127.0.0.1:0");' 'unused-result'
refuses 'libherd::worker copied = *worker;' 'deleted'
all_well
