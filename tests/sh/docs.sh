#!/bin/sh
# The documents name calls, programs, files and sections that there are; docs/errors.md has every code that the header
# has, and every message that the sources have; docs/threading.md has every call.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root"
export LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
complain() { echo "FAIL: $*" && failures=$((failures + 1)); }
documents="README.md $(echo docs/*.md)"

calls=$(grep -o '\bherd_[a-z_]*(' include/herd.h | tr -d '(' | sort -u)
echo "$calls" >"$tmp/known"
grep -oE 'struct herd_[a-z_]+|\bherd_[a-z]+_fn\b' include/herd.h | sed 's/struct //' >>"$tmp/known"
grep -o '"herd_[a-z_]*"' src/observe/text.rs | tr -d '"' >>"$tmp/known" # metrics
for document in $documents; do
    for name in $(grep -oE '\bherd_[a-z_]+[a-z]\b' "$document" | sort -u); do
        grep -qx "$name" "$tmp/known" || complain "$document: no $name in herd.h"
    done
    for name in $(grep -oE '\bHERD_[A-Z_0-9]+[A-Z0-9]\b' "$document" | sort -u); do
        grep -q "\b$name" include/herd.h || grep -rq "\b$name\b" tests bench Makefile || complain "$document: no $name in herd.h"
    done
    for path in $(grep -oE '\b(c_examples|tests|src|bench|include)/[a-z_./]*[a-z]\b' "$document" | sort -u); do
        test -e "$path" || complain "$document: no $path"
    done
    # [text](page.md#section): a section's name in lower case, without punctuation, with hyphens
    for link in $(grep -oE '\]\([^):]+\)' "$document" | sed 's/^](\(.*\))$/\1/' | sort -u); do
        page=${link%%#*} section=${link#*#}
        case $page in '') page=$document ;; *) page=$(dirname "$document")/$page ;; esac
        test -e "$page" || { complain "$document: no page $link" && continue; }
        test "$link" = "${link%%#*}" || sed -n 's/^##* //p' "$page" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
            grep -qxF -e "$section" || complain "$document: no section $link"
    done
    # A negative state ends a loop.
    if grep -n 'while.*herd_worker_state' "$document" | grep -v '>= 0'; then complain "$document: spins for ever"; fi
done

sed -n 's/^#define \(HERD_E[A-Z]*\) (\(-[0-9]*\))$/\1 \2/p' include/herd.h >"$tmp/codes"
test -s "$tmp/codes" || complain 'no codes in herd.h'
while read -r code number; do
    grep -qF "| \`$code\` ($number) |" docs/errors.md || complain "docs/errors.md: no line for $code ($number)"
done <"$tmp/codes"
for code in $(grep -oE -- '-E[A-Z0-9]+\b' include/herd.h | sort -u); do
    sed -n '/^## errno/,/^## What/p' docs/errors.md | grep -qE -- "^\|.*$code\b.*\|" || complain "docs/errors.md: no $code"
done
# Each message of the sources, without what varies.
for source in $(find src -name '*.rs'); do
    tr -s ' \n' ' ' <"$source" | grep -oE '(format_args!\( ?|refused\(|Task::[A-Za-z]+ => )"[^"]*"' | sed 's/^[^"]*"//; s/"$//; s/\\ //g' |
        sed 's/{[^}]*}/\n/g' | sed 's/^[ :,]*//; s/[ :,(]*$//' | grep -E '.{4}' || true
done | sort -u >"$tmp/messages"
test "$(wc -l <"$tmp/messages")" -gt 20 || complain "only $(wc -l <"$tmp/messages") messages in the sources"
sed -n '/^## Messages/,$p' docs/errors.md >"$tmp/described"
while read -r message; do
    grep -qF -- "$message" "$tmp/described" || complain "docs/errors.md does not have the message: $message"
done <"$tmp/messages"

# So does the header.
echo '{ header_line($0) }
    END { for (i = 1; i <= count; i++) if (kind[item[i]] == "call" &&
        (comment[item[i]] !~ /Thread: |[Aa]ny thread|Any process/ || comment[item[i]] !~ /Since 0/)) print item[i] }' >"$tmp/rules.awk"
for call in $(awk -f docs/man/header.awk -f "$tmp/rules.awk" include/herd.h); do
    complain "herd.h does not say of $call who may call it, or since when it is there"
done
sed -n '/^## Which call/,/^## Callbacks/p' docs/threading.md >"$tmp/threads"
for call in $calls; do
    test "$(grep -o "^|.*\`$call\`" "$tmp/threads" | wc -l)" -ge 1 || complain "docs/threading.md does not say who may call $call"
done
test "$failures" = 0
