#!/bin/sh
# promises.sh BUILD: measures every promise of the design (section 6), prints each beside its limit, for both modes with
# both policies, and beside the peer. BUILD holds examples/ and bench/. Needs sh, sed, awk and Linux's /proc.
# Rounds of the contenders take turns (A B C A B C ...). QUICK=1: fewer and shorter rounds.
# Exit 0: all was measured, whatever it says; 1: something failed to run; 2: usage.

if [ $# -ne 1 ] || [ ! -x "$1/examples/hello_prefork" ] || [ ! -x "$1/bench/raw_server" ]; then
    echo "usage: promises.sh BUILD    (with examples and benchmarks, built: make bench-promises)" >&2
    exit 2
fi
build=$1

herds='exclusive/spread exclusive/pack mutex/spread mutex/pack'
others='mutex/spread-late mutex/pack-late raw-rotate-del raw-exclusive-del raw-mutex-del' # for overhead only
workers=4
connections=8192    # of one worker: more than there are, so that PACK does not step back
accept_delay_ms=100 # of the crash rows, to keep them short; the default elsewhere
burn_us=500
if [ -n "${QUICK:-}" ]; then
    rounds=2 crash_rounds=1 short_rounds=3 short_s=0.4 wait_ms=700 crash_ms=400 wakeups=80 idle_s=2 lock_rounds=11
else
    rounds=5 crash_rounds=3 short_rounds=9 short_s=0.5 wait_ms=1500 crash_ms=500 wakeups=120 idle_s=5 lock_rounds=31
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/herd-bench.XXXXXX") || exit 1
figures=$scratch/figures # metric contender value, a line a round
: >"$figures"
failed=0
servers=
begun=$(date +%s)

# --- servers: any number at a time, each with its address and master by name -------------------

key() { echo "$1" | tr '/-' '__'; }

complain() {
    echo "promises: $1" >&2
    failed=1
}

# start NAME WORKERS [libherd's options]: NAME is mode/balance of libherd or raw-WAY. With -late libherd does not hand the right
# over while its holder is busy, as nginx's mutex does not; with -del a raw server removes connections before it closes.
start() {
    name=$1 count=$2 ready=$scratch/ready.$(key "$1")
    shift 2
    : >"$ready"
    case $name in
    raw-*-del) way=${name#raw-} && set -- --way "${way%-del}" --remove ;;
    raw-*) set -- --way "${name#raw-}" ;;
    *-late) set -- --handover-delay-us 1000000 "$@" ;;
    esac
    case $name in
    raw-*) "$build/bench/raw_server" --workers "$count" "$@" >"$ready" 2>>"$scratch/log" & ;;
    *) balance=${name#*/}
        "$build/examples/hello_prefork" --listen 127.0.0.1:0 --mode "${name%/*}" --balance "${balance%-late}" \
        --workers "$count" --connections "$connections" "$@" >"$ready" 2>>"$scratch/log" & ;;
    esac
    servers="$servers $!"
    tries=0
    until grep -q ': ready on .*pid' "$ready"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 500 ]; then
            complain "$name did not get ready: $(tail -n 1 "$scratch/log")"
            return 1
        fi
        sleep 0.02
    done
    eval "address_$(key "$name")=\$(sed -n 's/.*: ready on \([^,]*\),.*/\1/p' \"\$ready\")"
    eval "master_$(key "$name")=\$(sed -n 's/.*, pid \([0-9]*\).*/\1/p' \"\$ready\")"
}

start_all() { # workers, names
    count=$1
    shift
    for name in "$@"; do start "$name" "$count"; done
}

address() { eval "echo \$address_$(key "$1")"; }
master() { eval "echo \$master_$(key "$1")"; }

stop_all() {
    # shellcheck disable=SC2086
    [ -z "$servers" ] || kill -TERM $servers 2>/dev/null
    # wait has no timeout of its own; a server that does not stop must not stop the benchmark.
    (trap - TERM; sleep 5; kill -KILL $servers) >/dev/null 2>&1 &
    watchdog=$!
    for server in $servers; do wait "$server" 2>/dev/null; done
    kill "$watchdog" 2>/dev/null
    wait "$watchdog" 2>/dev/null
    servers=
}
trap 'stop_all; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

progress() { echo "promises: $(($(date +%s) - begun)) s: $1" >&2; }
put() { echo "$1 $2 ${3:-null}" >>"$figures"; }

# load NAME METRIC:KEY... -- options: runs the load generator and keeps its figures of these keys.
load() {
    name=$1 wanted=
    shift
    while [ "$1" != -- ]; do wanted="$wanted $1"; shift; done
    shift
    if ! "$build/examples/load" --json "$@" "$(address "$name")" >"$scratch/load" 2>"$scratch/load.log"; then
        complain "load $* on $name: $(sed -n 's/^  "errors": //p' "$scratch/load") $(tail -n 1 "$scratch/load.log")"
        return
    fi
    for pair in $wanted; do
        put "${pair%:*}" "$name" "$(sed -n "s/^  \"${pair#*:}\": \(.*\),\$/\1/p" "$scratch/load")"
    done
}

# clients NAME PREFIX what options: the same for bench/clients, all its figures, as PREFIX_figure.
clients() {
    name=$1 prefix=$2 what=$3
    shift 3
    if ! "$build/bench/clients" "$what" "$(address "$name")" "$(master "$name")" "$@" >"$scratch/clients" \
        2>"$scratch/clients.log"; then
        complain "clients $what $* on $name: $(tail -n 1 "$scratch/clients.log")"
        return
    fi
    while read -r figure value; do put "${prefix}_$figure" "$name" "$value"; done <"$scratch/clients"
}

each_round() { # how many rounds, then what to do with the number of each
    last=$1
    shift
    round=0
    while [ "$round" -lt "$last" ]; do
        round=$((round + 1))
        "$@"
    done
}

# --- what is measured --------------------------------------------------------------------------

wakeups_round() {
    for name in $herds raw-exclusive raw-rotate; do clients "$name" "w$idle" wakeups "$wakeups" 1500; done
    for name in $herds; do
        load "$name" "w${idle}_wasted:wasted_wakeups_per_connection" -- --mode rate --rate 400 --count "$wakeups" --counters
    done
}

balance_round() {
    for name in $herds raw-exclusive raw-rotate; do
        load "$name" hold_jain:jain hold_ratio:max_min_ratio -- --mode hold --count 2000 --slots $workers --gap-us 200
        load "$name" burst_jain:jain burst_ratio:max_min_ratio -- --mode hold --count 2000 --slots $workers
        load "$name" few_jain:jain few_ratio:max_min_ratio -- --mode hold --count 400 --slots $workers --gap-us 500
    done
}

stall_round() {
    for name in $herds raw-exclusive raw-rotate raw-mutex; do clients "$name" stall wait 800 "$wait_ms" 200 200; done
}

crash_round() {
    for event in kill stop orphan_kill orphan_stop none; do
        for name in $herds raw-exclusive; do
            start "$name" "$workers" --accept-delay-ms "$accept_delay_ms" || continue
            clients "$name" "$event" wait 500 "$crash_ms" "$event"
            stop_all
        done
    done
}

short_round() {
    for name in $herds raw-exclusive raw-rotate raw-mutex $others; do
        load "$name" cpu:server_cpu_us_per_connection short:connections_per_second -- \
            --mode short --seconds "$short_s" --server-pid "$(master "$name")"
    done
}

burn_round() {
    for name in $herds raw-exclusive raw-mutex; do
        load "$name" burn:connections_per_second -- --mode short --seconds "$short_s" --path '/slow?ms=1'
    done
}

sleeps() { # voluntary context switches of a process and its children
    for task in "/proc/$1/task/$1" $(sed 's|[0-9][0-9]*|/proc/&|g' "/proc/$1/task/$1/children"); do cat "$task/status"; done |
        awk '$1 == "voluntary_ctxt_switches:" { total += $2 } END { print total }'
}

idle_round() {
    for name in $herds; do eval "before_$(key "$name")=$(sleeps "$(master "$name")")"; done
    sleep "$idle_s"
    for name in $herds; do
        put "idle$idle" "$name" "$(($(sleeps "$(master "$name")") - $(eval "echo \$before_$(key "$name")")))"
    done
}

arming_round() {
    for listeners in 1 16 256 1000; do
        "$build/bench/arming" $listeners 3 1000 >"$scratch/arming" || complain "arming $listeners"
        while read -r who ns calls; do
            [ "$who" = herd ] && who=mutex/spread
            [ "$who" = each ] && who=nginx
            put "arming$listeners" "$who" "$ns"
            put "calls$listeners" "$who" "$calls"
        done <"$scratch/arming"
    done
}

echo "Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(getconf _NPROCESSORS_ONLN) cores," \
    "Linux $(uname -r), load average $(cut -d ' ' -f 1-3 /proc/loadavg) at the start"

progress "lock, memory, arming"
"$build/bench/lock" "$lock_rounds" 200000 >"$scratch/lock" || complain "lock"
while read -r who ns least most; do
    for value in $ns $least $most; do put lock "$who" "$value"; done
done <"$scratch/lock"
"$build/bench/memory" >"$scratch/memory" || complain "memory"
while read -r figure value; do put "$figure" exclusive/spread "$value"; done <"$scratch/memory"
each_round "$rounds" arming_round

for idle in 8 64; do
    progress "wake-ups, $idle idle workers"
    # shellcheck disable=SC2086
    start_all "$idle" $herds raw-exclusive raw-rotate
    each_round "$rounds" wakeups_round
    [ "$idle" = 64 ] && progress "idle, 64 workers" && idle_round
    stop_all
done
for idle in 4 16; do
    # shellcheck disable=SC2086
    start_all "$idle" $herds
    progress "idle, $idle workers"
    sleep 0.5
    idle_round
    stop_all
done

# shellcheck disable=SC2086
start_all "$workers" $herds raw-exclusive raw-rotate raw-mutex $others
progress "overhead"
each_round "$short_rounds" short_round
progress "balance"
each_round "$rounds" balance_round
progress "stall"
each_round "$rounds" stall_round
stop_all

progress "throughput with working handlers"
LD_PRELOAD=$(cd "$build/bench" && pwd)/burn.so BURN_US=$burn_us
export LD_PRELOAD BURN_US
# shellcheck disable=SC2086
start_all "$workers" $herds raw-exclusive raw-mutex
unset LD_PRELOAD BURN_US
each_round "$rounds" burn_round
stop_all

progress "crash"
each_round "$crash_rounds" crash_round
progress "done"

# --- the table ---------------------------------------------------------------------------------
# promise | what | limit | metric | how | peer. How: median, worst (of all rounds), sum, per_s (divided by the seconds of
# idle), or ratio A B C D (to the median of that contender of the same metric, by column; - : none), late A (that of the
# column's contender with -late, to the median of A), over METRIC
# CONTENDER (to the median of another metric). A limit is <= or >= a number, or -: shown for information only. Two
# limits, MUTEX's behind a comma. Times are in us. Cells: figure, spread (half the distance of the quartiles, in %).
cat >"$scratch/rows" <<END
wake-ups | 8 idle: sleeps a connection | <= 1.5 | w8_sleeps_open | median | raw-exclusive
wake-ups | 8 idle: with its request | <= 2.2 | w8_sleeps_request | median | raw-exclusive
wake-ups | 8 idle: wasted a connection | <= 0.01 | w8_wasted | median | -
wake-ups | 64 idle: sleeps a connection | <= 1.5 | w64_sleeps_open | median | raw-exclusive
wake-ups | 64 idle: with its request | <= 2.2 | w64_sleeps_request | median | raw-exclusive
wake-ups | 64 idle: wasted a connection | <= 0.01 | w64_wasted | median | -
balance | 2000 on $workers, 5000/s: Jain | >= 0.995 P | hold_jain | median | raw-rotate
balance | 2000 on $workers, 5000/s: max/min | <= 1.15 P | hold_ratio | median | raw-rotate
balance | 2000 at full rate: Jain | >= 0.995 P | burst_jain | median | raw-rotate
balance | 2000 at full rate: max/min | <= 1.15 P | burst_ratio | median | raw-rotate
balance | 400, 2000/s: Jain | >= 0.995 P | few_jain | median | raw-rotate
balance | 400, 2000/s: max/min | <= 1.15 P | few_ratio | median | raw-rotate
stall | accepted within, worst us | <= 5000 | stall_accept_worst_us | worst | raw-mutex
stall | accepted within, 99.9 % us | <= 2000 | stall_accept_p999_us | median | raw-mutex
stall | share that waits above 50 ms | <= 0.002 | stall_over_50ms | mean | raw-mutex
crash | kill -9: worst wait us | <= 10000 | kill_wait_worst_us | worst | raw-exclusive
crash | SIGSTOP: worst wait us | <= 10000, <= $((accept_delay_ms * 1000 + 10000)) | stop_wait_worst_us | worst | raw-exclusive
crash | no master, kill -9: us | <= 10000, <= $((accept_delay_ms * 1000 + 10000)) | orphan_kill_wait_worst_us | worst | raw-exclusive
crash | no master, SIGSTOP: us | <= 10000, <= $((accept_delay_ms * 1000 + 10000)) | orphan_stop_wait_worst_us | worst | raw-exclusive
crash | lost from the backlog | <= 0 | lost | lost | raw-exclusive
crash | nothing happens: worst us | - | none_wait_worst_us | worst | raw-exclusive
overhead | server CPU us, short connection | - | cpu | median | raw-rotate
overhead | of raw epoll of its way | <= 1.05 | cpu | ratio raw-rotate raw-exclusive raw-mutex raw-mutex | -
overhead | of one that removes before close | - | cpu | ratio raw-rotate-del raw-exclusive-del raw-mutex-del raw-mutex-del | -
overhead | of that, without hand-over if busy | - | cpu | late raw-mutex-del | -
overhead | mutex/spread of mutex/pack | <= 1.05 | cpu | ratio - - mutex/pack - | -
overhead | exclusive/spread of rotation | <= 1 | cpu | ratio raw-rotate - - - | -
overhead | short connections a second | - | short | median | raw-rotate
overhead | $burn_us us handlers, of raw EXCLUSIVE | >= 1 | burn | ratio raw-exclusive raw-exclusive raw-exclusive raw-exclusive | raw-mutex
lock | trylock + unlock ns | - | lock | other herd | bare
lock | of a bare CAS pair | <= 1.5 | lock | over herd bare | -
arming | turn with 1 listener, ns | - | arming1 | median | nginx
arming | turn with 1000 listeners, ns | - | arming1000 | median | nginx
arming | 16 listeners of 1 | <= 2 | arming16 | against arming1 | nginx
arming | 256 listeners of 1 | <= 2 | arming256 | against arming1 | nginx
arming | 1000 listeners of 1 | <= 2 | arming1000 | against arming1 | nginx
arming | epoll_ctl calls with 1000 | - | calls1000 | median | nginx
memory | bytes a watched fd | <= 128 | bytes_per_fd | median | -
memory | grown by 10^6 del + add, bytes | <= 0 | grown | median | -
idle | 4 workers: wake-ups a second | <= 2.5 | idle4 | per_s | -
idle | 16 workers: wake-ups a second | <= 2.5 | idle16 | per_s | -
idle | 64 workers: wake-ups a second | <= 2.5 | idle64 | per_s | -
END

awk -v idle_s="$idle_s" -v herds="$herds" '
    function trim(text) { gsub(/^ +| +$/, "", text); return text }
    function sort(list, count,    i, j, held) {
        for (i = 2; i <= count; i++) {
            held = list[i]
            for (j = i - 1; j >= 1 && list[j] > held; j--) list[j + 1] = list[j]
            list[j + 1] = held
        }
    }
    # Of all rounds of a metric and contender: sets median, worst, mean, spread; false if there are none.
    function summarize(metric, who,    key, list, i, count) {
        key = metric " " who
        count = rounds[key]
        if (count == 0) return 0
        mean = 0
        for (i = 1; i <= count; i++) { list[i] = value[key, i]; mean += list[i] / count }
        sort(list, count)
        median = count % 2 ? list[(count + 1) / 2] : (list[count / 2] + list[count / 2 + 1]) / 2
        worst = list[count]
        spread = median > 0 && count > 2 ? 50 * (list[int(count * 3 / 4) + 1 - (count % 4 == 0)] - list[int(count / 4) + 1]) / median : -1
        return 1
    }
    # The figure of a row for a contender, "" if there is none; shown_spread is set for medians.
    function figure(metric, how, column, who,    part, own, events, i, sum) {
        split(how, part, " ")
        shown_spread = -1
        if (part[1] == "lost") {
            sum = 0
            split("kill stop orphan_kill orphan_stop", events, " ")
            for (i = 1; i <= 4; i++) if (summarize(events[i] "_lost", who)) sum += mean * rounds[events[i] "_lost " who]; else return ""
            return sum
        }
        if (part[1] == "other" || part[1] == "over") {
            if (column != 3 && column != 5) return ""
            who = column == 5 ? who : part[2]
        }
        if (!summarize(metric, who)) return ""
        own = median
        if (part[1] == "median") { shown_spread = spread; return median }
        if (part[1] == "other") return median
        if (part[1] == "worst") return worst
        if (part[1] == "mean") return mean
        if (part[1] == "per_s") return mean / idle_s
        if (part[1] == "ratio") {
            own_spread = spread
            if (column == 5) part[6] = "raw-exclusive"
            if (part[column + 1] == "-" || !summarize(metric, part[column + 1])) return ""
            shown_spread = own_spread
            return own / median
        }
        if (part[1] == "late") {
            if (column < 3 || column == 5 || !summarize(metric, who "-late")) return ""
            own = median
            shown_spread = spread
            return summarize(metric, part[2]) ? own / median : ""
        }
        if (part[1] == "over") return summarize(metric, part[3]) ? own / median : ""
        if (part[1] == "against") return summarize(part[2], who) ? own / median : ""
    }
    function format(number) {
        return number == int(number) && number < 1e7 || number >= 100 ? sprintf("%.0f", number) : number < 0.1 ? sprintf("%.4f", number) : sprintf("%.3f", number)
    }
    function verdict(number, limit,    part) {
        split(limit, part, " ")
        if (part[1] == "<=") return number <= part[2] ? " ok" : " MISSED"
        if (part[1] == ">=") return number >= part[2] ? " ok" : " MISSED"
        return ""
    }
    FNR == NR { if ($3 != "null") value[$1 " " $2, ++rounds[$1 " " $2]] = $3 + 0; next }
    FNR == 1 {
        split(herds, column_name, " ")
        layout = "%-9s %-33s %-18s %-20s %-20s %-20s %-20s %s\n"
        printf "\n" layout, "promise", "", "limit", column_name[1], column_name[2], column_name[3], column_name[4], "peer"
    }
    {
        split($0, field, "|")
        for (i in field) field[i] = trim(field[i])
        split(field[3], limit, ", ")
        if (!sub(/^.*, /, "", field[3])) limit[2] = limit[1]
        shown_limit = limit[1] == limit[2] || !(2 in limit) ? limit[1] : limit[1] "/" substr(limit[2], 4)
        only_spread = sub(/ P$/, "", shown_limit)
        for (column = 1; column <= 4; column++) {
            number = figure(field[4], field[5], column, column_name[column])
            cell[column] = "-"
            if (number == "") continue
            cell[column] = format(number) (shown_spread >= 0 ? sprintf(" ~%.0f%%", shown_spread) : "")
            # PACK does not promise balance.
            if (!(only_spread && column % 2 == 0)) {
                answer = verdict(number, limit[column > 2 ? 2 : 1])
                cell[column] = cell[column] answer
                missed += answer == " MISSED"
                judged += answer != ""
            }
        }
        number = field[6] == "-" ? "" : figure(field[4], field[5], 5, field[6])
        peer = number == "" ? "-" : format(number) " " field[6]
        printf layout, field[1] == before ? "" : field[1], field[2], shown_limit, cell[1], cell[2], cell[3], cell[4], peer
        before = field[1]
    }
    END { printf "\n%d of %d figures within their limits, %d missed.\n", judged - missed, judged, missed }
' "$figures" "$scratch/rows"

cat <<END

Medians of $rounds rounds ($short_rounds of overhead, $crash_rounds of crash, $lock_rounds of lock) in which the contenders took
turns; ~ is the spread between rounds, half the distance of the quartiles. Ratios are ratios of medians. "worst" is the
worst client of all rounds; "nothing happens" is the same without an event: what this machine adds by itself.
The load generator shares the cores with the server, and whoever else uses this machine shares them too.
- means: not measured, or nothing is promised there. Lock, arming and memory are those of the library, in one column.
crash: accept_delay is $accept_delay_ms ms; stall: one of $workers workers at a time is blocked for 200 ms, 800 clients a second.
Took $(($(date +%s) - begun)) s; load average at the end $(cut -d ' ' -f 1-3 /proc/loadavg).
END
[ "$failed" -eq 0 ] || echo "Some steps failed, see above: do not trust this table."
[ -z "${FIGURES:-}" ] || cp "$figures" "$FIGURES"
exit "$failed"
