#!/bin/sh
# timeout: 300
# Libs.private in herd.pc names the libraries that rustc says the static library needs, but for the
# unwinder, which a compiler adds as it links: libgcc_s, or libgcc_eh with -static, where -lgcc_s is refused.
# HERD_TEST_SLOW=1: asks rustc again, in a build of its own, instead of taking what it said in the last one.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$root"
if test "${HERD_TEST_SLOW:-}" = 1; then
    said=$(${CARGO:-cargo} rustc --locked --lib --crate-type staticlib --target-dir "$build/pc-target" \
        -- --print native-static-libs 2>&1 | sed -n 's/^note: native-static-libs: *//p')
else
    said=$(cat "${CARGO_TARGET_DIR:-target}/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}release/native-static-libs")
fi
make -s -C "$root" BUILD="$build" install-lib DESTDIR="$tmp" PREFIX=/usr LIBDIR=/usr/lib
written=$(sed -n 's/^Libs.private: *//p' "$tmp/usr/lib/pkgconfig/herd.pc")

test -n "$said"
test "$written" = "$(echo "$said" | sed 's/-lgcc_s *//')" || { echo "herd.pc: $written"; echo "rustc:   $said"; exit 1; }
