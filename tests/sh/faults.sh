#!/bin/sh
# Fault injection knows every system call of the library: what it takes from the C library is in
# tests/c/preload_faults.c, or makes no system call that can fail.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
nm=${NM:-nm}
command -v "$nm" >/dev/null || { echo "no $nm"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

names() { "$nm" -D --format=posix "$@" | cut -d ' ' -f 1 | sed 's/@.*//' | sort -u; }
names --undefined-only "$build/libherd.so" >"$tmp/used"
names --defined-only "$build/tests/preload_faults.so" >"$tmp/known"

cat >"$tmp/harmless" <<'END'
^_ITM_|^_Unwind_|^__cxa_|^__errno_location$|^__gmon_start__$|^__tls_get_addr$|^__stack_chk_fail$
# memory and text
^(abort|bcmp|memchr|memcmp|memcpy|memmove|memrchr|memset|strerror|strlen|__xpg_strerror_r|strerror_r)$
# threads and their data
^pthread_|^sched_yield$
# never fail; the clock is read without a system call, and this one exists
^(clock_gettime|getauxval|geteuid|getpid|gettid|sysconf)$
# a wait for another thread that has a lock: cut short, it is begun again
^clock_nanosleep$
# herd_listen_systemd's look at the environment
^(environ|getenv)$
# Rust's standard library: what it would print a panic with
^(dl_iterate_phdr|lseek64|readlink|realpath|stat64|writev)$
END
sed '/^#/d' "$tmp/harmless" >"$tmp/patterns"
unknown=$(comm -23 "$tmp/used" "$tmp/known" | grep -vEf "$tmp/patterns" || true)
test -z "$unknown" || { echo "the library uses what fault injection does not know:" $unknown; exit 1; }
