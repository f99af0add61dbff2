#!/bin/sh
# The calls that the shared library exports, those that the static one shows and those that the
# header declares are the same.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v nm >/dev/null || { echo "no nm"; exit 77; }

nm -D --defined-only --format=posix "$build/libherd.so" | cut -d ' ' -f 1 | sort >"$tmp/shared"
nm -g --defined-only --format=posix "$build/libherd.a" | sed -n 's/ [A-Za-z] .*//p' | sort >"$tmp/static"
${CC:-cc} -E -P "$root/include/herd.h" | grep -o '\bherd_[a-z0-9_]* *(' | tr -d ' (' | sort >"$tmp/header"

test -s "$tmp/shared"
if grep -v '^herd_' "$tmp/shared" "$tmp/static"; then
    echo "exported, but not called herd_*"
    exit 1
fi
diff -u "$tmp/header" "$tmp/shared"
diff -u "$tmp/header" "$tmp/static"
