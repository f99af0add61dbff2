#!/bin/sh
# The manual's pages are clean, and are the header in other words: each declaration is on exactly one page, each
# prototype is one that the compiler takes for the header's, each call and callback has a page of its name.
set -eu
root=${HERD_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${HERD_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$root"
export LC_ALL=C
fail() { echo "FAIL: $*"; exit 1; }

# Each call, callback, struct and constant of the header, once.
echo '{ header_line($0) } END { for (i = 1; i <= count; i++) print kind[item[i]], item[i] }' >"$tmp/list.awk"
awk -f docs/man/header.awk -f "$tmp/list.awk" include/herd.h >"$tmp/declared"
for kind in call callback struct constant; do
    sed -n "s/^$kind //p" "$tmp/declared" | sort >"$tmp/in_header"
    awk -v kind="$kind" 'FNR == NR { declared[$1] = 1; next }
        $1 == kind "s:" { for (i = 2; i <= NF; i++)
            if (sub(/[*]$/, "", $i)) { for (name in declared) if (index(name, $i) == 1) print name }
            else print $i }' "$tmp/in_header" docs/man/*.in | sort >"$tmp/in_pages"
    diff -u "$tmp/in_header" "$tmp/in_pages" || fail "not each $kind is on one page (or the frames name it twice)"
done
# What the reader of the header misses, it would miss on both sides.
for name in $(grep -o '\bherd_[a-z_]*(' include/herd.h | tr -d '(' | sort -u); do
    grep -qx "call $name" "$tmp/declared" || fail "$name is not found in the header"
done
sed "s,@.*,," "$build/exports" | sort >"$tmp/exports"
sed -n 's/^call //p' "$tmp/declared" | sort | diff -u - "$tmp/exports" || fail 'calls and exports differ'

# `man herd_trylock` finds a page, whether it is the family's or leads there.
make -s -C "$root" BUILD="$build" install-man DESTDIR="$tmp/tree" PREFIX=/usr
pages=$tmp/tree/usr/share/man
for name in $(sed -n 's/^call //p; s/^callback //p' "$tmp/declared"); do
    page=$pages/man3/$name.3
    test -f "$page" || fail "no page $name"
    target=$(sed -n '1s/^\.so //p' "$page")
    test -z "$target" || page=$pages/$target
    grep -q "^\.Fo .*$name\b" "$page" || fail "$name leads to $(basename "$page")"
done
# A call that a page mentions is there.
for name in $(sed -n 's/^\.[A-Z].*Xr \(herd[a-z_]*\) [137].*/\1/p; s/^\.Xr \(herd[a-z_]*\) [137].*/\1/p' "$pages"/man?/* | sort -u); do
    ls "$pages"/man?/"$name".[137] >/dev/null || fail "a page refers to $name"
done
# Every option of herdtop's.
if test -x "$build/herdtop"; then
    for option in $("$build/herdtop" --help | grep -o -- '--[a-z-]*' | sort -u); do
        grep -qE -- "Fl [^ ]*${option#-}( |\$)" docs/man/herdtop.1.in || fail "herdtop $option has no line in herdtop.1"
    done
fi

command -v mandoc >/dev/null || { echo 'no mandoc'; exit 77; }
mandoc -T lint -W warning "$pages"/man1/* "$pages"/man7/* $(grep -L '^\.so ' "$pages"/man3/*) >"$tmp/lint" || true
if grep -v ' Dd not yet released$' "$tmp/lint"; then fail 'mandoc -T lint'; fi
# As a reader sees them.
echo '#include <herd.h>' >"$tmp/prototypes.c"
for page in $(grep -L '^\.so ' "$pages"/man3/*); do
    mandoc -T ascii "$page" | sed 's/.\x08//g' >"$tmp/page"
    sed -n '/^SYNOPSIS$/,/^DESCRIPTION$/p' "$tmp/page" | grep -v -e '^[A-Z]' -e '#include' >>"$tmp/prototypes.c"
    sed -n '/^SYNOPSIS$/,/^DESCRIPTION$/p' "$tmp/page" | grep -q '#include <herd.h>' || fail "$page: no include"
done
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" -fsyntax-only "$tmp/prototypes.c"
test "$(grep -c ';$' "$tmp/prototypes.c")" = "$(grep -c '^call' "$tmp/declared")" || fail 'prototypes are missing'

# The same as HTML, where no link leads nowhere.
docs/man/reference.sh "$build/man" "$tmp/reference"
for link in $(grep -oh 'href="[^"#]*' "$tmp"/reference/*.html | sed 's/href="//' | sort -u); do
    test -z "$link" || test -e "$tmp/reference/$link" || fail "reference: no $link"
done
test "$(grep -o '<a href="herd_[a-z_]*\.3\.html#herd_[a-z_]*"' "$tmp/reference/index.html" | sort -u | wc -l)" = \
    "$(grep -c '^call ' "$tmp/declared")" || fail 'reference: not every call is in the index'
