#!/bin/sh
# libherd.a and another Rust library fit into one program, in C and in C++, whichever linker and order, with
# unused sections dropped and without; and panics of the other one and exceptions are caught beside it.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v rustc >/dev/null || { echo "no rustc"; exit 77; }

# The other one has threads, thread-local data with a destructor, and a panic hook of its own.
cat >"$tmp/other.rs" <<'END'
use std::cell::RefCell;
thread_local! { static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) }; }
#[unsafe(no_mangle)]
pub extern "C" fn other_panics() -> i32 {
    std::panic::set_hook(Box::new(|_| SEEN.with(|seen| seen.borrow_mut().push(1))));
    let caught = std::thread::spawn(|| {
        let panic = std::panic::catch_unwind(|| panic!("{}", std::process::id()));
        panic.is_err() && SEEN.with(|seen| seen.borrow().len() == 1)
    });
    caught.join().is_ok_and(|caught| caught) as i32
}
END
cat >"$tmp/both.c" <<'END'
#include <herd.h>
int other_panics(void);
int main(void)
{
    struct herd *herd;
    struct herd_worker *worker;
    return herd_create(NULL, &herd) == 0 && herd_listen(herd, "127.0.0.1:0", NULL, NULL, NULL) == 0
        && herd_worker_create(herd, HERD_ANY_SLOT, &worker) == 0 && other_panics() == 1
        && herd_run_once(worker, 0) == 0 && herd_worker_destroy(worker) == 0 && herd_destroy(herd) == 0 ? 0 : 1;
}
END
cat >"$tmp/both.cpp" <<'END'
#include <herd.hpp>
#include <stdexcept>
extern "C" int other_panics(void);
static int run()
{
    libherd::config config;
    auto herd = libherd::herd::create(config);
    auto accept = [](libherd::connection, libherd::peer) {};
    if (!herd || !herd->listen("127.0.0.1:0", accept)) return 1;
    auto worker = libherd::worker::create(*herd);
    if (!worker || other_panics() != 1 || !worker->run_once(std::chrono::milliseconds(0))) return 2;
    throw std::runtime_error("caught");
}
int main()
{
    try {
        return run();
    } catch (const std::runtime_error &) {
        return other_panics() == 1 ? 0 : 3;
    }
}
END
rustc --edition 2024 --crate-type staticlib -O "$tmp/other.rs" -o "$tmp/libother.a"
${CC:-cc} -c -O1 -I"$root/include" "$tmp/both.c" -o "$tmp/c.o"
${CXX:-c++} -c -O1 -std=c++17 -I"$root/include" "$tmp/both.cpp" -o "$tmp/cpp.o"
libraries=$(cat "$build/native-static-libs")
# both DRIVER OBJECT OPTION...: the other library before ours, and behind it.
both() {
    driver=$1 object=$tmp/$2.o
    shift 2
    for order in "$tmp/libother.a $build/libherd.a" "$build/libherd.a $tmp/libother.a"; do
        $driver "$object" "$@" $order $libraries -o "$tmp/both"
        "$tmp/both" || { echo "$driver $* $order: $?"; exit 1; }
    done
}
linkers=
# rustc brings an lld, which gcc finds by the folder.
lld=$(ls "$(rustc --print sysroot)"/lib/rustlib/*/bin/gcc-ld/ld.lld 2>/dev/null | head -n 1)
test -z "$lld" || linkers="-B${lld%/*},-fuse-ld=lld"
command -v ld.lld >/dev/null && linkers=-fuse-ld=lld
both "${CC:-cc}" c
both "${CC:-cc}" c -Wl,--gc-sections
both "${CXX:-c++}" cpp -Wl,--gc-sections
for linker in $linkers; do
    both "${CXX:-c++}" cpp $(echo "$linker" | tr , ' ') -Wl,--gc-sections
done
# gold refuses the probes' notes (docs/observing.md) on code that it has dropped.
test -z "$(command -v ld.gold)" || both "${CXX:-c++}" cpp -fuse-ld=gold
echo "linked by: the default $linkers"
