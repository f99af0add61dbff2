#!/bin/sh
# Runs cargo's tests, the test programs in build/tests/ and the scripts in tests/sh/, and counts.
# `make test` calls it when everything is built. The argument selects tests by a part of their name
# (cargo's are called cargo_test). A test exits with 0 (passed), 77 (skipped) or anything else.
set -u

HERD_ROOT=$(cd "$(dirname "$0")/.." && pwd)
HERD_BUILD=${HERD_BUILD:-$HERD_ROOT/build}
export HERD_ROOT HERD_BUILD
pattern=${1:-}
log=$HERD_BUILD/test.log
passed=0 failed=0 skipped=0

# Scripts call make themselves; our options and job slots must not reach it.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES PREFIX LIBDIR INCLUDEDIR BINDIR MANDIR DESTDIR
cd "$HERD_ROOT" || exit 1

wanted() { case $1 in *"$pattern"*) ;; *) return 1 ;; esac; }

# The first lines of a test may say `timeout: SECONDS`.
seconds_for() {
    limit=$(sed -n '1,5s/.*timeout: *\([0-9][0-9]*\).*/\1/p' "$1" | head -n 1)
    echo "${limit:-60}"
}

# bounded SECONDS COMMAND...: runs it without input, its output in $log, and kills what it leaves
# behind, since `timeout` makes a process group of its own. A background command of a script has
# SIGINT and SIGQUIT ignored: `env` undoes that.
group=
bounded() {
    limit=$1
    shift
    env --default-signal=INT,QUIT timeout -k 5 "$limit" "$@" </dev/null >"$log" 2>&1 &
    group=$!
    wait "$group"
    code=$?
    kill -s KILL -- "-$group" 2>/dev/null
    group=
    return "$code"
}
trap 'test -z "$group" || kill -s KILL -- "-$group"; exit 130' INT TERM

# run NAME SECONDS COMMAND...
run() {
    name=$1
    shift
    start=$(date +%s.%N)
    bounded "$@"
    code=$?
    took=$(echo "$start $(date +%s.%N)" | awk '{ printf "%.1f s", $2 - $1 }')
    case $code in
    0) passed=$((passed + 1)) && echo "ok    $name ($took)" ;;
    77) skipped=$((skipped + 1)) && echo "skip  $name ($took): $(grep -v '^+' "$log" | tail -n 1)" ;;
    *)
        failed=$((failed + 1))
        case $code in
        124) echo "FAIL  $name ($took): no end within $1 s" ;;
        *) echo "FAIL  $name ($took): exit code $code" ;;
        esac
        tail -n 100 "$log" | sed 's/^/      | /'
        ;;
    esac
}

# Each of cargo's tests counts as one. If cargo fails without a failed test, that is a failure too.
cargo_tests() {
    start=$(date +%s)
    bounded 900 ${CARGO:-cargo} test --locked --no-fail-fast
    code=$?
    counts=$(awk '/^test result:/ { p += $4; f += $6; s += $8 } END { print p + 0, f + 0, s + 0 }' "$log")
    set -- $counts
    test "$code" = 0 || test "$2" != 0 || set -- "$1" 1 "$3"
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    if test "$2" = 0; then
        echo "ok    cargo_test: $1 passed, $3 skipped ($(($(date +%s) - start)) s)"
    else
        echo "FAIL  cargo_test: $1 passed, $2 failed, $3 skipped (exit code $code)"
        sed 's/^/      | /' "$log"
    fi
}

if wanted cargo_test; then cargo_tests; fi

for source in "$HERD_ROOT"/tests/c/*.c "$HERD_ROOT"/tests/c/*.cpp; do
    name=$(basename "${source%.*}")
    libraries=$HERD_BUILD/stage/usr/lib
    case $name in
    '*' | preload_* | lib_* | consumer) continue ;;
    hooks_*) libraries=$HERD_BUILD/hooks ;;
    esac
    wanted "$name" || continue
    run "$name" "$(seconds_for "$source")" env LD_LIBRARY_PATH="$libraries" "$HERD_BUILD/tests/$name"
done

# -x: if a script fails, its trace shows where.
for source in "$HERD_ROOT"/tests/sh/*.sh; do
    name=$(basename "$source")
    wanted "$name" || continue
    run "$name" "$(seconds_for "$source")" sh -x "$source"
done

rm -f "$log"
echo "$passed passed, $failed failed, $skipped skipped"
test $((passed + failed + skipped)) -gt 0 || { echo "no test is called so: $pattern"; exit 1; }
test "$failed" = 0
