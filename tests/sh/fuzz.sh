# timeout: 1200
# Each fuzz target for a minute, with the address sanitizer: none finds anything.
set -eu
test "${HERD_TEST_SLOW:-}" = 1 || { echo "only in make check-slow"; exit 77; }
cd "${HERD_ROOT:-$(dirname "$0")/../..}"
make -j"$(nproc)" fuzz FUZZ_SECONDS=60
