#!/bin/sh
# A program that loads the library at run time, uses it in threads that end after it was closed, and loads
# it again, ends in order: no thread, descriptor, key or mapping is left by a round.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -pthread -I"$root/include" "$root/tests/sh/lib/load_and_close.c" \
    -o "$tmp/program" -ldl
"$tmp/program" "$build/libherd.so"
if readelf -dW "$tmp/program" | grep libherd; then echo "the program is linked with it"; exit 1; fi
