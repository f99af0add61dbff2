# Calls of herdtop, each while a herd named web runs; those that watch it live in a terminal, for a moment.
herdtop=$build/herdtop work=$PWD
test -x "$herdtop" || exit 77
command -v script >/dev/null || exit 77
. "$root/tests/sh/lib/serve.sh"
test ! -e "/dev/shm/herd-$(id -u)-web" || exit 77 # somebody's own
start hello_prefork --listen 127.0.0.1:0 --workers 2 --name web
herdtop() {
    case "$*" in
    33:*) set -- "$(id -u):${1#33:}" --once ;; # this test's own user
    *--*) ;;
    *)
        TERM=xterm timeout -s INT 2 script -qec "stty cols 80 rows 24; exec '$herdtop' $*" /dev/null >"$work/screen" </dev/null || :
        grep -q web "$work/screen"
        return
        ;;
    esac
    "$herdtop" "$@"
}
. "$block"
