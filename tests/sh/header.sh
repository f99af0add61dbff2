#!/bin/sh
# timeout: 300
# R41: the header compiles alone, in C and C++, and is what the sources say.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
warnings='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'

cp "$root/include/herd.h" "$tmp/"
printf '#include "herd.h"\n#include "herd.h"\n' | tee "$tmp/alone.c" >"$tmp/alone.cpp"
for standard in gnu89 c99 c11; do ${CC:-cc} -std=$standard $warnings "$tmp/alone.c"; done
for standard in c++11 c++17; do ${CXX:-c++} -std=$standard $warnings "$tmp/alone.cpp"; done
make -s -C "$root" BUILD="$build" header-check
