#!/bin/sh
# hello, the server in C++, serves without one failed request, replaces a dead worker, ends in order,
# and takes the listeners that a service manager passes. timeout: 60
. "$(dirname "$0")/lib/serve.sh"
need curl wrk
${CC:-cc} -O2 -std=c99 -Wall -Wextra -Wpedantic -Werror "$root/tests/sh/lib/activate.c" -o "$tmp/activate"
label=hello
is_replaced() { test "$(children "$server" | wc -w)" = 3 && ! children "$server" | grep -qw "$old"; }

start hello 127.0.0.1:0 3
test "$(get /)" = hello || fail "$(get /)"
get / -D - -o /dev/null | grep -q '^X-Herd-Slot: [012]' || fail 'no slot'
test "$(get / -o /dev/null -d body -w '%{http_code}')" = 405 || fail 'not 405'
test "$(get / -o /dev/null -H 'Connection: close' -w '%{http_code}' -D "$tmp/head")" = 200 || fail 'not 200'
grep -q '^Connection: close' "$tmp/head" || fail 'close not announced'
wrk_without_failure -c 64
wrk_without_failure -c 64 -H 'Connection: close'
old=$(children "$server" | cut -d ' ' -f 1)
kill -s KILL "$old"
eventually is_replaced || fail 'a dead worker is not replaced'
wrk_without_failure -c 64 -H 'Connection: close'
stop TERM

# The address is another one's: with passed listeners it is not asked for.
examples=$tmp start activate "$build/examples/hello" 127.0.0.1:1
test "$(get /)" = hello || fail 'not served on the passed listener'
stop INT

refuses() {
    expected=$1
    shift
    timeout 10 "$build/examples/hello" "$@" >"$tmp/out" 2>"$tmp/log"
    test "$?" = "$expected" || fail "$*: not $expected"
    test -s "$tmp/log" && ! test -s "$tmp/out" || fail "$*: no message"
}
refuses 2 127.0.0.1:0 0
refuses 1 localhost:80
LISTEN_PID=x LISTEN_FDS=1 refuses 1
exit 0
