#!/bin/sh
# docs/adopting.md names calls and programs that there are, and what it adds to an epoll server is what
# host_epoll has.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root"
names() { grep -o 'herd_[a-z_]*' | grep -v 'herd_event$' | sort -u; }
for name in $(names <docs/adopting.md); do
    grep -q "$name(" include/herd.h || { echo "no $name in herd.h"; exit 1; }
done
for program in $(grep -o 'c_examples/[a-z_]*\.[ch]' docs/adopting.md | sort -u); do
    test -f "$program" || { echo "no $program"; exit 1; }
done
added=$(sed -n '/^```diff/,/^```$/s/^+//p' docs/adopting.md | names)
test "$(echo "$added" | wc -l)" -ge 8 || { echo "adds only: $added"; exit 1; }
for name in $added; do
    grep -q "$name(" c_examples/host_epoll.c c_examples/host.h || { echo "$name is not in host_epoll"; exit 1; }
done
