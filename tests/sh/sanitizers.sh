#!/bin/sh
# Test programs and examples compiled with AddressSanitizer and UndefinedBehaviorSanitizer, with the library
# compiled for the first too where the compiler can, show no error and no leak. timeout: 3600
. "$(dirname "$0")/lib/checker.sh"
need clang clang++
HERD_TEST_SCALE=4
export HERD_TEST_SCALE HERD_BUILD="$out" # for the programs that look for the examples, or what they preload
mkdir -p "$out/tests"
ln -sf "$build"/tests/*.so "$out/tests/"
flags='-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined'
flags="$flags -Wall -Wextra -pthread -Iinclude"
libraries="-pthread $(cat "$build/native-static-libs")"

# The sanitizer is a flag of the nightly compiler only, and each compiler has the run-time part of its own.
target=$(rustc -vV | sed -n 's/^host: //p')
runtime=$(ls "$(rustc --print sysroot)/lib/rustlib/$target/lib/"librustc-*_rt.asan.a)
RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ${CARGO:-cargo} rustc --locked --lib --crate-type staticlib \
    --target "$target" --target-dir "$out/target" || exit 1
library=$out/target/$target/debug/libherd.a

# compile SOURCES INTO MORE...
compile() {
    sources=$1 into=$2 objects=
    shift 2
    mkdir -p "$(dirname "$into")"
    for source in $sources; do
        case $source in
        # Of the run-time part that comes with Rust, C++ has less than its compiler takes for granted.
        *.cpp) compiler=clang++ language='-std=c++17 -fno-sanitize=function,vptr' ;;
        *) compiler=clang language=-std=gnu99 ;;
        esac
        object=$into.$(basename "$source").o
        objects="$objects $object"
        $compiler $flags $language -c "$source" -o "$object" || return 1
    done
    clang++ $objects "$library" -Wl,--export-dynamic -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive \
        $libraries -lrt "$@" -o "$into"
}

left_out='
case_handoff_leak        its memory is what grows: what is freed is kept for a while, to be found in use
case_long_run_flat       the same
fault_activation         the sanitizer stands between the library and the calls that would fail
fault_half_made          the same
fault_old_kernel         the same
fault_steps              the same
fault_traffic            only calls from libherd.so are made to fail, and here the program has the library in it
misuse_contained         a library with assertions ends a process whose host has closed its descriptors
'
# The reports are those of one share of the programs.
watched() {
    export ASAN_OPTIONS="exitcode=66:detect_stack_use_after_return=1:log_path=$HERD_REPORTS"
    export UBSAN_OPTIONS="print_stacktrace=1:log_path=$HERD_REPORTS"
    "$@"
}
check() {
    compile "$(ls tests/c/"$1".c*)" "$out/tests/$1" && watched checked_program "$1" "$out/tests/$1"
}
programs "$left_out" | each_of check

for source in c_examples/*.c c_examples/*.cpp; do
    name=$(basename "${source%.*}")
    more=
    case $name in
    host_libev) more=-lev ;;
    host_libevent) more=-levent_core ;;
    host_libuv) more=-luv ;;
    esac
    test ! -x "$build/examples/$name" || compile "$source" "$out/examples/$name" $more || exit 1
done
compile "$(echo c_examples/load/*.c)" "$out/examples/load" || exit 1
check_server() { watched checked_server "$1"; }
servers | each_of check_server
finish
