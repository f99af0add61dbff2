#!/bin/sh
# timeout: 300
# Under valgrind, programs that use every part of the library show no error and no leak.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
command -v valgrind >/dev/null || { echo "no valgrind"; exit 77; }
export LD_LIBRARY_PATH="$build/stage/usr/lib"

for name in bad_input_null bad_input_sizes bad_input_fds event_free event_interest posted_queues \
    accept_pull recipe_equals_run_once forked_use slots reentry load_counts hpp_owners; do
    valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,possible -q \
        "$build/tests/$name"
done
