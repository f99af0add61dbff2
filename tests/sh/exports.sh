#!/bin/sh
# The calls that the header declares, those that the shared library exports and those that the static one
# shows are the same; each has the version that tests/abi/exports.golden says. UPDATE=1 writes that file.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
golden=$root/tests/abi/exports.golden
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v readelf >/dev/null || { echo "no readelf"; exit 77; }
export LC_ALL=C

# NAME@@VERSION of what is defined; GNU ld defines the versions' own names too (OBJECT, ABS).
readelf -W --dyn-syms "$build/libherd.so" | awk '$7 ~ /^[0-9]+$/ && $4 != "OBJECT" { print $8 }' | sort >"$tmp/versioned"
readelf -W --dyn-syms "$build/libherd.so" | awk '$7 ~ /^[0-9]+$/ && $4 == "OBJECT" { print $8 }' >"$tmp/data"
sed 's/@.*//' "$tmp/versioned" >"$tmp/shared"
nm -g --defined-only --format=posix "$build/libherd.a" | sed -n 's/ [A-Za-z] .*//p' | sort >"$tmp/static"
${CC:-cc} -E -P "$root/include/herd.h" | grep -o '\bherd_[a-z0-9_]* *(' | tr -d ' (' | sort >"$tmp/header"

test -s "$tmp/shared"
if grep -v '^herd_' "$tmp/shared" "$tmp/static" "$tmp/data"; then
    echo "exported, but not called herd_*"
    exit 1
fi
diff -u "$tmp/header" "$tmp/shared" || { echo "libherd.map is not what the header declares"; exit 1; }
diff -u "$tmp/header" "$tmp/static"

if test "${UPDATE:-}" = 1; then cp "$tmp/versioned" "$golden"; fi
diff -u "$golden" "$tmp/versioned" || { echo "see docs/stability.md; then: make abi-golden"; exit 1; }
