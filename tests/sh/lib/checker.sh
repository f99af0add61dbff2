# Sourced by the scripts that run the test programs and the examples under a checker, in `make check-slow`
# only: it finds the programs, runs as many at a time as there are cores, and fails on whatever was reported.
#
# A checker writes what it finds to files of its own, one for each process ($HERD_REPORTS.PID), since many workers
# are killed by their test or end by _exit, and their exit codes tell nobody.
set -u
set +x # a trace would drown what they report
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
export HERD_BUILD="$build"
out=$build/$(basename "$0" .sh)
pattern=${1:-} # a script started by hand takes a part of the programs' names

test "${HERD_TEST_SLOW:-}" = 1 || { echo 'only in make check-slow'; exit 77; }
unset HERD_TEST_SLOW # a checker makes them long enough
mkdir -p "$out"
rm -rf "$out"/share.* "$out/said"
cd "$root" || exit 1

# need COMMAND...: skips the whole script if one is missing.
need() {
    for command in "$@"; do
        command -v "$command" >/dev/null || { echo "no $command"; exit 77; }
    done
}

# Tests whose result is a time, or a number of wake-ups: a checker changes these, and every path that they
# take is taken by others as well.
measures='
case_herd_wakeups        sleeps for each connection
host_herd_wakeups        the same
server_wakeups           the same
threads_wakeups          the same
right_idle_herd          wake-ups in a time
right_spread             sleeps, and who is idle when
right_stranded           how long a connection waits, in tens of milliseconds
'

# programs LEFT-OUT: the names of the test programs but those that LEFT-OUT or $measures begin a line with.
programs() {
    for source in tests/c/*.c tests/c/*.cpp; do
        name=$(basename "${source%.*}")
        case $name in preload_* | lib_* | hooks_* | consumer) continue ;; esac
        printf '%s\n' "$measures" "$1" | grep -q "^$name " || echo "$name"
    done | grep -- "$pattern"
}

# seconds_for NAME: the limit of tests/run.sh, and so much more as the checker takes.
seconds_for() {
    limit=$(sed -n '1,5s/.*timeout: *\([0-9][0-9]*\).*/\1/p' "tests/c/$1".c* | head -n 1)
    echo $((${limit:-60} * HERD_TEST_SCALE))
}

# each_of COMMAND: calls it with each line of the input, in as many shells as there are cores; each has a directory
# ($mine) and reports of its own. What fails is in $mine/failed.
each_of() {
    lines=$(cat) cores=$(nproc)
    test -n "$lines" || return 0
    for share in $(seq "$cores"); do
        mine=$out/share.$share
        mkdir -p "$mine"
        printf '%s\n' "$lines" | awk -v share="$share" -v cores="$cores" 'NR % cores + 1 == share' | (
            export HERD_REPORTS="$mine/report"
            while read -r line; do
                "$1" "$line" </dev/null || echo "$line" >>"$mine/failed"
            done
            : >"$mine/is_through"
        ) >"$mine/said" 2>&1 &
    done
    wait
    for share in $(seq "$cores"); do
        rm "$out/share.$share/is_through" || echo "share $share ended early" >>"$out/share.$share/failed"
    done
    cat "$out"/share.*/said | tee -a "$out/said"
}

# checked NAME COMMAND...: it has to pass or to skip, and nothing may be reported.
checked() {
    checked_name=$1
    shift
    rm -f "$HERD_REPORTS".*
    "$@" >"$mine/log" 2>&1
    checked_code=$?
    found=$(find "$mine" -name 'report.*' -size +0)
    if test -z "$found" && { test "$checked_code" = 0 || test "$checked_code" = 77; }; then
        echo "ok   $checked_name"
        return
    fi
    echo "FAIL $checked_name: exit code $checked_code"
    { tail -n 40 "$mine/log"; test -z "$found" || head -n 100 $found; } | sed 's/^/     | /'
    return 1
}

# checked_program NAME COMMAND...: a test program, within its time, and with what it would preload: it would
# start itself anew otherwise, out of the checker's sight.
checked_program() {
    program_name=$1
    shift
    preloaded=$(sed -n 's/^ *preload("\(.*\)", argv);/\1/p' "tests/c/$program_name".c*)
    case $program_name in fault_*) preloaded=preload_faults ;; esac
    test -z "$preloaded" || set -- env LD_PRELOAD="$HERD_BUILD/tests/$preloaded.so" "$@"
    checked "$program_name" timeout -k 5 "$(seconds_for "$program_name")" "$@"
}

# The examples that are servers, and how they are started.
servers() {
    for shape in 'hello_prefork mutex' 'hello_prefork exclusive' 'hello_prefork reuseport' 'hello_prefork handoff' \
        'hello_prefork mutex --threads' 'threads exclusive' 'threads mutex' 'host_epoll exclusive' 'host_epoll handoff' \
        'host_libuv exclusive' 'host_libev mutex' 'host_libevent mutex' nginx_cycle hello; do
        test ! -x "$build/examples/${shape%% *}" || echo "$shape"
    done | grep -- "$pattern"
}

# checked_server SHAPE: one of them, from $out/examples, under a little load.
checked_server() {
    checked "$1" sh tests/sh/lib/little_load.sh "$out/examples" $1
}

# What failed comes again at the end.
finish() {
    test -s "$out/said" || { echo 'no program is called so'; exit 77; }
    cat "$out"/share.*/failed >/dev/null 2>&1 || exit 0
    awk '/^FAIL/ { show = 1 } /^ok/ { show = 0 } show' "$out/said"
    cat "$out"/share.*/failed
    exit 1
}
