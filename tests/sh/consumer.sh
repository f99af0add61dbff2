#!/bin/sh
# A program in C and one in C++, outside of the repository, find everything through pkg-config, with
# the shared library and with the static one.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v pkg-config >/dev/null || { echo "no pkg-config"; exit 77; }
tree=$tmp/tree
make -s -C "$root" BUILD="$build" install DESTDIR="$tree" PREFIX=/usr/local
cp "$root/tests/c/consumer.c" "$root/tests/c/consumer.cpp" "$tmp/"
cd "$tmp"

export PKG_CONFIG_LIBDIR="$tree/usr/local/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$tree"
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
version=$(pkg-config --modversion herd)
shared=$(pkg-config --cflags --libs herd)
static=$(pkg-config --cflags --libs --static herd | sed 's/-lherd/-l:libherd.a/')

# check COMPILER SOURCE
check() {
    $1 -Wall -Wextra -Wpedantic -Werror "$2" -o shared $shared
    LD_LIBRARY_PATH=$tree/usr/local/lib ./shared "$version"
    $1 -Wall -Wextra -Wpedantic -Werror "$2" -o static $static
    mv "$tree/usr/local/lib" "$tree/usr/local/gone"
    ./static "$version"
    mv "$tree/usr/local/gone" "$tree/usr/local/lib"
}
check "${CC:-cc} -std=c99" consumer.c
check "${CXX:-c++} -std=c++11" consumer.cpp

# Everything static, the C library too. That one warns that getaddrinfo(3) needs it shared all the same.
fully() {
    $1 -static "$2" -o fully $static 2>said || { cat said; exit 1; }
    ./fully "$version"
    if ldd ./fully >/dev/null 2>&1; then echo "fully: is dynamic"; exit 1; fi
}
fully "${CC:-cc} -std=c99" consumer.c
fully "${CXX:-c++} -std=c++11" consumer.cpp

# The parts of a program have one error category, however little they show of themselves.
cat >part.cpp <<'END'
#include <herd.hpp>
extern "C" __attribute__((visibility("default"))) const void *PART() { return &libherd::category(); }
END
cat >whole.cpp <<'END'
extern "C" const void *one();
extern "C" const void *two();
int main() { return one() == two() ? 0 : 1; }
END
for part in one two; do
    ${CXX:-c++} -std=c++17 -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden -DPART=$part \
        part.cpp -o lib$part.so $shared
done
${CXX:-c++} whole.cpp -o whole -L. -lone -ltwo -Wl,-rpath-link,"$tree/usr/local/lib"
LD_LIBRARY_PATH=.:$tree/usr/local/lib ./whole || { echo "two error categories"; exit 1; }
