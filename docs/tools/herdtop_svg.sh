#!/bin/sh
# docs/tools/herdtop_svg.sh [BUILD]: makes docs/herdtop.svg of a real run: hello_prefork in MUTEX under load, seen
# by herdtop in a terminal of 80 columns. Needs `make`, tmux and python3.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build}
name=hello
started=
at_end() {
    tmux -L "$name-svg" kill-server 2>/dev/null || true
    for pid in $started; do kill -s INT "$pid" 2>/dev/null || true; done
    rm -f "$ready"
}
ready=$(mktemp)
trap at_end EXIT
"$build/examples/hello_prefork" --listen 127.0.0.1:0 --workers 4 --mode mutex --name "$name" >"$ready" &
started=$!
until grep -q ': ready on ' "$ready"; do sleep 0.05; done
address=$(sed 's/.*: ready on \([^,]*\),.*/\1/' "$ready")
load() { "$build/examples/load" "$@" "$address" >/dev/null & started="$started $!"; }
load --mode hold --count 240 --gap-us 10000 --seconds 30
sleep 4
load --mode rate --rate 400 --slow-every 40 --slow-ms 120 --seconds 20
LC_ALL=C.UTF-8 TERM=xterm-256color tmux -L "$name-svg" -f /dev/null new-session -d -s top -x 80 -y 12 \
    "$build/herdtop $name --interval-ms 250"
sleep 14
tmux -L "$name-svg" capture-pane -e -p -t top |
    docs/tools/terminal_svg.py "herdtop watches hello_prefork: 4 workers, MUTEX" >"$ready"
cat "$ready" >docs/herdtop.svg # mktemp(1) has made a file for one user only
