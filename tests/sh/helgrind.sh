#!/bin/sh
# Under valgrind's helgrind and DRD, worker threads and threads beside them show no data race and no misuse of
# locks. timeout: 3600
#
# Both know threads by pthread_create and locks by pthread_mutex; atomics are plain loads and stores to them.
# So the library is compiled without inlining, where each atomic access is in a function of
# core::sync::atomic, and these are suppressed by name (tests/sh/lib/atomics.supp). What is left is every access
# that is not atomic. Where one thread gives an object to another by an atomic, they report the object: so it is
# with events posted by other threads (post_remote), slots that threads take over from each other (slots_of_threads) and
# workers that a test ends for its threads (case_threads). ThreadSanitizer, which knows, has these (races.sh).
. "$(dirname "$0")/lib/checker.sh"
need valgrind
HERD_TEST_SCALE=20
export HERD_TEST_SCALE

CARGO_PROFILE_DEV_OPT_LEVEL=0 ${CARGO:-cargo} rustc --locked --lib --crate-type cdylib \
    --target-dir "$out/target" || exit 1
mkdir -p "$out/lib"
cp "$out/target/debug/libherd.so" "$out/lib/libherd.so.0"
export LD_LIBRARY_PATH="$out/lib"

check() {
    checked_program "${1#* }" valgrind -q --vgdb=no "--tool=${1% *}" --error-exitcode=9 --log-file=%q{HERD_REPORTS}.%p \
        --suppressions=tests/sh/lib/atomics.supp "$build/tests/${1#* }"
}
for name in right_claim_in_threads threads_drain_one threads_blocked_handler threads_mixed_killed \
    case_stop_any_time hpp_callbacks; do
    echo "helgrind $name"
    echo "drd $name"
done | each_of check
finish
