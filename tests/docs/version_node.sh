# With the block below the nodes of libherd.map, a program that calls what is new starts on that library, and on the one
# of before it does not, as docs/stability.md says.
linked() {
    $cc -shared -fPIC "$1.c" -o "$1/libherd.so.0" -Wl,-soname,libherd.so.0 -Wl,--version-script="$1/map"
    ln -s libherd.so.0 "$1/libherd.so"
}
mkdir -p old new
sed -n 's/^ *\(herd_[a-z0-9_]*\);$/void \1(void); void \1(void) {}/p' "$root/libherd.map" >old.c
{ cat old.c && echo 'void herd_NEW(void); void herd_NEW(void) {}'; } >new.c
cp "$root/libherd.map" old/map
cat "$root/libherd.map" "$block" >new/map
linked old
linked new
echo 'void herd_abi(void); void herd_NEW(void); int main(void) { herd_abi(); herd_NEW(); return 0; }' >program.c
$cc program.c -o program -Lnew -lherd
LD_LIBRARY_PATH=new ./program
if LD_LIBRARY_PATH=old ./program 2>said; then echo 'starts without what it calls' && exit 1; fi
grep -q "version .HERD_0.2' not found" said || { cat said && exit 1; }
