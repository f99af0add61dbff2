#!/bin/sh
# R37: a program remembers the library as libherd.so.ABI, not by the path it was linked with.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v readelf >/dev/null || { echo "no readelf"; exit 77; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
abi=$(sed -n 's/^const ABI: u32 = \([0-9]*\);/\1/p' "$root/build.rs")
# dynamic TAG FILE: the values of that tag in the dynamic section.
dynamic() { readelf -dW "$2" | sed -n "s/.*($1).*\[\(.*\)\]/\1/p"; }

test "$(readlink "$build/libherd.so")" = "libherd.so.$abi"
test "$(readlink "$build/libherd.so.$abi")" = "libherd.so.$version"
test "$(dynamic SONAME "$build/libherd.so.$version")" = "libherd.so.$abi"
test -z "$(dynamic RPATH "$build/libherd.so")$(dynamic RUNPATH "$build/libherd.so")"
if dynamic NEEDED "$build/libherd.so" | grep -v -e '^libc\.so' -e '^libgcc_s\.so' -e '^libm\.so' -e '^ld-linux'; then
    echo "libherd needs a library beyond the C library"
    exit 1
fi

mkdir "$tmp/linked" "$tmp/moved"
cp "$build/libherd.so.$version" "$tmp/linked"
${CC:-cc} -I"$root/include" "$root/tests/c/consumer.c" -o "$tmp/program" "$tmp/linked/libherd.so.$version"
dynamic NEEDED "$tmp/program" | grep -qx "libherd.so.$abi"
mv "$tmp/linked/libherd.so.$version" "$tmp/moved/libherd.so.$abi"
LD_LIBRARY_PATH=$tmp/moved "$tmp/program"
