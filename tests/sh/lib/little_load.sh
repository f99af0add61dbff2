#!/bin/sh
# little_load.sh DIRECTORY PROGRAM [MODE [OPTION...]]: one example server of DIRECTORY, which may be slow under
# a checker, through what it can do: requests on connections that are kept and that are not, bad ones,
# a blocked handler, the load driver, a killed worker, the figures, and the end by SIGTERM.
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
. "$root/tests/sh/lib/serve.sh"
need curl
examples=$1 label=$2
shift
case $1 in
nginx_cycle | hello) start "$1" 127.0.0.1:0 3 ;;
threads)
    mode=$2
    shift 2
    start threads --listen 127.0.0.1:0 --processes 2 --workers 2 --mode "$mode" "$@"
    ;;
*)
    program_wanted=$1 mode=$2
    shift 2
    start "$program_wanted" --listen 127.0.0.1:0 --workers 3 --mode "$mode" "$@"
    ;;
esac

# Several at a time, on connections that are kept; then a new connection for each request.
clients() {
    for client in 1 2 3 4; do
        curl -s -S --max-time $((20 * scale)) "$@" "http://$address/[1-10]" -o /dev/null -w '%{http_code}\n' >"$tmp/codes$client" &
        pids="${pids:-} $!"
    done
    wait $pids || fail "clients $*"
    pids=
    test "$(cat "$tmp"/codes? | grep -cx '[24]0[04]')" = 40 || fail "answers: $(sort "$tmp"/codes? | uniq -c)"
}
is_served() { get / -o "$tmp/body" 2>"$tmp/curl" && test "$(cat "$tmp/body")" = hello; }
clients
clients -H 'Connection: close'
is_served || fail 'not served'
get / -d body -o /dev/null || fail 'a request with a body'
case $program in
hello_prefork | threads | host_*)
    get / -H "X: $(printf '%09000d' 0)" -o /dev/null || fail 'a long request'
    get '/slow?ms=50' -o /dev/null || fail slow
    get /counters -o /dev/null || fail counters
    get /metrics -o /dev/null || fail metrics
    ;;
esac
if test "$program" = hello_prefork; then
    for driven in short rate hold; do
        "$examples/load" --mode "$driven" --count 20 --timeout-ms 600000 --counters --server-pid "$server" "$address" \
            >"$tmp/report" || fail "load: $(cat "$tmp/report")"
    done
fi
old=$(children "$server")
if test -n "$old" && test "$program" != nginx_cycle; then
    kill -s KILL "${old%% *}"
    eventually is_served || fail 'not served after a kill'
    clients
fi
stop TERM
exit 0
