#!/bin/sh
# R41: a program built against an older header runs on this library: each of tests/abi/old/, compiled with
# the header kept there and linked with a library of that time's calls and symbol versions. timeout: 120
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
abi=$(sed -n 's/^const ABI: u32 = \([0-9]*\);/\1/p' "$root/build.rs")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
run=0
"$root/tests/abi/layout.sh" "$root/include/herd.h" >"$tmp/new"
for old in "$root"/tests/abi/old/*/; do
    name=$(basename "$old")
    "$root/tests/abi/layout.sh" "$old/herd.h" >"$tmp/old"
    if ! grep -qx "constant HERD_ABI = $abi" "$tmp/old"; then
        echo "$name is of another ABI number than $abi: it does not belong here any more"
        exit 1
    fi
    # All of that header still holds.
    awk -f "$root/tests/abi/compatible.awk" "$tmp/old" "$tmp/new" >"$tmp/said" || true
    touch "$tmp/none"
    changed=$tmp/none
    test ! -e "$old/changed" || changed=$old/changed
    diff -u "$changed" "$tmp/said"

    # The library of that time, as far as the linker looks at it.
    sed -n 's/^call \([a-z_0-9]*\):.*/void \1(void); void \1(void) {}/p' "$tmp/old" >"$tmp/then.c"
    script=
    test ! -e "$old/libherd.map" || script=-Wl,--version-script=$old/libherd.map
    ${CC:-cc} -shared -fPIC "$tmp/then.c" -o "$tmp/libherd.so" -Wl,-soname,"libherd.so.$abi" $script
    ${CC:-cc} -std=c99 -O1 -g -Wall -Wextra -Wpedantic -Werror "$old/program.c" -o "$tmp/program" -L"$tmp" -lherd
    LD_BIND_NOW=1 LD_LIBRARY_PATH="$build" "$tmp/program" 2>"$tmp/said" || { cat "$tmp/said"; exit 1; }
    # ld.so warns of versions that are not there.
    if test -s "$tmp/said"; then cat "$tmp/said"; exit 1; fi
    run=$((run + 1))
done
test "$run" -ge 1
