#!/bin/sh
# Programs in C and C++ find everything through meson's dependency('herd'), by pkg-config, shared and
# static; and a version that does not fit is refused. timeout: 120
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for tool in meson ninja pkg-config; do
    command -v $tool >/dev/null || { echo "no $tool"; exit 77; }
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

mkdir "$tmp/source"
cp "$root/tests/c/consumer.c" "$root/tests/c/consumer.cpp" "$tmp/source/"
cat >"$tmp/source/meson.build" <<'END'
project('consumer', 'c', 'cpp', default_options: ['warning_level=3', 'werror=true', 'cpp_std=c++17'])
herd = dependency('herd', version: get_option('wanted'), method: 'pkg-config')
static_herd = dependency('herd', static: true, method: 'pkg-config')
foreach language : ['c', 'cpp']
  executable(language + '-herd', 'consumer.' + language, dependencies: herd)
  executable(language + '-herd-static', 'consumer.' + language, dependencies: static_herd)
endforeach
END
echo "option('wanted', type: 'string', value: '>=0.1')" >"$tmp/source/meson_options.txt"

prefix="$tmp/my prefix"
configure() {
    rm -rf "$tmp/out"
    PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" meson setup "$@" "$tmp/out" "$tmp/source" >"$tmp/log" 2>&1
}
make -s -C "$root" BUILD="$build" install PREFIX="$prefix"
configure || { cat "$tmp/log"; exit 1; }
ninja -C "$tmp/out" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
for language in c cpp; do
    LD_LIBRARY_PATH="$prefix/lib" "$tmp/out/$language-herd" "$version"
    readelf -d "$tmp/out/$language-herd" | grep -q 'NEEDED.*\[libherd\.so\.[0-9]*\]'
done
mv "$prefix/lib" "$prefix/gone"
for language in c cpp; do "$tmp/out/$language-herd-static" "$version"; done
mv "$prefix/gone" "$prefix/lib"

for bad in '>=0.2' '<0.1' '==0.0.9'; do
    if configure "-Dwanted=$bad"; then echo "meson takes herd $bad"; exit 1; fi
    grep -q "Invalid version" "$tmp/log"
done

# A moved tree, for pkg-config too, where the library is in its usual place below the prefix.
make -s -C "$root" BUILD="$build" install DESTDIR="$tmp/staged" PREFIX=/opt/herd
mv "$tmp/staged/opt/herd" "$tmp/moved"
flags=$(PKG_CONFIG_LIBDIR="$tmp/moved/lib/pkgconfig" pkg-config --define-prefix --cflags --libs herd)
test "$(echo $flags)" = "-I$tmp/moved/include -L$tmp/moved/lib -lherd"
