#!/bin/sh
# herdtop in terminals of all kinds: none, a dumb one, small ones, one that comes over a slow line, and one
# that goes away; and a herd that has ended: it says so, and nothing of it goes on.
# timeout: 120
. "$(dirname "$0")/lib/serve.sh"
need tmux curl
herdtop=$build/herdtop
name=terminals-$$
LC_ALL=C.UTF-8
TERM=xterm-256color
export LC_ALL TERM
unset NO_COLOR
${CC:-cc} -std=gnu99 -Wall -Wextra -Werror "$root/tests/sh/lib/vanish.c" -o "$tmp/vanish" || fail vanish.c

tmux() { command tmux -L "$name" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null; clean_up; rm -f "/dev/shm/herd-$(id -u)-$name"' EXIT
screen() { tmux capture-pane -p "$@" -t top 2>/dev/null; }
shows() { screen | grep -qE -- "$1"; }
is_gone() { ! tmux has-session -t top 2>/dev/null; }
expect_screen() { eventually shows "$1" || { screen; fail "herdtop does not show: $1"; }; }
# watch COLUMNS LINES COMMAND
watch() { tmux new-session -d -s top -x "$1" -y "$2" "$3" || fail 'no tmux session'; }
# Else tmux's server ends with each session, and the next one can meet it while it does.
tmux new-session -d -s kept 'exec sleep 600' || fail 'no tmux session'
quit() {
    tmux send-keys -t top q
    eventually is_gone || fail 'q does not quit'
}

start hello_prefork --listen 127.0.0.1:0 --workers 3 --mode mutex --name "$name"
for request in 1 2 3 4 5 6 7; do test "$(get /)" = hello || fail "request $request"; done

# Terminals that it cannot draw in.
for term in 'TERM=dumb' 'TERM=' '-u TERM'; do
    watch 80 24 "env $term $herdtop $name; echo code \$?; exec sleep 60"
    expect_screen 'use --once or --json'
    expect_screen 'code 1'
    tmux kill-session -t top
    # What needs none works there.
    env $term "$herdtop" "$name" --once --interval-ms 50 | grep -q "^ $name  running" || fail "$term: --once"
done
# Keys come from the terminal, whatever stdin is.
watch 80 24 "$herdtop $name </dev/null"
expect_screen 'q quit'
quit

# A small window has the workers, whole words, and no bars. The last line says how to leave.
watch 40 10 "$herdtop $name --interval-ms 50"
expect_screen "^ $name  running"
expect_screen '^  SLOT STATE FOR     OPEN  ACC/S   BUSY'
for slot in 0 1 2; do expect_screen "^[ *] +$slot (idle|busy) +[0-9.]+(us|ms|s) +0 +[0-9.]+ +[0-9]+%"; done
expect_screen '^ q quit  p pause'
test "$(screen | wc -l)" -le 10 || fail 'more than 10 lines'
# Not room for all workers: which are shown is said, and the others can be reached.
tmux resize-window -t top -x 60 -y 5
expect_screen '^ q quit  p pause  up/down 1-2/3  s sort: slot  r reverse'
tmux send-keys -t top Down
expect_screen 'up/down 2-3/3'
tmux resize-window -t top -x 10 -y 2
tmux resize-window -t top -x 80 -y 24
expect_screen '^  SLOT     PID STATE FOR     OPEN            ACC/S             BUSY       HND/S$'
# An arrow key whose bytes come one by one is no Escape, and no reason to leave.
for byte in 1b 5b 42; do
    tmux send-keys -t top -H $byte
    sleep 0.1
done
tmux send-keys -t top s
expect_screen 'sort: open'
# A stopped worker is told from an idle one.
stopped=$(children "$server")
stopped=${stopped%% *}
kill -s STOP "$stopped"
expect_screen " $stopped stop "
kill -s CONT "$stopped"
expect_screen " $stopped (idle|busy) "
# And so are dead ones that nobody has noticed yet: here there is nobody left to do so.
dead=$(children "$server")
kill -s STOP "$server"
kill -s KILL $dead
for pid in $dead; do expect_screen " $pid dead "; done
kill -s CONT "$server"
expect_screen 'reaps 3'
expect_screen '^[ *] +2 +[0-9]+ (idle|busy)'
quit

# A terminal that goes away, also right after a key.
"$tmp/vanish" 16 "$herdtop" "$name" --interval-ms 50 || fail 'a terminal that goes away'

# The whole herd is killed, the parent first, or it would replace its workers.
watch 80 24 "$herdtop $name --interval-ms 50"
expect_screen 'running'
orphans=$(children "$server")
kill -s STOP $orphans
kill -s KILL "$server"
wait "$server"
server=
kill -s KILL $orphans
expect_screen "^ $name  ENDED  mutex/spread"
expect_screen 'its processes have ended  last heard of [0-9.]+(ms|s) ago'
expect_screen 'p50/p99: accept [0-9]'
screen | sed 's/last heard.*ago//' >"$tmp/before"
sleep 0.3
screen | sed 's/last heard.*ago//' >"$tmp/after"
cmp "$tmp/before" "$tmp/after" || fail 'something of an ended herd goes on'
tmux resize-window -t top -x 40 -y 10
expect_screen "^ $name  ENDED"
quit
# The same once, and as JSON.
for output in once json; do
    "$herdtop" "$name" --$output | sed 's/last heard.*ago//; s/"ended_for_us": [1-9][0-9]*,//' >"$tmp/before"
    sleep 0.1
    "$herdtop" "$name" --$output | sed 's/last heard.*ago//; s/"ended_for_us": [1-9][0-9]*,//' >"$tmp/after"
    cmp "$tmp/before" "$tmp/after" || fail "--$output: something goes on"
    grep -q 'ended_for_us' "$tmp/after" && fail "--$output: how long ago?"
    cp "$tmp/after" "$tmp/$output"
done
grep -q "^ $name  ENDED  mutex/spread  3 workers died with it" "$tmp/once" || fail "$(cat "$tmp/once")"
grep -q 'p50/p99: accept [0-9].* turn [0-9]' "$tmp/once" || fail "no percentiles: $(cat "$tmp/once")"
grep -q 'accepted/s -  requests/s -' "$tmp/once" || fail "rates: $(cat "$tmp/once")"
grep -q '"is_alive": false' "$tmp/json" || fail "$(cat "$tmp/json")"
grep -q '"interval_us": 0' "$tmp/json" || fail "$(cat "$tmp/json")"
grep -q '"accept_delay": {"count": 7,' "$tmp/json" || fail "no percentiles: $(cat "$tmp/json")"
"$herdtop" --list | grep -q ":$name  (ended)\$" || fail 'not listed as ended'
exit 0
