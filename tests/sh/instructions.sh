#!/bin/sh
# timeout: 300
# The instructions of an event, a try for the accept right and a timer are what bench/instructions.golden says. A change that
# makes them more has to say so there: `UPDATE=1 tests/sh/instructions.sh`.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
golden=$root/bench/instructions.golden
tolerance=0.1 # compilers differ by less, a lost inlining does not
command -v valgrind >/dev/null || { echo "no valgrind"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "the counts are of x86_64"; exit 77; }
make -s -C "$root" BUILD="$build" "$build/bench/lock" "$build/peers/events_herd" "$build/peers/timers_herd"
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
"$root/bench/instructions.sh" "$build" herd >"$counts"
if [ -n "${UPDATE:-}" ]; then
    { sed -n '/^#/p' "$golden"; cat "$counts"; } >"$counts.new"
    mv "$counts.new" "$golden"
fi
awk -v tolerance="$tolerance" '
    /^#/ { next }
    FNR == NR { golden[$1] = $3; wanted++; next }
    {
        ratio = $1 in golden ? $3 / golden[$1] : 0
        good = ratio >= 1 - tolerance && ratio <= 1 + tolerance
        printf "%s: %s instructions, %s in the golden file%s\n", $1, $3, golden[$1], good ? "" : ": OFF"
        failed += !good
        seen++
    }
    END { exit failed > 0 || seen != wanted || wanted == 0 }
' "$golden" "$counts"
