#!/bin/sh
# timeout: 400
# The benchmark harness: the simulator runs the library's own decisions, and says of this machine what was measured.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root"
${CARGO:-cargo} test --locked --package herd-bench
