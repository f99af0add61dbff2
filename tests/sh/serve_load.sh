#!/bin/sh
# hello_prefork serves wrk, ab and curl without one failed request, with 1 to 64 workers, in each
# mode. timeout: 120
. "$(dirname "$0")/lib/serve.sh"
need curl wrk ab

requests=2000
ab_without_failure() {
    ab -q -s 10 -n "$requests" -c 64 "$@" "http://$address/" >"$tmp/ab" 2>&1 || fail "$label: ab $*: $(cat "$tmp/ab")"
    grep -qx "Complete requests: *$requests" "$tmp/ab" || fail "$label: ab $*: $(cat "$tmp/ab")"
    grep -qx 'Failed requests: *0' "$tmp/ab" || fail "$label: ab $*: $(cat "$tmp/ab")"
    if grep -E 'Non-2xx|errors' "$tmp/ab"; then fail "$label: ab $*: requests failed"; fi
}

for policy in mutex/spread shared/pack exclusive/spread handoff/spread; do
    mode=${policy%/*} balance=${policy#*/}
    for workers in 1 2 4 16 64; do
        label="$policy, $workers workers"
        start hello_prefork --listen 127.0.0.1:0 --workers "$workers" --mode "$mode" --balance "$balance"
        grep -q ", $workers workers, mode $mode, balance $balance, pid $server\$" "$tmp/ready" ||
            fail "$label: $(cat "$tmp/ready")"
        wrk_without_failure -c 256
        wrk_without_failure -c 256 -H 'Connection: close'
        ab_without_failure -k
        grep -qx "Keep-Alive requests: *$requests" "$tmp/ab" || fail "$label: ab -k: connections were not kept"
        ab_without_failure
        test "$(get /)" = hello || fail "$label: curl"
        eventually counter_is connections_open 1 || fail "$label: connections stay open: $(counter connections_open)"
        test "$(counter workers)" = "$workers" || fail "$label: $(counter workers) workers"
        test "$(counter reaps)" = 0 || fail "$label: a worker died"
        stop TERM
    done
done
exit 0
