#!/bin/sh
# What a program has compiled in of the header (sizes, offsets and types of members, values of constants,
# types of calls) is what tests/abi/layout.golden says. UPDATE=1 writes that file.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
golden=$root/tests/abi/layout.golden
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
test "$(echo __SIZEOF_POINTER__ | ${CC:-cc} -E -P -)" = 8 || { echo "the golden layout is that of 8-byte pointers"; exit 77; }

"$root/tests/abi/layout.sh" "$root/include/herd.h" >"$tmp/layout"
if test "${UPDATE:-}" = 1; then cp "$tmp/layout" "$golden"; fi
diff -u "$golden" "$tmp/layout" || { echo "see docs/stability.md; then: make abi-golden"; exit 1; }

# It sees all of it: as many calls as a compiler sees, and no struct without members.
test "$(grep -c '^call ' "$tmp/layout")" = "$(${CC:-cc} -E -P "$root/include/herd.h" | grep -o '\bherd_[a-z0-9_]* *(' | wc -l)"
for struct in $(sed -n 's/^struct \([a-z_]*\):.*/\1/p' "$tmp/layout"); do grep -q "^member $struct\." "$tmp/layout"; done
test "$(grep -c '^struct ' "$tmp/layout")" = "$(grep -c '^struct [a-z_]* {$' "$root/include/herd.h")"
test "$(grep -c '^constant ' "$tmp/layout")" = "$(grep -v HERD_VERSION_ "$root/include/herd.h" | grep -c '^#define HERD_[A-Z0-9_]* (*-*[0-9]')"

# What breaks older programs is seen, and what does not is let through. breaks NAME SED-COMMAND
judged() {
    sed "$2" "$tmp/layout" >"$tmp/changed"
    if cmp -s "$tmp/layout" "$tmp/changed"; then echo "$1: changes nothing"; exit 1; fi
    awk -f "$root/tests/abi/compatible.awk" "$tmp/layout" "$tmp/changed" >"$tmp/said"
}
breaks() { if judged "$@"; then echo "taken as compatible: $1"; exit 1; fi; }
keeps() { judged "$@" || { echo "taken as incompatible: $1"; cat "$tmp/said"; exit 1; }; }
stats=$(sed -n 's/^struct herd_stats: size \([0-9]*\),.*/\1/p' "$tmp/layout")
keeps 'a new call' '$a call herd_new: int (void)'
keeps 'a new constant' '$a constant HERD_NEW = 7'
keeps 'a new struct' '$a struct herd_new: size 8, alignment 8\nmember herd_new.size: uint32_t, offset 0, size 4'
keeps 'a new member' "s/^struct herd_stats: size .*/struct herd_stats: size $((stats + 8)), alignment 8\nmember herd_stats.new: uint64_t, offset $stats, size 8/"
breaks 'a call that is gone' '/^call herd_accept:/d'
breaks 'another type of a parameter' '/^call herd_stop:/s/(.*/(struct herd *)/'
breaks 'another value' 's/^constant HERD_MODE_MUTEX = 2/constant HERD_MODE_MUTEX = 3/'
breaks 'a member that is gone' '/^member herd_stats\.closed:/d'
breaks 'a member moved' '/^member herd_stats\.closed:/s/offset [0-9]*/offset 48/'
breaks 'a smaller struct' "s/^struct herd_stats: size .*/struct herd_stats: size 8, alignment 8/"
breaks 'a struct without a size grows' 's/^struct herd_timer: size .*/struct herd_timer: size 64, alignment 8/'
breaks 'a new member in padding' "s/^struct herd_stats: .*/&\nmember herd_stats.new: uint32_t, offset $((stats - 4)), size 4/"
