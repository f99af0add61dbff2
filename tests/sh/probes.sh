#!/bin/sh
# The probes are listed in the shared library and in a program that has the static one, and where
# bpftrace may attach, a traced server fires one `accept` for each connection. timeout: 120
. "$(dirname "$0")/lib/serve.sh"
need readelf
cat >"$tmp/main.c" <<'END'
#include <herd.h>
int main(void) { return herd_create(NULL, NULL) == 0; }
END
${CC:-cc} -I"$root/include" "$tmp/main.c" "$build/libherd.a" $(cat "$build/native-static-libs") -o "$tmp/main" || exit 1
library=$(readlink -f "$build/libherd.so")
for file in "$library" "$tmp/main"; do
    probes=$(readelf -n "$file" | grep -A 1 'Provider: herd' | sed -n 's/.*Name: //p' | sort -u | tr '\n' ' ')
    test "$probes" = 'accept acquire handover release theft ' || fail "$file: $probes"
done

command -v bpftrace >/dev/null || { echo 'listed; no bpftrace to fire them' && exit 0; }
start hello_prefork --listen 127.0.0.1:0 --workers 3 --mode mutex
bpftrace -e "usdt:$library:herd:accept { @[\"accepted\"] = count(); }
    BEGIN { printf(\"ready\\n\"); } interval:s:60 { exit(); }" >"$tmp/traced" 2>"$tmp/trace.log" &
tracer=$!
is_traced() { has_ended "$tracer" || grep -q ready "$tmp/traced"; }
eventually is_traced
if has_ended "$tracer" || ! grep -q ready "$tmp/traced"; then
    kill -s KILL "$tracer" 2>/dev/null
    echo "listed; bpftrace cannot attach: $(tail -n 1 "$tmp/trace.log")"
    exit 0
fi
for request in 1 2 3 4 5 6 7 8 9; do test "$(get /)" = hello || fail "request $request"; done
kill -s INT "$tracer"
wait "$tracer"
grep -q '^@\[accepted\]: 9$' "$tmp/traced" || fail "traced: $(cat "$tmp/traced")"
stop TERM
exit 0
