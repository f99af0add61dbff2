#!/bin/sh
# The load driver reports what its clients saw, under the keys that the benchmarks and the demonstration read, and its
# exit code says whether a connection failed.
. "$(dirname "$0")/lib/serve.sh"
label=load

# drive CODE OPTION...: runs it; the report, as JSON, is in $tmp/report.
drive() {
    wanted=$1
    shift
    driven=$*
    "$examples/load" --json --timeout-ms 30000 "$@" "$address" >"$tmp/report" 2>"$tmp/said"
    code=$?
    test "$code" = "$wanted" || fail "load $*: exit code $code: $(cat "$tmp/said" "$tmp/report")"
}

# As demo.sh reads it: one key a line, those of the server's objects within braces.
field() { sed -n "s/^  \"$1\": \(.*[^,]\),*\$/\1/p" "$tmp/report"; }
is() { test "$(field "$1")" = "$2" || fail "load $driven: $1 is $(field "$1"), not $2: $(cat "$tmp/report")"; }
is_number() {
    for key in "$@"; do
        field "$key" | grep -qx '[0-9][0-9.]*' || fail "load $driven: no number for $key: $(cat "$tmp/report")"
    done
}

start hello_prefork --listen 127.0.0.1:0 --workers 3
for options in '--mode short' '--mode rate --rate 1000' '--mode hold --gap-us 200'; do
    drive 0 $options --count 150 --slots 3 --counters --server-pid "$server"
    is stopped '"done"'
    is connections 150
    is failed 0
    is errors '{}'
    is server_tasks 4
    is_number seconds connections_per_second latency_p50_us latency_p90_us latency_p99_us latency_p999_us \
        latency_worst_us jain sleeps_per_connection server_cpu_us_per_connection wasted_wakeups_per_connection
    # {"0": 40, "1": 60, "2": 50}
    field slots | tr -dc '0-9: ' | awk '{ exit $2 + $4 + $6 != 150 }' || fail "load $driven: slots $(field slots)"
    field counters | tr , '\n' | grep -qx ' "accepted": 151' || fail "load $driven: counters $(field counters)"
done
drive 0 --mode rate --rate 100 --count 4 --slow-every 1 --slow-ms 1
is connections 4
is latency_p50_us null
drive 1 --path /nothing --count 5
is connections 0
is errors '{"bad_status": 5}'
"$examples/load" --count 5 "$address" >"$tmp/report"
grep -qx 'mode short, done' "$tmp/report" && grep -qx 'connections  *5' "$tmp/report" || fail "load: $(cat "$tmp/report")"

# What becomes of 10 connections that are held when COMMAND sends a signal. The server has all of them before the driver
# has the last answer, which a busy machine can make late: then once more.
# held_until COMMAND CODE KEY VALUE
held_until() {
    driven="--mode hold, $1"
    for try in 1 2 3 4 5; do
        drive "$2" --mode hold --count 10 --seconds 60 &
        holder=$!
        eventually counter_reaches connections_open 11 || fail 'nothing is held'
        "$1"
        wait "$holder" || exit 1
        test "$(field "$3")" != "$4" || return 0
    done
    is "$3" "$4"
}
interrupt() { kill -s INT "$(children "$holder" | tr -d ' ')"; }
kill_worker() { kill -s KILL "$(children "$server" | tr -d ' ')"; }
held_until interrupt 0 connections 10
is stopped '"interrupted"'
stop TERM
start hello_prefork --listen 127.0.0.1:0 --workers 1
held_until kill_worker 1 errors '{"closed_while_held": 10}'
is stopped '"done"'

drive 2 --rate 5
grep -q '^load: --rate: has no meaning in mode short' "$tmp/said" || fail "load --rate 5: $(cat "$tmp/said")"
stop TERM
drive 1 --clients 3
is stopped '"gave_up"'
field errors | grep -qx '{"connect_refused": 1[0-9]*}' || fail "load $driven: $(cat "$tmp/report")"
exit 0
