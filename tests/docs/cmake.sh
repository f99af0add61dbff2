# A CMakeLists.txt of a program server.c, configured and built against the staged tree.
command -v cmake >/dev/null || { echo 'no cmake' && exit 77; }
cp "$block" CMakeLists.txt
echo '#include <herd.h>
int main(void) { return herd_abi() != HERD_ABI; }' >server.c
cmake -S . -B out -Dherd_DIR="$build/stage/usr/lib/cmake/herd"
cmake --build out
out/server
