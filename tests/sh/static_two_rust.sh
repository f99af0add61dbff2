#!/bin/sh
# libherd.a and another Rust library fit into one program, and panics in both are caught.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v rustc >/dev/null || { echo "no rustc"; exit 77; }

cat >"$tmp/other.rs" <<'END'
#[unsafe(no_mangle)]
pub extern "C" fn other_panics() -> i32 {
    std::panic::set_hook(Box::new(|_| ()));
    std::panic::catch_unwind(|| panic!("{}", std::process::id())).is_err() as i32
}
END
cat >"$tmp/both.c" <<'END'
#include <herd.h>
int other_panics(void);
int main(void) { return other_panics() == 1 && herd_version_string()[0] ? 0 : 1; }
END
rustc --edition 2024 --crate-type staticlib -O "$tmp/other.rs" -o "$tmp/libother.a"
libraries=$(cat "$build/native-static-libs")
for order in "$tmp/libother.a $build/libherd.a" "$build/libherd.a $tmp/libother.a"; do
    ${CC:-cc} -I"$root/include" "$tmp/both.c" -Wl,--gc-sections $order $libraries -o "$tmp/both"
    "$tmp/both"
done
