# A whole program that greets at port 8080 (here at one of the test's own).
client=$tmp/raw_client
work=$PWD
. "$root/tests/sh/lib/serve.sh"
. "$frames/port.sh"
sed "s/127.0.0.1:8080/127.0.0.1:$port/" "$block" >"$work/block.$language"
grep -q "127.0.0.1:$port" "$work/block.$language"
case $language in c) compile=$cc ;; cpp) compile=$cxx ;; esac
$compile "$work/block.$language" -o "$work/block" $(cat "$build/stage.flags")
"$work/block" &
server=$!
greets() { test "$("$client" 127.0.0.1 "$port" 0 </dev/null)" = hello; }
eventually greets || fail "no greeting"
for i in 1 2 3 4 5; do greets || fail "greeting $i"; done
