#!/bin/sh
# counting.sh BUILD: what counting costs. Runs one server with the library as it is and one with a build
# that counts nothing (feature `uncounted`), and loads them in turns with short connections at full rate.
# On a machine with other work, trust the cost of an empty turn, which comes first: a short connection takes
# 1.2 to 1.3 turns at full rate (herd_stats.turns). Prints the medians over all rounds, and the median of the rounds' ratios. ROUNDS=N: how many (41).
# Exit 0: measured, whatever it says; 1: something failed to run; 2: usage.
if [ $# -ne 1 ] || [ ! -x "$1/examples/hello_prefork" ] || [ ! -d "$1/uncounted" ]; then
    echo "usage: counting.sh BUILD    (built: make bench-counting)" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
rounds=${ROUNDS:-41}
workers=4
connections=6000 # a round and server
scratch=$(mktemp -d "${TMPDIR:-/tmp}/herd-counting.XXXXXX") || exit 1
servers=
stop() {
    # shellcheck disable=SC2086
    [ -z "$servers" ] || kill -INT $servers 2>/dev/null
    wait
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT TERM

# start NAME LIBRARIES MODE
start() {
    : >"$scratch/$1"
    LD_LIBRARY_PATH=$2 "$build/examples/hello_prefork" --listen 127.0.0.1:0 --mode "$3" --workers "$workers" \
        --connections 8192 >"$scratch/$1" 2>"$scratch/$1.log" &
    servers="$servers $!"
    tries=0
    until grep -q ': ready on ' "$scratch/$1"; do
        tries=$((tries + 1))
        [ "$tries" -le 500 ] || { echo "counting: $1 did not get ready: $(cat "$scratch/$1.log")" >&2; exit 1; }
        sleep 0.02
    done
}

# measure NAME: connections a second, server CPU of a connection in microseconds.
measure() {
    "$build/examples/load" --json --mode short --count "$connections" --seconds 60 \
        --server-pid "$(sed -n 's/.*, pid \([0-9]*\).*/\1/p' "$scratch/$1")" \
        "$(sed -n 's/.*: ready on \([^,]*\),.*/\1/p' "$scratch/$1")" >"$scratch/load" || exit 1
    sed -n 's/^  "\(server_cpu_us_per_connection\|connections_per_second\)": \([0-9.]*\),$/\2/p' "$scratch/load" | tr '\n' ' '
}

echo "$(getconf _NPROCESSORS_ONLN) cores, which the load shares; $rounds rounds of $connections connections each"
for mode in exclusive mutex; do
    counted=$("$build/bench/turn" "$mode") uncounted=$(LD_LIBRARY_PATH=$build/uncounted "$build/bench/turn" "$mode") || exit 1
    echo "$mode: an empty turn takes $counted ns counted, $uncounted ns not (least of 400 rounds)"
    servers=
    start counted "$build" "$mode"
    start uncounted "$build/uncounted" "$mode"
    : >"$scratch/figures"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        # Each goes first in every other round.
        if [ $((round % 2)) = 0 ]; then
            first=$(measure counted) second=$(measure uncounted)
        else
            second=$(measure uncounted) first=$(measure counted)
        fi
        echo "$first $second" >>"$scratch/figures"
    done
    # shellcheck disable=SC2086
    kill -INT $servers && wait $servers
    servers=
    awk -v mode="$mode" '
        function median(values, n,   i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && values[j - 1] > values[j]; j--) { t = values[j]; values[j] = values[j - 1]; values[j - 1] = t }
            return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
        }
        { a[NR] = $2; c[NR] = $4; cpu[NR] = $2 / $4; rate[NR] = $1 / $3; sum += cpu[NR]; squares += cpu[NR] ^ 2 }
        END {
            deviation = sqrt((squares - sum * sum / NR) / (NR - 1))
            printf "%-10s server CPU a connection: %.2f us counted, %.2f us not; ratio %.4f (mean %.4f +- %.4f); connections/s: ratio %.4f\n",
                mode, median(a, NR), median(c, NR), median(cpu, NR), sum / NR, deviation / sqrt(NR), median(rate, NR)
        }' "$scratch/figures"
done
