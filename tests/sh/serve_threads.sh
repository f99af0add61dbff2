#!/bin/sh
# threads, with one process and with several, serves HTTP/1.1 without one failed request, drains and
# stops, and goes on when one of its processes is killed. HERD_TEST_SLOW=1: each mode in each shape.
# timeout: 120
. "$(dirname "$0")/lib/serve.sh"
need curl wrk
${CC:-cc} -O2 -std=c99 -Wall -Wextra -Wpedantic -Werror "$root/tests/sh/lib/raw_client.c" -o "$tmp/raw_client"
raw() { "$tmp/raw_client" "${address%:*}" "${address##*:}" "$@"; }
expect() { test "$2" = "$3" || fail "$label: $1: got '$2', not '$3'"; }
raw_codes() { raw 0 | sed -n 's/^HTTP.1.1 \(...\).*/\1/p' | tr '\n' ' '; }
codes() { curl -s -S --max-time 20 "$@" -w '%{http_code} ' -o /dev/null "http://$address/"; }

http() {
    expect body "$(get /)" hello
    get / -D - -o /dev/null | tr -d '\r' | grep -qx 'Content-Length: 6' || fail "$label: no length"
    get / -D - -o /dev/null | grep -q '^X-Herd-Pid: [0-9]' || fail "$label: no pid"
    expect 'slow' "$(get '/slow?ms=50')" slow
    expect 'codes' "$(codes) $(codes -I) $(codes -d body)" '200  200  405 '
    expect 'too large' "$(codes -H "X: $(printf '%09000d' 0)")" '431 '
    expect 'keep-alive' "$(printf 'GET / HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n' |
        raw_codes)" '200 404 200 '
    expect 'close' "$(printf 'GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n' | raw_codes)" '200 '
    expect 'HTTP/1.0' "$(printf 'GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n' | raw_codes)" '200 '
    expect '400' "$(printf 'this is not http\r\n\r\nGET / HTTP/1.1\r\n\r\n' | raw_codes)" '400 '
    expect 'late reader' "$(awk 'BEGIN { for (i = 0; i < 100000; i++) printf "GET / HTTP/1.1\r\n\r\n" }' |
        raw 300 | grep -c '^hello')" 100000
    wrk_without_failure -c 64
    wrk_without_failure -c 64 -H 'Connection: close'
    eventually counter_is connections_open 1 || fail "$label: connections stay open: $(counter connections_open)"
    expect workers "$(counter workers)" 4
}

# SIGTERM: a request that is being handled gets its answer; an idle connection does not delay the end.
drain() {
    start threads --listen 127.0.0.1:0 $options
    printf 'GET / HTTP/1.1\r\n\r\n' | raw 0 keep >"$tmp/idle" &
    idle=$!
    eventually grep -q hello "$tmp/idle" || fail "$label: no answer"
    begin_slow 2000 3
    stop TERM
    wait "$slow" || fail "$label: the slow request failed while draining"
    expect 'slow while draining' "$(cat "$tmp/slow")" slow
    wait "$idle" || fail "$label: the idle connection was not closed in order"
}

stop_at_once() {
    start threads --listen 127.0.0.1:0 $options
    begin_slow 60000 2
    stop INT
    if wait "$slow"; then fail "$label: the slow request was answered"; fi
}

# kill -9 of a process takes its threads along, and no other.
killed_process() {
    start threads --listen 127.0.0.1:0 $options
    before=$(children "$server")
    kill -s KILL "${before%% *}"
    expect 'right after the kill' "$(get / --max-time 5)" hello
    eventually counter_is reaps 2 || fail "$label: $(counter reaps) slots were freed, not those of 2 threads"
    eventually counter_is workers 4 || fail "$label: the process was not replaced"
    test "$(children "$server")" != "$before" || fail "$label: the same processes"
    wrk_without_failure -c 64 -H 'Connection: close'
    stop TERM
}

lives() {
    options="--mode $*"
    label=$options
    start threads --listen 127.0.0.1:0 $options
    http
    stop TERM
    drain
    stop_at_once
    case $options in *processes*) killed_process ;; esac
}
lives exclusive --workers 4
lives mutex --workers 2 --processes 2
if test "${HERD_TEST_SLOW:-}" = 1; then
    lives mutex --workers 4
    lives exclusive --workers 2 --processes 2
fi

refuses() {
    expected=$1
    shift
    timeout 10 "$examples/threads" --listen 127.0.0.1:0 "$@" >"$tmp/out" 2>"$tmp/log"
    label=$* expect 'exit code' "$?" "$expected"
    test ! -s "$tmp/out" || fail "$*: $(cat "$tmp/out")"
    test "$(grep -cv 'herd: mode' "$tmp/log")" = 1 || fail "$*: not one line"
}
refuses 2 --workers 0
refuses 2 --workers 600 --processes 2
refuses 2 --mode none
refuses 2 word
refuses 1 --listen localhost:80
exit 0
