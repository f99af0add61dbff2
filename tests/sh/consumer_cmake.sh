#!/bin/sh
# Programs in C and C++ find everything through CMake's find_package(herd): in a staged tree, after the
# tree was moved, with the library elsewhere; and a version that does not fit is refused. timeout: 200
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v cmake >/dev/null || { echo "no cmake"; exit 77; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
in_repo() { make -s -C "$root" BUILD="$build" "$@"; }

mkdir "$tmp/source" "$tmp/empty"
cp "$root/tests/c/consumer.c" "$root/tests/c/consumer.cpp" "$tmp/source/"
cat >"$tmp/source/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(consumer C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(herd 0.1 REQUIRED)
find_package(herd 0.1 REQUIRED) # as a project does whose parts look for it
message(STATUS "found ${herd_VERSION} at ${herd_DIR}")
foreach(language c cpp)
    foreach(kind herd herd-static)
        add_executable(${language}-${kind} consumer.${language})
        target_compile_options(${language}-${kind} PRIVATE -Wall -Wextra -Wpedantic -Werror)
        target_link_libraries(${language}-${kind} PRIVATE herd::${kind})
    endforeach()
endforeach()
END

# consumes LIBRARIES CMAKE-OPTION...: builds all four programs and runs them; the static ones without
# the shared library.
consumes() {
    libraries=$1
    shift
    rm -rf "$tmp/out"
    cmake -S "$tmp/source" -B "$tmp/out" -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF \
        -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    grep -q "found $version at $libraries" "$tmp/log"
    cmake --build "$tmp/out" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    for language in c cpp; do
        (unset LD_LIBRARY_PATH; "$tmp/out/$language-herd" "$version") # by the path that CMake gave it
        readelf -d "$tmp/out/$language-herd" | grep -q 'NEEDED.*\[libherd\.so\.[0-9]*\]'
    done
    mv "$libraries" "$libraries-gone"
    for language in c cpp; do "$tmp/out/$language-herd-static" "$version"; done
    mv "$libraries-gone" "$libraries"
}

in_repo install DESTDIR="$tmp/tree" PREFIX=/usr/local
consumes "$tmp/tree/usr/local/lib" -DCMAKE_PREFIX_PATH="$tmp/tree/usr/local"
if grep -r -e "$tmp" -e '/usr/local' "$tmp/tree/usr/local/lib/cmake"; then exit 1; fi
test "$(sed -n 's/.*INTERFACE_LINK_LIBRARIES "\(.*\)"/\1/p' "$tmp/tree/usr/local/lib/cmake/herd/herdConfig.cmake" |
    tr ';' ' ')" = "$(sed -n 's/^Libs.private: *//p' "$tmp/tree/usr/local/lib/pkgconfig/herd.pc")"
mkdir "$tmp/moved"
mv "$tmp/tree/usr/local" "$tmp/moved/a place"
consumes "$tmp/moved/a place/lib" -DCMAKE_PREFIX_PATH="$tmp/moved/a place"

# The library where a distribution wants it, not below the prefix; and /lib as a link to /usr/lib.
in_repo install DESTDIR="$tmp/multi" PREFIX=/opt/herd LIBDIR=/usr/lib/x86_64-linux-gnu
consumes "$tmp/multi/usr/lib/x86_64-linux-gnu" -Dherd_DIR="$tmp/multi/usr/lib/x86_64-linux-gnu/cmake/herd"
in_repo install DESTDIR="$tmp/merged" PREFIX=/usr LIBDIR=/usr/lib
ln -s usr/lib "$tmp/merged/lib"
cmake -S "$tmp/source" -B "$tmp/link" -Dherd_DIR="$tmp/merged/lib/cmake/herd" >"$tmp/log"
cmake --build "$tmp/link" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }

# configures TEXT: whether a project that says so is configured. find WORD ARGUMENTS-OF-FIND_PACKAGE: whether
# herd is then as WORD says (a function has a scope of its own); many in one project, since each project
# looks at the compiler first.
configures() {
    printf 'cmake_minimum_required(VERSION 3.19)\nproject(wants C)\n%s\n' "$1" >"$tmp/empty/CMakeLists.txt"
    rm -rf "$tmp/out"
    cmake -S "$tmp/empty" -B "$tmp/out" -Dherd_DIR="$tmp/merged/usr/lib/cmake/herd" \
        -DCMAKE_C_COMPILER_WORKS=1 >"$tmp/log" 2>&1
}
find='function(find wanted)
    set(herd_DIR "$ENV{HERD_CMAKE_DIR}" CACHE PATH "" FORCE) # which one that did not fit has unset
    find_package(herd ${ARGN})
    if(herd_FOUND)
        set(found FOUND)
    else()
        set(found REFUSED)
    endif()
    message(STATUS "judged (${ARGN}): ${found}")
    if(NOT found STREQUAL wanted)
        message(SEND_ERROR "find_package(herd ${ARGN}): not ${wanted}")
    endif()
endfunction()'
export HERD_CMAKE_DIR="$tmp/merged/usr/lib/cmake/herd"
case $version in 0.1.*) ;; *) echo "the versions below fit 0.1"; exit 1 ;; esac
for good in '' 0 0.1 0.1.0 "$version EXACT" 0.1...0.2 0.0...1 0.1...0.1.99 '0.0.1...<0.2' 'OPTIONAL_COMPONENTS no-such'; do
    find="$find
find(FOUND $good)"
done
for bad in 0.0 0.0.9 0.2 0.1.99 1 1.0 2.1 '0.1.99 EXACT' '0.1.99...0.2' '0.0...<0.1' '0.0.1...0.0.9' 'COMPONENTS no-such'; do
    find="$find
find(REFUSED $bad)"
done
configures "$find" || { cat "$tmp/log"; exit 1; }
test "$(grep -c '^-- judged' "$tmp/log")" = 22
configures 'find_package(herd 0.1 REQUIRED)' || { cat "$tmp/log"; exit 1; }
if configures 'find_package(herd 0.2 REQUIRED)'; then echo 'is content with a herd 0.2'; exit 1; fi

# Files that were not moved together are told apart.
mv "$tmp/merged/usr/include/herd.h" "$tmp/merged/usr/herd.h"
if configures 'find_package(herd 0.1 REQUIRED)'; then echo 'finds herd without its header'; exit 1; fi
grep -q 'herd.h is missing' "$tmp/log"
