#!/bin/sh
# What `make abi-check` runs: does a program built against the last release (the last tag, or $BASE) run on
# this library? Headers are compared by layout.sh, exported symbols by readelf, and what the libraries
# themselves take and give by abidiff, on builds with full debug information. Exit code 1: it does not.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${HERD_BUILD:-$root/build}
work=$build/abi
here=$root/tests/abi
cd "$root"
say() { echo "abi-check: $*"; }

base=${BASE:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if test -z "$base"; then
    say "there is no tag, so no release to compare with; tests/abi/*.golden are the reference (BASE=COMMIT compares with that)"
    sh "$root/tests/sh/exports.sh"
    sh "$root/tests/sh/layout.sh"
    exit 0
fi
say "this tree beside $base"
rm -rf "$work/base" # a copy and no worktree: nothing of it is left in .git
mkdir -p "$work/base"
git archive "$base" | tar -x -C "$work/base"

number() { sed -n 's/^const ABI: u32 = \([0-9]*\);/\1/p' "$1/build.rs"; }
then=$(number "$work/base")
now=$(number .)
code=0
broken() { say "NOT COMPATIBLE: $*"; code=1; }

"$here/layout.sh" "$work/base/include/herd.h" >"$work/then.layout"
"$here/layout.sh" include/herd.h >"$work/now.layout"
awk -f "$here/compatible.awk" "$work/then.layout" "$work/now.layout" || broken "the headers, as above"

# Unoptimised, but by the rules that make the library which is installed.
libraries() {
    say "building $2"
    env CARGO_PROFILE_RELEASE_DEBUG=full CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$work/$2-target" \
        make -s -C "$1" BUILD="$work/$2-build" lib >"$work/$2.log" 2>&1 || { cat "$work/$2.log"; exit 2; }
    # NAME or NAME@@VERSION
    readelf -W --dyn-syms "$work/$2-build/libherd.so" |
        awk '$7 ~ /^[0-9]+$/ && $4 == "FUNC" { print $8 }' | LC_ALL=C sort >"$work/$2.symbols"
}
libraries "$work/base" then
libraries . now
# A symbol that had no version then is found with any.
awk 'NR == FNR { now[$1]; sub(/@.*/, ""); now[$1]; next } !($1 in now) { print "gone: " $1; gone = 1 } END { exit gone }' \
    "$work/now.symbols" "$work/then.symbols" || broken "the exported symbols, as above"
# What was released is complete: a program that needs the new symbol would start on a library without it.
awk '{ node = $1; sub(/^[^@]*@*/, "", node) }
    NR == FNR { then[$1]; nodes[node]; next }
    node != "" && node in nodes && !($1 in then) { print "added to a released version: " $1; added = 1 }
    END { exit added }' "$work/then.symbols" "$work/now.symbols" >"$work/added" ||
    if test -z "${BASE:-}"; then cat "$work/added"; broken "the exported symbols, as above"; fi

if command -v abidiff >/dev/null; then
    abidiff --no-added-syms --suppressions "$here/abidiff.suppr" "$work/then-build/libherd.so" \
        "$work/now-build/libherd.so" || broken "abidiff, as above"
else
    say "no abidiff (package abigail-tools): what the libraries themselves take and give is not compared"
fi
if test "$then" != "$now"; then
    say "the ABI number was $then and is $now: programs of before look for libherd.so.$then"
    exit 0
fi
test "$code" != 0 || say "compatible with $base"
exit "$code"
