#!/bin/sh
# demo.sh DIRECTORY: runs hello_prefork once in each mode, drives it with load, prints one table.
# DIRECTORY holds both programs. Needs sh, sed, awk; takes about 7 s a mode. Exit 0, 1 (something failed) or 2 (usage).

# One line a mode: mode, balance, label in the table, more options. A new mode is a new line here, and
# nothing else. A hand-over delay as long as the accept delay makes a worker that lost the mutex look
# again after half a second only, as nginx does.
modes='
shared    pack   shared
mutex     pack   nginx-mutex  --handover-delay-us 500000
exclusive pack   exclusive/pack
mutex     spread mutex/spread
exclusive spread exclusive/spread
reuseport spread reuseport/spread
handoff   spread handoff/spread
'

workers=4
held_connections=400
rate=400        # connections a second, far from full rate: the workers are idle when one comes
slow_every=50   # then 8 handlers a second block for
slow_ms=200     # so long
ready_tries=50  # of 0.1 s each, until the server says it is ready
stop_seconds=3  # from SIGTERM to SIGKILL

if [ $# -ne 1 ] || [ ! -x "$1/hello_prefork" ] || [ ! -x "$1/load" ]; then
    echo "usage: demo.sh DIRECTORY    (with hello_prefork and load, built)" >&2
    exit 2
fi
programs=$1
server=
failed=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/herd-demo.XXXXXX") || exit 1

stop_server() {
    [ -n "$server" ] || return 0
    kill -TERM "$server" 2>/dev/null
    # wait has no timeout of its own; a server that does not stop must not stop the demo.
    (trap - TERM; sleep "$stop_seconds"; kill -KILL "$server") >/dev/null 2>&1 &
    watchdog=$!
    wait "$server" 2>/dev/null
    kill "$watchdog" 2>/dev/null
    server=
}
trap 'stop_server; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

progress() {
    if [ -t 2 ]; then printf '\r%-70s' "$1" >&2; else echo "$1" >&2; fi
}

complain() {
    [ ! -t 2 ] || printf '\r%-70s\r' '' >&2
    echo "demo: $1" >&2
    failed=1
}

start_server() { # mode balance [option]...
    mode=$1 balance=$2
    shift 2
    : >"$scratch/ready"
    "$programs/hello_prefork" --listen 127.0.0.1:0 --workers "$workers" --mode "$mode" --balance "$balance" "$@" \
        >"$scratch/ready" 2>"$scratch/log" &
    server=$!
    tries=0
    until grep -q '^hello_prefork: ready on ' "$scratch/ready"; do
        tries=$((tries + 1))
        if [ "$tries" -gt "$ready_tries" ] || ! kill -0 "$server" 2>/dev/null; then
            complain "hello_prefork --mode $mode --balance $balance did not get ready: $(tail -n 1 "$scratch/log")"
            return 1
        fi
        sleep 0.1
    done
    address=$(sed -n 's/^hello_prefork: ready on \([^,]*\),.*/\1/p' "$scratch/ready")
    master=$(sed -n 's/.*, pid \([0-9]*\).*/\1/p' "$scratch/ready")
}

# measure NAME load's options: the report goes to $scratch/NAME. Keeps a failure in mind and goes on.
measure() {
    name=$1
    shift
    progress "$label: $name ..."
    "$programs/load" --json --slots "$workers" "$@" "$address" >"$scratch/$name" 2>"$scratch/log" &&
        [ "$(field "$name" stopped)" = '"done"' ] && return 0
    complain "$label, $name, stopped $(field "$name" stopped): $(field "$name" failed) connections failed $(field "$name" errors) $(cat "$scratch/log")"
}

# field NAME KEY: load's JSON has one key a line, the flat ones indented by two blanks.
field() {
    sed -n "s/^  \"$2\": \(.*\),\$/\1/p" "$scratch/$1"
}

spread() { # {"0": 100, "1": 99} becomes 100/99
    field "$1" slots | sed 's/"[0-9]*": //g; s/, /\//g; s/[{}]//g'
}

measure_mode() { # label mode balance [option]...
    label=$1
    shift
    progress "$label: start"
    start_server "$@" || { stop_server; return; }
    measure short --mode short --seconds 2
    measure rate --mode rate --rate "$rate" --seconds 2 --server-pid "$master" --counters
    measure hold --mode hold --count "$held_connections" --gap-us 500
    measure blocked --mode rate --rate "$rate" --seconds 2 --slow-every "$slow_every" --slow-ms "$slow_ms"
    stop_server
    echo "$label $(field short connections_per_second) $(field rate sleeps_per_connection)" \
        "$(field rate wasted_wakeups_per_connection) $(spread hold) $(field hold jain)" \
        "$(field rate latency_p50_us) $(field rate latency_p99_us) $(field rate latency_worst_us)" \
        "$(field blocked latency_worst_us)" >>"$scratch/rows"
}

print_table() {
    awk '
        function number(text, format, scale) { return text == "null" ? "-" : sprintf(format, text / scale) }
        BEGIN {
            layout = "%-16s %8s %8s %9s  %-19s %6s %8s %8s %8s %9s\n"
            printf layout, "", "", "sleeps", "wasted", "connections", "", "p50", "p99", "worst", "blocked"
            printf layout, "mode", "conn/s", "/conn", "/conn", "per worker", "Jain", "ms", "ms", "ms", "worst ms"
        }
        NF == 10 {
            printf layout, $1, number($2, "%.0f", 1), number($3, "%.2f", 1), number($4, "%.3f", 1), $5,
                number($6, "%.3f", 1), number($7, "%.2f", 1000), number($8, "%.2f", 1000), number($9, "%.1f", 1000),
                number($10, "%.1f", 1000)
        }
        NF != 10 { print $1 "  (not measured in full)" }
    ' "$scratch/rows"
}

: >"$scratch/rows"
while read -r mode balance label options; do
    [ -n "$mode" ] || continue
    # shellcheck disable=SC2086 # options are words
    measure_mode "$label" "$mode" "$balance" $options </dev/null
done <<END
$modes
END
if [ -t 2 ]; then printf '\r%-70s\r' '' >&2; fi

echo "hello_prefork with $workers workers on $(getconf _NPROCESSORS_ONLN) cores, which load shares"
echo
print_table
cat <<END

conn/s        short connections completed in a second, 16 clients at full rate
sleeps/conn   how often the server's processes went to sleep for one connection, by the kernel's count
              (voluntary context switches), at $rate connections a second: high means the herd woke
wasted/conn   wake-ups for a connection that another worker had already taken, by the server's count
per worker    where $held_connections connections that stay open ended up
Jain          evenness of that: 1 all have the same, 1/$workers one has all
p50 p99 worst time from the arrival a client had planned to its full answer, at $rate a second
blocked worst the worst of these while every ${slow_every}th request blocks its worker for $slow_ms ms
END
if [ "$failed" -ne 0 ]; then
    echo
    echo "Some connections or steps failed, see above: do not trust this table."
fi
exit "$failed"
