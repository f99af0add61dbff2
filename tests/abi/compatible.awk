# compatible.awk OLD NEW (two outputs of layout.sh): prints what keeps a program compiled with the old
# header from running on the new library, and fails if there is anything. Everything stays as it was, but
# that a struct which begins with its `size` may grow behind its end: not into the padding there, which
# an older program leaves undefined.
function owner(text) { sub(/^member /, "", text); sub(/\..*$/, "", text); return text }
function struct_of(text) { sub(/^struct /, "", text); sub(/:.*$/, "", text); return text }
function number(what, text) {
    sub(".*" what " ", "", text)
    return text + 0
}
function complain(text) { print text; complaints++ }

NR == FNR {
    old[$0] = 1
    if ($1 == "struct") size[struct_of($0)] = number("size", $0)
    if ($0 ~ /^member [a-z_]+\.size: uint32_t, offset 0,/) grows[owner($0)] = 1
    next
}
{
    new[$0] = 1
    if ($0 in old) next
    if ($1 == "struct" && struct_of($0) in size) new_struct[struct_of($0)] = $0
    if ($1 == "member" && owner($0) in size && number("offset", $0) < size[owner($0)])
        complain("within the old size: " $0)
}
END {
    for (line in old) {
        if (line in new) continue
        name = struct_of(line)
        if (line ~ /^struct / && grows[name] && name in new_struct &&
            number("size", new_struct[name]) > size[name] &&
            number("alignment", new_struct[name]) == number("alignment", line)) continue
        complain("gone or changed: " line)
    }
    exit complaints > 0
}
