#!/bin/sh
# Every code block in the documents compiles and runs, as tests/docs/README.md says. timeout: 300
. "$(dirname "$0")/lib/serve.sh"
frames=$root/tests/docs
cd "$root" || exit 1
export root build tmp frames

warnings='-Wall -Wextra -Wpedantic -Werror -Wno-misleading-indentation'
cc="${CC:-cc} -std=gnu11 -O1 $warnings -pthread" cxx="${CXX:-c++} -std=c++17 -O1 $warnings -pthread"
LD_LIBRARY_PATH=$build/stage/usr/lib
export cc cxx LD_LIBRARY_PATH
$cc "$root/tests/sh/lib/raw_client.c" -o "$tmp/raw_client" || fail 'no client'

# fill FRAME BLOCK...: the frame with the blocks in place of its lines @BLOCK@, or @BLOCK 1@, @BLOCK 2@ and so on.
# The compiler names lines of the document.
cat >"$tmp/fill.awk" <<'END'
FILENAME == frame && /^@BLOCK( [0-9]+)?@$/ {
    part = $0 == "@BLOCK@" ? 1 : $2 + 0
    while ((getline line <ARGV[part + 1]) > 0) print line
    next
}
FILENAME == frame { print; next }
{ exit }
END
fill() { awk -v frame="$1" -f "$tmp/fill.awk" "$@"; }

# run_block NAME WORK BLOCK...
run_block() (
    name=$1 work=$2
    shift 2
    mkdir -p "$work"
    cd "$work" || exit 1
    if test -f "$frames/$name.sh"; then
        block=$1 language=$language timeout -k 5 120 sh -eu "$frames/$name.sh" "$@"
    elif test -f "$frames/$name.c"; then
        libraries=$(sed -n '1,3s/.*links: *\([^*]*\).*/\1/p' "$frames/$name.c")
        if test -n "$libraries" && ! $cc -E $(cat "$build/stage.flags") "$frames/$name.c" >/dev/null 2>&1; then echo "no library for $libraries" && exit 77; fi
        # A herd of somebody's may have the documents' name.
        fill "$frames/$name.c" "$@" | sed "s/\"web\"/\"web-$$\"/" >block.c
        $cc block.c -o block $(cat "$build/stage.flags") $libraries && timeout -k 5 60 ./block
    else
        echo "no frame $name"
        exit 1
    fi
)

failures=0 ran=0 skipped=0
complain() {
    failures=$((failures + 1))
    echo "FAIL: $place: $*"
}

mkdir "$tmp/blocks"
awk -v into="$tmp/blocks" -f "$frames/blocks.awk" README.md docs/*.md docs/man/*.in >"$tmp/index"
exec 3<"$tmp/index"
while IFS='|' read -r number file line language said <&3; do
    place="$file:$line"
    case $said in
    'not run: '?*) continue ;;
    'run: '?*) ;;
    *)
        test "$language" = text || complain 'a block that says neither how it is run nor why it is not'
        continue
        ;;
    esac
    name=${said#run: }
    case $name in
    *', part '*)
        of=${name##* of } part=${name##*, part } name=${name%%,*}
        part=${part%% *}
        cp "$tmp/blocks/$number" "$tmp/blocks/$name.$part"
        test "$part" = "$of" || continue
        blocks=$(i=1; while test "$i" -le "$of"; do echo "$tmp/blocks/$name.$i"; i=$((i + 1)); done)
        ;;
    *) blocks=$tmp/blocks/$number ;;
    esac
    run_block "$name" "$tmp/work/$number" $blocks >"$tmp/said" 2>&1
    case $? in
    0) ran=$((ran + 1)) ;;
    77)
        skipped=$((skipped + 1))
        echo "skipped: $place, as $name: $(grep -v '^+' "$tmp/said" | tail -n 1)"
        ;;
    *) complain "as $name: $(tail -n 30 "$tmp/said")" ;;
    esac
done
echo "$ran run, $skipped skipped, $failures failed"
test "$ran" -gt 0 && test "$failures" = 0
