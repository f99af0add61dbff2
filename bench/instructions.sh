#!/bin/sh
# instructions.sh BUILD [CONTENDER]: counts the user-space instructions of what a server does most, by callgrind: figures
# that do not depend on the machine's mood. Each is the difference of two runs of different length, divided by the
# difference, so that start-up does not count. BUILD holds bench/lock and peers/. Prints lines: figure contender count.
set -eu
build=$1 only=${2:-}

instructions() { # PROGRAM ARGUMENT...
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 | sed -n 's/.*Collected : //p'
}

# slope FIGURE CONTENDER DIVISOR SHORT LONG COMMAND...: a word N of the command becomes SHORT, then LONG.
slope() {
    figure=$1 contender=$2 divisor=$3 short=$4 long=$5
    shift 5
    [ -z "$only" ] || [ "$contender" = "$only" ] || return 0
    [ -x "$1" ] || return 0
    counts=
    for count in "$short" "$long"; do
        command=
        for word; do
            [ "$word" != N ] || word=$count
            command="$command $word"
        done
        # shellcheck disable=SC2086 # words without blanks
        counts="$counts $(instructions $command)"
    done
    echo "$figure $contender $counts $short $long $divisor" |
        awk '{ printf "%s %s %.1f\n", $1, $2, ($4 - $3) / ($6 - $5) / $7 }'
}

for contender in herd bare store pthread; do
    slope lock $contender 1 2000 4000 "$build/bench/lock" 1 N $contender
done
for contender in herd raw libevent libuv libev; do
    slope turn_of_1 $contender 1 2000 4000 "$build/peers/events_$contender" 1 N
    slope event_of_64 $contender 64 500 1000 "$build/peers/events_$contender" 64 N
done
for contender in herd libevent libuv libev; do
    slope timer $contender 1 10000 20000 "$build/peers/timers_$contender" N
done
