# Commands that build and install the library and compile server.c; here into a directory of the test's own.
make() { command make -s -C "$root" BUILD="$build" DESTDIR="$PWD/tree" "$@"; }
sudo() { "$@"; }
server=$(awk -v into="$PWD" -f "$frames/blocks.awk" "$root/README.md" | sed -n 's/|.*|run: serves$//p' | cut -d '|' -f 1)
mv "$server" server.c
unset MAKEFLAGS MFLAGS MAKELEVEL
export PKG_CONFIG_PATH=$PWD/tree/usr/local/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD/tree
cd() { test "$1" = libherd || command cd "$@"; }
ldconfig() { :; }
git() { :; }
. "$block"
test -x a.out || test -x server
test -f tree/usr/local/share/man/man3/herd_run.3
