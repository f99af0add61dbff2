# Calls of herdtop, each while a herd named web runs; those that watch it live in a terminal, for a moment.
herdtop=$build/herdtop work=$PWD
test -x "$herdtop" || { echo 'no herdtop' && exit 77; }
command -v script >/dev/null || { echo 'no script' && exit 77; }
. "$root/tests/sh/lib/serve.sh"
name=web-$$
: >"$work/screen"
start hello_prefork --listen 127.0.0.1:0 --workers 2 --name "$name"
# herdtop ARGUMENT...: with the name of this test's herd for web, and this user for another
herdtop() {
    case $1 in
    web) shift && set -- "$name" "$@" ;;
    33:web) set -- "$(id -u):$name" --once ;;
    esac
    case "$*" in
    *--*) "$herdtop" "$@" --interval-ms 100 ;;
    *)
        { eventually grep -q "$name" "$work/screen" && printf q; } |
            TERM=xterm timeout 20 script -qfec "stty cols 80 rows 24; exec '$herdtop' $*" "$work/screen" >/dev/null
        grep -q "$name" "$work/screen"
        ;;
    esac
}
. "$block"
stop TERM
