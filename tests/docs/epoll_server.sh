# The diff of docs/adopting.md: each side of it is a server that serves, replaces a worker that dies, and stops. With the
# library and a name, the name goes with the last worker if the parent was killed.
client=$tmp/raw_client
work=$PWD
awk -v RS= '{ print >"part." NR; close("part." NR) }' "$block"
test -f part.8 && test ! -f part.9

for side in before after; do
    test $side = before && sign='[- ]' || sign='[+ ]'
    parts=
    for part in 1 2 3 4 5 6 7 8; do
        if grep -q '^[^-+ ]' part.$part; then echo "part $part is no diff"; exit 1; fi
        sed -n "s/^$sign//p" part.$part >$side.$part
        parts="$parts $side.$part"
    done
    awk -v frame="$frames/epoll_server.c" -f "$tmp/fill.awk" "$frames/epoll_server.c" $parts >$side.c
    sed -i 's/^ *config\.log = on_log;/&\nconfig.name = getenv("HERD_NAME");/' $side.c
    $cc $side.c -o $side $(cat "$build/stage.flags")
done

. "$root/tests/sh/lib/serve.sh" # sets tmp anew, and ends what is left
for side in before after; do
    . "$frames/port.sh"
    "$work/$side" 127.0.0.1:$port 3 >"$tmp/ready" 2>"$tmp/log" &
    server=$!
    program=$side
    is_ready() { has_ended "$server" || grep -q ready "$tmp/ready"; }
    echoes() { test "$(echo hello | "$client" 127.0.0.1 $port 0)" = hello; }
    eventually is_ready && ! has_ended "$server" || fail "$side: not ready"
    for i in 1 2 3 4 5 6; do echoes || fail "$side: request $i"; done
    first=$(children "$server" | cut -d ' ' -f 1)
    kill -s KILL "$first"
    is_replaced() { test "$(children "$server" | wc -w)" = 3 && ! children "$server" | grep -qw "$first"; }
    eventually is_replaced || fail "$side: no new worker"
    for i in 1 2 3 4 5 6; do echoes || fail "$side: request $i after a death"; done
    # A client that keeps its connection does not keep the server.
    rm -f "$work/idle"
    mkfifo "$work/idle"
    exec 4<>"$work/idle"
    "$client" 127.0.0.1 $port 0 keep <"$work/idle" >"$tmp/kept" 2>&1 &
    echo hello >&4
    eventually grep -q hello "$tmp/kept" || fail "$side: no connection that stays"
    stop TERM
    exec 4>&-
done

. "$frames/port.sh"
export HERD_NAME=epoll-server-$$
memory=/dev/shm/herd-$(id -u)-$HERD_NAME
"$work/after" 127.0.0.1:$port 3 >"$tmp/ready" 2>"$tmp/log" &
server=$!
eventually is_ready && ! has_ended "$server" || fail "with a name: not ready"
test -f "$memory" || fail "no $memory"
orphans=$(children "$server")
kill -s KILL "$server"
wait "$server" || :
server=
echoes || fail "no answer without a parent"
kill -s TERM $orphans
for pid in $orphans; do eventually has_ended "$pid" || fail "worker $pid has not ended"; done
test ! -e "$memory" || { rm -f "$memory"; fail "$memory stays"; }
orphans=
