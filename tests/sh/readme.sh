# The README's example compiles without a warning and serves (here on a socket of the test's own).
set -eu
. "$(dirname "$0")/lib/serve.sh"
need curl
sed -n '/^```c$/,/^```$/p' "$root/README.md" | grep -v '^```' | sed "s|127.0.0.1:8080|unix:$tmp/socket|" >"$tmp/example.c"
grep -q "unix:$tmp/socket" "$tmp/example.c"
${CC:-cc} -std=gnu99 -Wall -Wextra -Wpedantic -Werror -I"$root/include" "$tmp/example.c" -o "$tmp/example" \
    -L"$build" -lherd -Wl,-rpath,"$build"
"$tmp/example" &
server=$!
eventually test -S "$tmp/socket"
for i in 1 2 3 4 5; do
    test "$(curl -s --http0.9 --max-time 5 --unix-socket "$tmp/socket" http://example/)" = hello || fail "answer $i"
done
