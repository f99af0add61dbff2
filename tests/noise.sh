#!/bin/sh
# noise.sh [PATTERN [TIMES]]: runs the tests whose name has PATTERN in it TIMES times (5) on a machine as
# a test's author does not have it, and says how often each failed. `make noise` calls it.
#
# Two processes for each core do nothing but count. As root, where cgroups can limit the processor's time, they
# share a quota with the tests and use it up: then all of them stand still for tens of milliseconds at a time,
# each at whatever instruction it has come to, as on a virtual machine whose host is busy. A test that fails here
# asserts what the scheduler decides, or the library has a defect.
set -u
root=${HERD_ROOT:-$(cd "$(dirname "$0")/.." && pwd)}
build=${HERD_BUILD:-$root/build}
pattern=${1:-} times=${2:-5}
cores=$(nproc)
period_ms=${PERIOD_MS:-150} run_ms=${RUN_MS:-100} # of the period, all together
group=
burners=

end_noise() {
    for pid in $burners; do kill "$pid" 2>/dev/null; done
    test -z "$group" || { echo $$ >"${group%/*}/$members" && sleep 1 && rmdir "$group"; }
}
trap 'end_noise' EXIT
trap 'exit 130' INT TERM

# limit GROUP: in version 1 of the interface each figure has its file, in version 2 both are in one.
limit() {
    if test -e "$1/cpu.max"; then
        echo $((run_ms * cores * 1000)) $((period_ms * 1000)) >"$1/cpu.max"
    else
        echo $((period_ms * 1000)) >"$1/cpu.cfs_period_us" && echo $((run_ms * cores * 1000)) >"$1/cpu.cfs_quota_us"
    fi
}

for parent in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
    members=cgroup.procs
    mkdir "$parent/herd-noise-$$" 2>/dev/null || continue
    group=$parent/herd-noise-$$
    if limit "$group" && echo $$ >"$group/$members"; then break; fi
    rmdir "$group"
    group=
done 2>/dev/null
test -n "$group" || echo 'noise: the processor cannot be limited here: it is only busy'

burner=0
while test "$burner" -lt $((2 * cores)); do
    sh -c 'while :; do :; done' &
    burners="$burners $!"
    burner=$((burner + 1))
done

results=$build/noise.results
: >"$results"
round=0
while test "$round" -lt "$times"; do
    round=$((round + 1))
    echo "round $round of $times"
    "$root/tests/run.sh" "$pattern" | tee -a "$results"
done
echo 'failed, of so many rounds:'
! sed -n 's/^FAIL *\([^ ]*\).*/\1/p' "$results" | sort | uniq -c | grep .
