#!/bin/sh
# Under ThreadSanitizer, with the library and the standard library compiled for it, worker threads show
# no data race. Minutes long, so only in `make check-slow`; needs a nightly Rust with its sources, and
# clang. timeout: 900
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
test "${HERD_TEST_SLOW:-}" = 1 || { echo "only in make check-slow"; exit 77; }
command -v clang >/dev/null || { echo "no clang"; exit 77; }
sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || { echo "no nightly Rust"; exit 77; }
test -d "$sysroot/lib/rustlib/src/rust/library" || { echo "no sources of the standard library"; exit 77; }
target=$(rustc +nightly -vV | sed -n 's/^host: //p')
out=$build/races
mkdir -p "$out"

cd "$root"
RUSTFLAGS=-Zsanitizer=thread cargo +nightly rustc --locked --lib --crate-type staticlib -Zbuild-std \
    --target "$target" --target-dir "$out/target"
runtime=$(ls "$sysroot/lib/rustlib/$target/lib/"librustc-*_rt.tsan.a)

# Without address space randomisation, which the sanitizer cannot always place its shadow memory in.
export TSAN_OPTIONS='exitcode=66 halt_on_error=0'
for name in case_threads slots_of_threads right_claim_in_threads post_remote threads_drain_one \
    threads_blocked_handler threads_mixed_killed; do
    clang -g -O1 -std=c99 -fsanitize=thread -pthread -Iinclude -c "tests/c/$name.c" -o "$out/$name.o"
    clang "$out/$name.o" "$out/target/$target/debug/libherd.a" -Wl,--whole-archive "$runtime" \
        -Wl,--no-whole-archive $(cat "$build/native-static-libs") -lstdc++ -o "$out/$name"
    setarch -R "$out/$name" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
    if grep 'WARNING: ThreadSanitizer' "$out/log"; then cat "$out/log"; exit 1; fi
done
