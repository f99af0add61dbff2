# The README's example compiles without a warning and serves (here on a port of the test's own).
set -eu
. "$(dirname "$0")/lib/serve.sh"
port=$((20000 + $$ % 20000))
sed -n '/^```c$/,/^```$/p' "$root/README.md" | grep -v '^```' | sed "s/127.0.0.1:8080/127.0.0.1:$port/" >"$tmp/example.c"
grep -q "127.0.0.1:$port" "$tmp/example.c"
cc="${CC:-cc} -std=gnu99 -Wall -Wextra -Wpedantic -Werror"
$cc -I"$root/include" "$tmp/example.c" -o "$tmp/example" -L"$build" -lherd -Wl,-rpath,"$build"
$cc "$root/tests/sh/lib/raw_client.c" -o "$tmp/raw_client"
"$tmp/example" &
server=$!
greets() { test "$("$tmp/raw_client" 127.0.0.1 "$port" 0 </dev/null)" = hello; }
eventually greets || fail "no greeting"
for i in 1 2 3 4 5; do
    greets || fail "greeting $i"
done
