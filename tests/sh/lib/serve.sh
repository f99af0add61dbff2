# Sourced by the serve_* tests: starts a server, waits until it is ready, stops it by its pid.
# A test leaves through `exit`; then what it started is killed, and its files are removed.
set -u
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
examples=$build/examples
tmp=$(mktemp -d)
server=
scale=${HERD_TEST_SCALE:-1} # as in tests/c/check.h
orphans= # pids of workers that have no parent any more
children() { cat "/proc/$1/task/$1/children"; }

# The workers go on without their parent, so a failed test has to end them as well; the parent first,
# or it would replace them.
clean_up() {
    left=$orphans
    test -z "$server" || left="$server $(children "$server" 2>/dev/null) $orphans"
    for pid in $left; do kill -s KILL "$pid" 2>/dev/null; done
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    echo "FAIL: $*"
    test ! -s "$tmp/log" || sed 's/^/server: /' "$tmp/log"
    exit 1
}

# need COMMAND...: skips the test if one is missing.
need() {
    for command in "$@"; do
        command -v "$command" >/dev/null || { echo "no $command"; exit 77; }
    done
}

# eventually COMMAND...: until it succeeds, for about 10 s at most.
eventually() {
    give_up=$(($(date +%s) + 10 * scale))
    until "$@"; do
        test "$(date +%s)" -lt "$give_up" || return 1
        sleep 0.05
    done
}

# A process that nobody has waited for yet has ended all the same.
has_ended() {
    case $(sed 's/.*) \(.\) .*/\1/' "/proc/$1/stat" 2>/dev/null) in '' | Z) ;; *) return 1 ;; esac
}

is_ready() { has_ended "$server" || grep -q ': ready on ' "$tmp/ready"; }

# start PROGRAM OPTION...: sets server (its pid) and address (the first one).
start() {
    program=$1
    shift
    : >"$tmp/ready"
    "$examples/$program" "$@" >"$tmp/ready" 2>"$tmp/log" &
    server=$!
    eventually is_ready && grep -q ': ready on ' "$tmp/ready" || fail "$program $* did not get ready"
    test "$(wc -l <"$tmp/ready")" = 1 || fail "more than the ready line: $(cat "$tmp/ready")"
    address=$(sed 's/.*: ready on \([^,]*\),.*/\1/' "$tmp/ready")
}

# stop SIGNAL: the server has to end well within 10 s, and all its workers with it.
stop() {
    workers=$(children "$server")
    kill -s "$1" "$server"
    eventually has_ended "$server" || fail "$program did not end after $1"
    wait "$server"
    code=$?
    server=
    test "$code" = 0 || fail "$program ended with $code after $1"
    for pid in $workers; do has_ended "$pid" || fail "worker $pid has outlived its parent"; done
}

# get PATH [CURL OPTION...]
get() {
    path=$1
    shift
    curl -s -S --max-time $((20 * scale)) "$@" "http://$address$path"
}

# A request can come to a worker that is about to block in a handler; then the next one does better.
counter() { get /counters --max-time "$scale" | sed -n "s/^$1 //p"; }
counter_is() { test "$(counter "$1")" = "$2"; }
counter_reaches() { counted=$(counter "$1") && test "${counted:-0}" -ge "$2"; }

# begin_slow MS COUNT: sets slow, the pid of a request that its worker is blocked for so long with, as COUNT open
# connections tell. On a busy machine it can be over before anybody has looked: then there is another.
begin_slow() {
    for try in 1 2 3 4 5; do
        get "/slow?ms=$1" >"$tmp/slow" 2>"$tmp/slow.err" &
        slow=$!
        until has_ended "$slow"; do
            if counter_reaches connections_open "$2"; then return; fi
            sleep 0.05
        done
        wait "$slow"
    done
    fail "$label: the slow request was not accepted"
}

# wrk prints these lines only when something failed.
wrk_without_failure() {
    wrk -t 1 -d 1 "$@" "http://$address/" >"$tmp/wrk" 2>&1 || fail "$label: wrk $*: $(cat "$tmp/wrk")"
    if grep -E 'Socket errors|Non-2xx' "$tmp/wrk"; then fail "$label: wrk $*: requests failed"; fi
    grep -qE '^ *[1-9][0-9]* requests in' "$tmp/wrk" || fail "$label: wrk $*: $(cat "$tmp/wrk")"
}
