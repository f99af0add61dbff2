#!/bin/sh
# layout.sh HEADER: what a program compiled with that header has of it, one line for each thing.
set -eu
header=$(realpath "$1")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
awk -f "$(dirname "$0")/layout.awk" "$header" >"$tmp/layout.c"
${CC:-cc} -Wall -Werror -include stddef.h -include "$header" "$tmp/layout.c" -o "$tmp/layout"
"$tmp/layout"
