#!/bin/sh
# The example servers speak HTTP/1.1 as they say, and start, drain, stop and survive deaths, hello_prefork
# with processes and with threads. HERD_TEST_SLOW=1: in each mode. timeout: 200
. "$(dirname "$0")/lib/serve.sh"
need curl
${CC:-cc} -O2 -std=c99 -Wall -Wextra -Wpedantic -Werror "$root/tests/sh/lib/raw_client.c" -o "$tmp/raw_client"
raw() { "$tmp/raw_client" "${address%:*}" "${address##*:}" "$@"; }
expect() { test "$2" = "$3" || fail "$label: $1: got '$2', not '$3'"; }

# codes PATH OPTION...: asks for PATH and then for /; code and number of new connections of each.
codes() {
    path=$1
    shift
    curl -s -S --max-time 20 "$@" -w '%{http_code} %{num_connects}\n' -o /dev/null "http://$address$path" \
        -o /dev/null "http://$address/" | tr '\n' ' '
}

raw_codes() { raw 0 | sed -n 's/^HTTP.1.1 \(...\).*/\1/p' | tr '\n' ' '; }

http() {
    expect body "$(get /)" hello
    expect 'Content-Length' "$(get / -D - -o /dev/null | tr -d '\r' | sed -n 's/^Content-Length: //p')" 6
    get / -D - -o /dev/null | grep '^X-Herd-Slot: [01]' >"$tmp/out" || fail "$label: no slot"
    get / -D - -o /dev/null | grep '^X-Herd-Pid: [0-9]' >"$tmp/out" || fail "$label: no pid"
    expect 'keep-alive' "$(codes /)" '200 1 200 0 '
    expect 'close' "$(codes / -H 'Connection: close')" '200 1 200 1 '
    get / -D - -H 'Connection: close' | grep '^Connection: close' >"$tmp/out" || fail "$label: close not announced"
    expect '404' "$(codes /nothing)" '404 1 200 0 '
    expect '405' "$(codes / -d body)" '405 1 405 1 '
    expect '431' "$(codes / -H "X: $(printf '%09000d' 0)")" '431 1 431 1 '
    expect 'slow' "$(get '/slow?ms=50')" slow
    expect 'HEAD' "$(codes / -I)" '200 1 200 0 '
    expect '400' "$(printf 'this is not http\r\n\r\nGET / HTTP/1.1\r\n\r\n' | raw_codes)" '400 '
    expect 'a NUL' "$(printf 'GET / HTTP/1.1\r\nX: \0\r\n\r\n' | raw_codes)" '400 '

    # Requests that come together, and a peer that closes its sending side behind them.
    expect pipelined "$(printf 'GET / HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n' |
        raw_codes)" '200 404 200 '
    expect 'nothing after close' "$(printf 'GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n' | raw 0 |
        grep -c '^HTTP')" 1
    # A request in pieces.
    expect 'in pieces' "$( (printf 'GET / HT'; sleep 0.1; printf 'TP/1.1\r\n\r'; sleep 0.1; printf '\n') |
        raw 0 | tail -n 1)" hello
    # 15 MB of answers to a peer that does not read at first: more than the sockets' buffers hold.
    expect 'late reader' "$(awk 'BEGIN { for (i = 0; i < 100000; i++) printf "GET / HTTP/1.1\r\n\r\n" }' |
        raw 300 | grep -c '^hello')" 100000
    eventually counter_is connections_open 1 || fail "$label: connections stay open: $(counter connections_open)"
}

listeners() {
    set -- --listen 127.0.0.1:0 --listen "unix:$tmp/socket"
    ipv6=
    if grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null; then ipv6=yes; set -- "$@" --listen '[::1]:0'; fi
    start $server_program --workers 2 $options "$@"
    expect 'unix socket' "$(curl -s --unix-socket "$tmp/socket" http://localhost/)" hello
    expect 'IPv4' "$(get /)" hello
    if [ "$ipv6" ]; then
        expect 'IPv6' "$(curl -s "http://$(sed 's/.*, \(\[::1\]:[0-9]*\),.*/\1/' "$tmp/ready")/")" hello
    fi
    stop TERM
    test ! -e "$tmp/socket" || fail "$label: the socket's file is left"
}

# SIGTERM: a request that is being handled gets its answer; an idle connection does not delay the end.
drain() {
    start $server_program --listen 127.0.0.1:0 --workers 2 $options
    printf 'GET / HTTP/1.1\r\n\r\n' | raw 0 keep >"$tmp/idle" &
    idle=$!
    eventually grep -q hello "$tmp/idle" || fail "$label: no answer"
    # The idle one, the slow one, and the one that asks.
    begin_slow 2000 3
    stop TERM
    wait "$slow" || fail "$label: the slow request failed while draining"
    expect 'slow while draining' "$(cat "$tmp/slow")" slow
    wait "$idle" || fail "$label: the idle connection was not closed in order"
    if get / >"$tmp/slow" 2>&1; then fail "$label: somebody still answers"; fi
}

stop_at_once() {
    start $server_program --listen 127.0.0.1:0 --workers 2 $options
    begin_slow 60000 2
    stop INT
    if wait "$slow"; then fail "$label: the slow request was answered"; fi
}

killed_worker() {
    start $server_program --listen 127.0.0.1:0 --workers 1 $options
    old=$(children "$server")
    kill -s KILL $old
    eventually get / --max-time 2 >"$tmp/body" 2>&1 || fail "$label: nobody answers after kill -9"
    expect 'reaps' "$(counter reaps)" 1
    expect 'workers' "$(counter workers)" 1
    test "$(children "$server")" != "$old" || fail "$label: the worker was not replaced"
    stop TERM
}

killed_master() {
    start $server_program --listen 127.0.0.1:0 --workers 2 $options
    orphans=$(children "$server")
    kill -s KILL "$server"
    wait "$server"
    server=
    for pid in $orphans; do
        expect 'after the master' "$(get /)" hello
        expect 'twice' "$(codes /)" '200 1 200 0 '
    done
    for pid in $orphans; do
        kill -s TERM "$pid"
        eventually has_ended "$pid" || fail "$label: worker $pid did not end"
    done
    orphans=
}

# With ever more descriptors: too few for the herd, then for the workers, then enough. Whatever is missing, it ends.
few_descriptors() {
    for descriptors in $(seq 8 80); do
        : >"$tmp/ready"
        (ulimit -n "$descriptors" && exec "$examples/$server_program" --listen 127.0.0.1:0 --workers 2 $options) \
            >"$tmp/ready" 2>"$tmp/log" &
        server=$!
        eventually is_ready || fail "$label: with $descriptors descriptors it neither starts nor ends"
        if grep -q ': ready on ' "$tmp/ready"; then stop TERM; return; fi
        wait "$server"
        expect "the code, with $descriptors descriptors" $? 1
        server=
    done
    fail "$label: not even with $descriptors descriptors"
}

more_servers=
test "${HERD_TEST_SLOW:-}" != 1 || more_servers='hello_prefork --mode mutex
hello_prefork --mode shared
hello_prefork --mode shared --threads
host_epoll --mode mutex
host_epoll --mode handoff
host_libuv --mode mutex
host_libuv --mode exclusive'
left_out=
while read -r server_program options; do
    test -n "$server_program" || continue
    label="$server_program $options"
    if ! test -x "$examples/$server_program"; then left_out="$server_program is not built"; continue; fi
    start $server_program --listen 127.0.0.1:0 --workers 2 $options
    http
    stop TERM
    listeners
    drain
    stop_at_once
    # The others have a loop to make after their worker is counted as ready.
    case $server_program in hello_prefork) few_descriptors ;; esac
    case $options in *threads) continue ;; esac
    killed_worker
    killed_master
done <<SERVERS
hello_prefork --mode exclusive
hello_prefork --mode handoff
hello_prefork --mode mutex --threads
host_epoll --mode exclusive
host_libuv --mode reuseport
host_libev --mode mutex
host_libevent --mode mutex
$more_servers
SERVERS

# Bad options: one line that says what is wrong, and a code of their own.
refuses() {
    expected=$1
    shift
    timeout 10 "$examples/$server_program" --listen 127.0.0.1:0 "$@" >"$tmp/out" 2>"$tmp/log"
    label=$* expect 'exit code' "$?" "$expected"
    test ! -s "$tmp/out" || fail "$*: $(cat "$tmp/out")"
    test "$(grep -cv 'herd: mode' "$tmp/log")" = 1 || fail "$*: not one line"
}
for server_program in hello_prefork host_epoll; do
    refuses 2 --workers 0
    refuses 2 --workers 1025
    refuses 2 --mode none
    refuses 2 --no-such-option
    refuses 2 --listen
    refuses 2 word
    refuses 1 --listen localhost:80
    refuses 1 --listen unix:/no/such/directory/socket
    refuses 1 --name 'a b'
    "$examples/$server_program" --help | grep -e '--handover-delay-us' >"$tmp/out" || fail 'no --help'
done

# R20: behind a polled descriptor mode exclusive is refused, and the log says what to use.
for server_program in host_libev host_libevent; do
    test -x "$examples/$server_program" || continue
    timeout 10 "$examples/$server_program" --listen 127.0.0.1:0 --mode exclusive --workers 2 >"$tmp/out" 2>"$tmp/log" &&
        fail "$server_program runs in mode exclusive"
    grep -q 'HERD_MODE_MUTEX, or use herd_attach_epoll' "$tmp/log" || fail "$server_program: not what to use instead"
done
test -z "$left_out" || { echo "$left_out"; exit 77; }
exit 0
