#!/bin/sh
# Under valgrind's memcheck the test programs, all their processes, and the examples under a little load
# touch no memory that is not theirs or not set, and lose none. timeout: 3600
. "$(dirname "$0")/lib/checker.sh"
need valgrind
HERD_TEST_SCALE=20
export HERD_TEST_SCALE
export LD_LIBRARY_PATH="$build/stage/usr/lib"
memcheck="valgrind -q --vgdb=no --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,possible \
--suppressions=$root/tests/sh/lib/memcheck.supp --log-file=%q{HERD_REPORTS}.%p"

left_out='
case_long_run_flat       its memory is what grows: what is freed is kept for a while, to be found in use
chaos                    hundreds of workers, each as slow to start as valgrind is
handoff_chaos            the same
listen_systemd           starts itself anew, by /proc/self/exe: that is valgrind
listen_systemd_refused   the same
fault_activation         the same
hpp_callbacks            has an operator new of its own, which valgrind replaces, and not the delete to it
handoff_steps            its workers have 150 ms to take a connection
case_handoff_in_flight   valgrind refuses a limit of descriptors below its own
observe_log_seldom       the same
handoff_no_room_to_help  the same
region_private           valgrind puts all memory where an address could be a count as well
fork_while_threads_call  what other threads of the parent had in hand is lost in its children
'
check() {
    checked_program "$1" $memcheck "$build/tests/$1"
}
programs "$left_out" | each_of check

# The examples, under their own names.
rm -rf "$out/examples"
mkdir -p "$out/examples"
for example in "$build"/examples/*; do
    wrapper=$out/examples/$(basename "$example")
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$memcheck" "$example" >"$wrapper"
    chmod +x "$wrapper"
done
servers | each_of checked_server
finish
