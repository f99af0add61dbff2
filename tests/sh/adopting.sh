#!/bin/sh
# docs/adopting.md names calls and programs that there are, and what it adds to an epoll server is what
# host_epoll has.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root"
names() { sed 's/struct herd_[a-z_]*//g' | grep -o 'herd_[a-z_]*' | grep -v 'herd_event$' | sort -u; }
for name in $(names <docs/adopting.md); do
    grep -q "$name(" include/herd.h || { echo "no $name in herd.h"; exit 1; }
done
for program in $(grep -o 'c_examples/[a-z_]*\.[ch]' docs/adopting.md | sort -u); do
    test -f "$program" || { echo "no $program"; exit 1; }
done
# A negative state ends a loop.
if grep -n 'while.*herd_worker_state' docs/adopting.md | grep -v '>= 0'; then echo "spins for ever"; exit 1; fi
added=$(sed -n '/^```diff/,/^```$/s/^+//p' docs/adopting.md | names)
test "$(echo "$added" | wc -l)" -ge 8 || { echo "adds only: $added"; exit 1; }
for name in $added; do
    grep -q "$name(" c_examples/host_epoll.c c_examples/host.h || { echo "$name is not in host_epoll"; exit 1; }
done
