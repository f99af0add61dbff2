# timeout: 400
# The protocol of the accept right, and the count of a queue, in every order their threads can take
# (src/accept/protocol/models.rs, src/shm/queue.rs).
# Optimised, but not as slow to build as the library (profile tool).
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
cd "$root"
RUSTFLAGS='--cfg loom' ${CARGO:-cargo} test --locked --profile tool --lib --target-dir "$build/loom-target" models
