# A meson.build of a program server.c, configured and built against the staged tree.
for tool in meson ninja pkg-config; do command -v $tool >/dev/null || { echo "no $tool" && exit 77; }; done
cp "$block" meson.build
echo '#include <herd.h>
int main(void) { return herd_abi() != HERD_ABI; }' >server.c
PKG_CONFIG_LIBDIR=$build/stage/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$build/stage meson setup out .
ninja -C out
out/server
