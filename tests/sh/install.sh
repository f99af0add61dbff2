#!/bin/sh
# `make install` writes exactly these files, and `make uninstall` leaves none of its own.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
in_repo() { make -s -C "$root" BUILD="$build" "$@"; }

# Pages of the manual: those that are written, and one for each call and callback.
pages() {
    for frame in "$root"/docs/man/*.in; do
        page=$(basename "$frame" .in)
        echo "man${page##*.}/$page"
        sed -n 's/^calls: //p; s/^callbacks: //p' "$frame" | tr ' ' '\n' | sed '/./s,.*,man3/&.3,'
    done | sort -u
}

# expect TREE LIBDIR INCLUDEDIR BINDIR MANDIR: the files and links below TREE, with the links' targets.
expect() {
    cat >"$tmp/want" <<END
./$3/herd.h
./$4/herdtop
./$3/herd.hpp
./$2/libherd.a
./$2/libherd.so -> libherd.so.0
./$2/libherd.so.0 -> libherd.so.$version
./$2/libherd.so.$version
./$2/pkgconfig/herd.pc
./$2/cmake/herd/herdConfig.cmake
./$2/cmake/herd/herdConfigVersion.cmake
$(pages | sed "s,^,./$5/,")
END
    (cd "$1" && find . -type l -printf '%p -> %l\n' -o -type f -print) | LC_ALL=C sort >"$tmp/got"
    LC_ALL=C sort "$tmp/want" | diff -u - "$tmp/got"
}

tree=$tmp/tree
in_repo install DESTDIR="$tree" PREFIX=/usr/local
expect "$tree" usr/local/lib usr/local/include usr/local/bin usr/local/share/man
grep -qx 'prefix=/usr/local' "$tree/usr/local/lib/pkgconfig/herd.pc"
grep -qx 'libdir=${prefix}/lib' "$tree/usr/local/lib/pkgconfig/herd.pc"
grep -qx "Version: $version" "$tree/usr/local/lib/pkgconfig/herd.pc"
if grep '@' "$tree/usr/local/lib/pkgconfig/herd.pc"; then exit 1; fi

# A second installation over the first changes nothing; somebody else's file stays.
in_repo install DESTDIR="$tree" PREFIX=/usr/local
expect "$tree" usr/local/lib usr/local/include usr/local/bin usr/local/share/man
touch "$tree/usr/local/lib/other"
# uninstall needs nothing that was built, and builds nothing: root runs it.
in_repo uninstall DESTDIR="$tree" PREFIX=/usr/local BUILD="$tmp/unbuilt"
test ! -e "$tmp/unbuilt"
test "$(cd "$tree" && find . -not -type d)" = ./usr/local/lib/other
test ! -e "$tree/usr/local/include"

# Where a distribution wants the library: not below the prefix, or not in lib.
in_repo install DESTDIR="$tmp/multi" PREFIX=/opt/herd LIBDIR=/usr/lib/x86_64-linux-gnu
expect "$tmp/multi" usr/lib/x86_64-linux-gnu opt/herd/include opt/herd/bin opt/herd/share/man
grep -qx 'libdir=/usr/lib/x86_64-linux-gnu' "$tmp/multi/usr/lib/x86_64-linux-gnu/pkgconfig/herd.pc"
in_repo uninstall DESTDIR="$tmp/multi" PREFIX=/opt/herd LIBDIR=/usr/lib/x86_64-linux-gnu
test -z "$(find "$tmp/multi" -not -type d)"

# Pages where a distribution wants them.
in_repo install-man DESTDIR="$tmp/pages" PREFIX=/usr MANDIR=/usr/man
test -f "$tmp/pages/usr/man/man3/herd_run.3" && test ! -e "$tmp/pages/usr/share"

# Without DESTDIR, into a directory with a space in its name: the prefix goes as well.
in_repo install PREFIX="$tmp/my prefix"
expect "$tmp/my prefix" lib include bin share/man
in_repo uninstall PREFIX="$tmp/my prefix"
test ! -e "$tmp/my prefix"

# Characters that sed takes for its own; paths that herd.pc cannot say.
in_repo install PREFIX="$tmp/a&b|c"
grep -qxF "prefix=$tmp/a&b|c" "$tmp/a&b|c/lib/pkgconfig/herd.pc"
grep -qxF 'includedir=${prefix}/include' "$tmp/a&b|c/lib/pkgconfig/herd.pc"
in_repo uninstall PREFIX="$tmp/a&b|c"
# refused VARIABLE=VALUE WHY
refused() {
    if in_repo install DESTDIR="$tmp/refused" "$1" >"$tmp/said" 2>&1; then echo "installs: $1"; exit 1; fi
    grep -qF "$2" "$tmp/said" || { cat "$tmp/said"; exit 1; }
    test ! -e "$tmp/refused"
}
refused PREFIX=rel 'PREFIX=rel is no absolute path'
refused LIBDIR=lib64 'LIBDIR=lib64 is no absolute path'
refused MANDIR=man 'MANDIR=man is no absolute path'
refused PREFIX= 'PREFIX= is no absolute path'
refused PREFIX="$tmp/q\"uote" 'has a "'
