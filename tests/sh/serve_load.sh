#!/bin/sh
# The example servers serve wrk, ab and curl without one failed request, with 1 to 64 workers, in each
# mode. HERD_TEST_SLOW=1: each mode with each number of workers. timeout: 240
. "$(dirname "$0")/lib/serve.sh"
need curl wrk ab

requests=2000
ab_without_failure() {
    ab -q -s 10 -n "$requests" -c 64 "$@" "http://$address/" >"$tmp/ab" 2>&1 || fail "$label: ab $*: $(cat "$tmp/ab")"
    grep -qx "Complete requests: *$requests" "$tmp/ab" || fail "$label: ab $*: $(cat "$tmp/ab")"
    grep -qx 'Failed requests: *0' "$tmp/ab" || fail "$label: ab $*: $(cat "$tmp/ab")"
    if grep -E 'Non-2xx|errors' "$tmp/ab"; then fail "$label: ab $*: requests failed"; fi
}

# serves PROGRAM WORKERS MODE BALANCE
serves() {
    label="$*"
    start "$1" --listen 127.0.0.1:0 --workers "$2" --mode "$3" --balance "$4"
    grep -q ", $2 workers, mode $3, balance $4, pid $server\$" "$tmp/ready" || fail "$label: $(cat "$tmp/ready")"
    wrk_without_failure -c 256
    wrk_without_failure -c 256 -H 'Connection: close'
    ab_without_failure -k
    grep -qx "Keep-Alive requests: *$requests" "$tmp/ab" || fail "$label: ab -k: connections were not kept"
    ab_without_failure
    test "$(get /)" = hello || fail "$label: curl"
    eventually counter_is connections_open 1 || fail "$label: connections stay open: $(counter connections_open)"
    test "$(counter workers)" = "$2" || fail "$label: $(counter workers) workers"
    test "$(counter reaps)" = 0 || fail "$label: a worker died"
    stop TERM
}

in_each_mode() {
    serves hello_prefork "$1" mutex spread
    serves hello_prefork "$1" shared pack
    serves hello_prefork "$1" exclusive spread
    serves hello_prefork "$1" reuseport spread
    serves hello_prefork "$1" handoff spread
}
if test "${HERD_TEST_SLOW:-}" = 1; then
    for count in 1 2 4 16 64; do in_each_mode "$count"; done
    hosts='host_epoll,4,exclusive host_epoll,16,mutex host_libuv,4,exclusive host_libuv,16,mutex host_libev,4,mutex
        host_libevent,4,mutex'
else
    in_each_mode 4
    serves hello_prefork 1 exclusive spread
    serves hello_prefork 1 handoff spread
    serves hello_prefork 64 mutex spread
    serves hello_prefork 64 reuseport spread
    hosts='host_epoll,16,mutex host_libuv,4,exclusive host_libev,4,mutex host_libevent,4,mutex'
fi
left_out=
for host in $hosts; do
    host=$(echo "$host" | tr , ' ')
    if test -x "$examples/${host%% *}"; then serves $host spread; else left_out="${host%% *} is not built"; fi
done
test -z "$left_out" || { echo "$left_out"; exit 77; }
exit 0
