#!/bin/sh
# herdtop shows live what the workers of a herd do, in a terminal of 80 columns, with and without
# colours, follows a herd that is restarted, and says once or as JSON what it would show.
# timeout: 600
. "$(dirname "$0")/lib/serve.sh"
cd "$root" || exit 1
${CARGO:-cargo} test --locked -p herdtop --profile tool --target-dir "$build/herdtop-target" || fail 'unit tests'
need tmux curl
herdtop=$build/herdtop
name=herdtop-test-$$
LC_ALL=C.UTF-8
TERM=xterm-256color
export LC_ALL TERM
unset NO_COLOR

tmux() { command tmux -L "$name" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null; clean_up; rm -f "/dev/shm/herd-$(id -u)-$name"' EXIT
screen() { tmux capture-pane -p "$@" -t top 2>/dev/null; }
shows() { screen | grep -qE -- "$1"; }
watch() { tmux new-session -d -s top -x 80 -y 24 "$@" || fail 'no tmux session'; }
is_gone() { ! tmux has-session -t top 2>/dev/null; }
expect_screen() { eventually shows "$1" || { screen; fail "herdtop does not show: $1"; }; }

# Else tmux's server ends with each session, and the next one can meet it while it does.
tmux new-session -d -s kept 'exec sleep 600' || fail 'no tmux session'

"$herdtop" "$name" --once >"$tmp/out" 2>&1 && fail 'a herd that does not run'
grep -q 'no herd has this name' "$tmp/out" || fail "no reason: $(cat "$tmp/out")"
"$herdtop" --no-such-option >"$tmp/out" 2>&1 && fail 'an unknown option'

start hello_prefork --listen 127.0.0.1:0 --workers 3 --mode mutex --name "$name"
"$herdtop" --list | grep -q ":$name\$" || fail 'not listed'
for request in 1 2 3 4 5 6 7; do test "$(get /)" = hello || fail "request $request"; done

# --json: what it says is what the server counted.
"$herdtop" "$name" --json --interval-ms 100 >"$tmp/json" || fail json
if command -v python3 >/dev/null; then
    python3 - "$tmp/json" <<'END' || fail "json: $(cat "$tmp/json")"
import json, sys
herd = json.load(open(sys.argv[1]))
assert herd["is_alive"] and herd["mode"] == "mutex" and herd["workers"] == 3, herd
slots = herd["workers_of_slots"]
assert [slot["slot"] for slot in slots] == [0, 1, 2]
assert sum(slot["accepted"] for slot in slots) == herd["total"]["accepted"] == 7
total = herd["total"]
assert total["opened"] - total["closed"] - total["lost"] == total["connections_open"]
assert sum(slot["holds_right"] for slot in slots) == (herd["holder"] >= 0)
END
fi
"$herdtop" --name "$name" --once --interval-ms 100 >"$tmp/once" || fail once
grep -q 'running  mutex/spread  3 workers in 3 slots' "$tmp/once" || fail "once: $(cat "$tmp/once")"
test "$(grep -cE '^[* ] +[012] +[0-9]+ (idle|busy|rests)' "$tmp/once")" = 3 || fail "once: $(cat "$tmp/once")"
test "$(wc -L <"$tmp/once")" -le 80 || fail 'wider than 80 columns'
"$herdtop" "$name" --once --interval-ms 100 --ascii >"$tmp/once" || fail ascii
grep -q 'running  mutex/spread  3 workers in 3 slots' "$tmp/once" || fail "ascii: $(cat "$tmp/once")"
LC_ALL=C grep -q '[^ -~]' "$tmp/once" && fail 'not ASCII'

# Where nothing can be written, and where nobody can look.
"$herdtop" --help >/dev/full 2>"$tmp/err"
test $? = 1 && grep -q 'stdout: No space' "$tmp/err" || fail "a full disk: $(cat "$tmp/err")"
{ "$herdtop" "$name" --once --interval-ms 100 2>"$tmp/err"; echo $? >"$tmp/code"; } | true
eventually test -s "$tmp/code"
test "$(cat "$tmp/code")" = 0 && test ! -s "$tmp/err" || fail "a closed pipe: $(cat "$tmp/code" "$tmp/err")"
"$herdtop" "$name" >"$tmp/out" 2>&1
test $? = 1 && grep -q 'use --once' "$tmp/out" || fail "not a terminal: $(cat "$tmp/out")"
raw=/dev/shm/herd-0-$$$(printf '\033x')
: >"$raw"
"$herdtop" --list >"$tmp/out"
code=$?
rm "$raw"
test "$code" = 0 && grep -q ":$name\$" "$tmp/out" || fail "list: $code, $(cat "$tmp/out")"
grep -q "$(printf '\033')" "$tmp/out" && fail 'a raw file name'

# A signal ends it, with the terminal as it was.
cat >"$tmp/pane" <<'END'
stty -g >"$1/before"
sh -c 'echo $$ >"$1/pid"; exec "$2" "$3"' sh "$@"
echo "code $?"
stty -g >"$1/after"
exec sleep 60
END
for signal in 'HUP 129' 'INT 130' 'QUIT 131' 'TERM 143'; do
    watch "ulimit -c 0; sh $tmp/pane $tmp $herdtop $name"
    expect_screen 'has the right'
    kill -s "${signal% *}" "$(cat "$tmp/pid")"
    expect_screen "code ${signal#* }"
    eventually cmp -s "$tmp/before" "$tmp/after" || fail "the terminal's modes after $signal"
    test "$(tmux display-message -p -t top '#{cursor_flag} #{alternate_on}')" = '1 0' || fail "the screen after $signal"
    rm "$tmp/after"
    tmux kill-session -t top
done

# It ends with its terminal, also where that sends it no SIGHUP: in a session of its own.
watch "tty=\$(tty); setsid sh -c 'echo \$\$ >$tmp/pid; exec $herdtop $name' <\$tty & exec sleep 60"
expect_screen 'running'
tmux kill-session -t top
eventually has_ended "$(cat "$tmp/pid")" || fail 'goes on without its terminal'

# Live: the holder is marked, a blocked worker shows, keys do what they say.
watch "$herdtop" "$name" --interval-ms 100
expect_screen '^\* +[012] .*idle'
expect_screen 'HND/S'
expect_screen 'has the right'
test "$(screen -e | grep -c "$(printf '\033\\[[0-9;]*38;5')")" -gt 3 || fail 'no colours'
get '/slow?ms=3000' >/dev/null &
slow=$!
expect_screen 'busy  (1\.[0-9]|2\.[0-9])s'
wait "$slow"
tmux send-keys -t top s
expect_screen 'sort: open'
tmux send-keys -t top s r
expect_screen 'sort: acc/s, reversed'
tmux send-keys -t top p
expect_screen 'PAUSED'
tmux send-keys -t top ' '
expect_screen 'running'
tmux resize-window -t top -x 100 -y 12
expect_screen 'has the right'

# The herd ends, and another one takes its place.
stop INT
expect_screen 'ENDED'
start hello_prefork --listen 127.0.0.1:0 --workers 2 --mode exclusive --name "$name"
expect_screen 'running  exclusive/spread  2 workers in 2 slots'
tmux send-keys -t top q
eventually is_gone || fail 'q does not quit'

# Without colours: as the environment says, and as an option.
for how in "env NO_COLOR=1 $herdtop $name" "$herdtop $name --no-color"; do
    watch "$how --interval-ms 100"
    expect_screen 'running'
    screen -e | grep -q "$(printf '\033\\[[0-9;]*38;5')" && fail "$how: colours"
    tmux send-keys -t top C-c
    eventually is_gone || fail 'Ctrl-C does not quit'
done
stop TERM
exit 0
