#!/bin/sh
# nginx's cycle, written by hand from the parts, serves without one failed request.
. "$(dirname "$0")/lib/serve.sh"
need curl wrk
for workers in 1 2 8; do
    label="$workers workers"
    start nginx_cycle 127.0.0.1:0 "$workers"
    test "$(get /)" = hello || fail "$label: curl"
    test "$(children "$server" | wc -w)" = "$workers" || fail "$label: not so many workers"
    wrk_without_failure -c 64
    stop TERM
    if get / >"$tmp/body" 2>&1; then fail "$label: somebody still answers"; fi
done
exit 0
