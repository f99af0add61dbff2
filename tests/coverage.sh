#!/bin/sh
# coverage.sh [PATTERN]: which lines and branches of src/ the tests reach, and which public calls none does.
# `make coverage` calls it when everything is built. Runs cargo's tests and the programs of tests/c (those
# whose name has PATTERN in it), and the scripts of tests/sh that run the examples, all with a library that counts.
#
# Most workers are killed by their test or end by _exit, before they could write what they counted: so the
# counters are mapped to the file (%c, which needs them to be relocatable).
set -u
root=${HERD_ROOT:-$(cd "$(dirname "$0")/.." && pwd)}
build=${HERD_BUILD:-$root/build}
cargo=${CARGO:-cargo}
pattern=${1:-}
out=$build/coverage
cd "$root" || exit 1

# Any LLVM that is not older than rustc's reads its profiles: rustup's component llvm-tools, or Debian's packages.
wanted=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
tool() {
    for candidate in "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/$1" \
        "/usr/bin/$1-$wanted" "/usr/lib/llvm-$wanted/bin/$1"; do
        test ! -x "$candidate" || { echo "$candidate"; return; }
    done
    echo "coverage: no $1 of LLVM $wanted: rustup component add llvm-tools, or apt-get install llvm-$wanted" >&2
    exit 1
}
profdata=$(tool llvm-profdata) || exit 1
cov=$(tool llvm-cov) || exit 1

rm -rf "$out/raw" "$out/report"
mkdir -p "$out/raw" "$out/lib" "$out/hooks" "$out/report"
export RUSTC_BOOTSTRAP=1 # for counting branches
export RUSTFLAGS='-Cinstrument-coverage -Zcoverage-options=branch -Cllvm-args=-runtime-counter-relocation'
# Of the library only: what build scripts count is nobody's concern.
LLVM_PROFILE_FILE=/dev/null
export LLVM_PROFILE_FILE

# The library as it is installed, with the part that writes the counters, which nothing in it asks for.
real=$(basename "$(ls "$build"/libherd.so.*.*.*)")
make -s BUILD="$out/product" TARGET_DIR="$out/product/target" CARGO="$cargo" \
    LDFLAGS=-Wl,-u,__llvm_profile_runtime "$out/product/$real" || exit 1
cp "$out/product/$real" "$out/lib/libherd.so.0"
# The one with hooks, and what cargo tests.
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false # as the product has it
$cargo rustc --locked --lib --features test-hooks --crate-type cdylib --target-dir "$out/hooks-target" || exit 1
cp "$out/hooks-target/debug/libherd.so" "$out/hooks/libherd.so.0"
$cargo test --locked --no-run --target-dir "$out/target" || exit 1

LLVM_PROFILE_FILE=$out/raw/cargo-%m-%p.profraw
$cargo test --locked --no-fail-fast --target-dir "$out/target" >"$out/cargo.log" 2>&1 || { cat "$out/cargo.log"; }

# Four at a time; what fails beside others may pass alone. `one` is a test program, or a script that runs examples.
export LLVM_PROFILE_FILE=$out/raw/c-%c%m.profraw
cat >"$out/one" <<'END'
#!/bin/sh
name=$1 out=$HERD_BUILD/coverage
export LD_LIBRARY_PATH=$out/lib
case $name in
hooks_*) LD_LIBRARY_PATH=$out/hooks ;;
fault_*) export HERD_TEST_SLOW=1 ;; # every error of every call
esac
source=$(ls "tests/c/$name".c* "tests/sh/$name.sh" 2>/dev/null | head -n 1)
seconds=$(sed -n '1,5s/.*timeout: *\([0-9][0-9]*\).*/\1/p' "$source" | head -n 1)
case $source in
*.sh) set -- sh "$source" ;;
*) set -- "$HERD_BUILD/tests/$name" ;;
esac
timeout -k 5 "${seconds:-60}" "$@" </dev/null >"$out/$name.log" 2>&1
code=$?
test "$code" = 0 || test "$code" = 77 || echo "$name" >>"$out/failed"
exit 0
END
names=
for source in tests/c/*.c tests/c/*.cpp; do
    name=$(basename "${source%.*}")
    case $name in preload_* | lib_* | consumer) continue ;; esac
    names="$names $name"
done
names=$(printf '%s\n' $names serve_http serve_threads serve_cpp serve_nginx_cycle metrics | grep -- "$pattern")
export HERD_BUILD="$build"
rm -f "$out/failed"
echo "$names" | xargs -P 4 -n 1 sh "$out/one"
if test -e "$out/failed"; then
    mv "$out/failed" "$out/again"
    xargs -n 1 sh "$out/one" <"$out/again"
fi

# --- The report ---

"$profdata" merge -sparse "$out"/raw/*.profraw -o "$out/all.profdata" || exit 1
objects=
for object in "$out/hooks/libherd.so.0" $(find "$out/target/debug/deps" -maxdepth 1 -type f -executable \
    \( -name 'herd-*' -o -name 'kernel-*' \)); do
    objects="$objects --object $object"
done
"$cov" export --format=lcov --instr-profile "$out/all.profdata" "$out/lib/libherd.so.0" $objects \
    --sources "$root/src" >"$out/report/all.info" || exit 1
"$cov" show --format=html --instr-profile "$out/all.profdata" "$out/lib/libherd.so.0" $objects \
    --sources "$root/src" --show-branches=count --output-dir "$out/report/html" || exit 1

# Up to a file's unit tests, as tests/house.rs reads files.
awk -v root="$root/" '
    /^SF:/ {
        file = substr($0, 4)
        end = 1000000
        while ((getline line < file) > 0) {
            number[file]++
            if (line ~ /^#\[cfg\((all\()?test/) { end = number[file]; break }
        }
        close(file)
        file = substr(file, length(root) + 1)
        next
    }
    /^FN:/ { split(substr($0, 4), part, ","); at[file, part[2]] = part[1] }
    /^FNDA:/ { split(substr($0, 6), part, ","); if (part[2] ~ /^herd_/ && part[1] == 0) unreached[part[2]] = 1 }
    /^DA:/ {
        split(substr($0, 4), part, ",")
        if (part[1] < end) { lines[file]++; if (part[2] > 0) hit[file]++ }
    }
    /^BRDA:/ {
        split(substr($0, 6), part, ",")
        if (part[1] < end) { branches[file]++; if (part[4] != "-" && part[4] > 0) taken[file]++ }
    }
    END {
        for (file in lines) printf "%s %d %d %d %d\n", file, lines[file], hit[file], branches[file], taken[file]
        for (name in unreached) printf "~%s\n", name
    }
' "$out/report/all.info" | sort >"$out/report/table"
awk '
    BEGIN { printf "%-34s %14s %7s %14s %7s\n", "file", "lines", "", "branches", "" }
    function row(name, lines, hit, branches, taken) {
        printf "%-34s %6d of %5d %6.1f%%", name, hit, lines, 100 * hit / lines
        if (branches > 0) printf " %6d of %5d %6.1f%%", taken, branches, 100 * taken / branches
        printf "\n"
    }
    /^~/ { unreached = unreached "\n  " substr($0, 2); next }
    { row($1, $2, $3, $4, $5); l += $2; h += $3; b += $4; t += $5 }
    END {
        row("in all", l, h, b, t)
        if (unreached != "") print "public calls that no test reaches:" unreached
    }
' "$out/report/table"
echo "line by line: $out/report/html/index.html"
test ! -e "$out/failed" || { echo "failed, so a part may be missing:" $(cat "$out/failed"); exit 1; }
