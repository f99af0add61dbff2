#!/bin/sh
# Writes the manual as HTML: reference.sh MAN-DIRECTORY INTO. A call's own name leads to its family's page.
set -eu
man=$1 into=$2
command -v mandoc >/dev/null || { echo 'reference: needs mandoc' >&2; exit 1; }
rm -rf "$into"
mkdir -p "$into"
for page in "$man"/*.[137]; do
    name=$(basename "$page")
    mandoc -T html -O style=style.css,man=%N.%S.html,toc "$page" >"$into/$name.html"
done
while read -r name page; do ln -s "$page.html" "$into/$name.html"; done <"$man/links"
# What is not in here leads nowhere: those references become text.
grep -oh 'class="Xr" href="[^"]*"' "$into"/*.html | sed 's/.*href="\(.*\)"/\1/' | sort -u | while read -r target; do
    test -e "$into/$target" ||
        echo "s,<a class=\"Xr\" href=\"$target\">\([^<]*\)</a>,<span class=\"Xr\">\1</span>,g"
done >"$into/elsewhere.sed"
find "$into" -name '*.html' -type f -exec sed -i -f "$into/elsewhere.sed" {} +
rm "$into/elsewhere.sed"
cat >"$into/style.css" <<'END'
body { max-width: 50em; margin: 2em auto; padding: 0 1em; font-family: sans-serif; line-height: 1.4; }
.Fn, .Fa, .Ft, .Vt, .Va, .Dv, .Er, .In, .Nm, .Fl, pre, code { font-family: monospace; font-style: normal; }
dt { margin-top: 0.6em; }
dd { margin-left: 2em; }
table.head, table.foot { width: 100%; color: #666; }
.head-vol { text-align: center; }
.head-rtitle, .foot-os { text-align: right; }
END
{
    echo '<!DOCTYPE html><meta charset="utf-8"><title>libherd</title><link rel="stylesheet" href="style.css">'
    echo '<h1>libherd: reference</h1><dl>'
    for page in herd.7 $(cd "$man" && ls herd_*.3) herdtop.1; do
        about=$(sed -n 's/^\.Nd //p' "$man/$page")
        calls=$(sed -n 's/^\.Fo \(herd_[a-z_]*\)$/\1/p' "$man/$page")
        echo "<dt><a href=\"$page.html\">$page</a>: $about</dt><dd>"
        for call in $calls; do echo "<a href=\"$page.html#$call\"><code>$call</code></a>"; done
        echo '</dd>'
    done
    echo '</dl>'
} >"$into/index.html"
