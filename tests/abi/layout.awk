# Reads a header as cbindgen writes it, and prints a C program that prints what a compiled program has of
# it: the value of each constant, size and members of each struct, the types of calls and callbacks. One
# line each, so that two of them can be compared (compatible.awk). Used by layout.sh.

function trim(text) { gsub(/[ \t]+/, " ", text); gsub(/^ | $/, "", text); return text }

# The types of parameters, without their names, which bind nobody.
function types(parameters,    i, n, part, all) {
    n = split(parameters, part, ",")
    for (i = 1; i <= n; i++) {
        part[i] = trim(part[i])
        if (part[i] ~ /[ *][A-Za-z_][A-Za-z_0-9]*$/) sub(/[A-Za-z_][A-Za-z_0-9]*$/, "", part[i])
        all = all (i > 1 ? ", " : "") trim(part[i])
    }
    return all
}

function says(format, arguments) { printf "    printf(\"%s\\n\"%s);\n", format, arguments }

function member(text,    name, type) {
    sub(/;$/, "", text)
    name = type = text
    sub(/^.*[ *]/, "", name)
    type = trim(substr(text, 1, length(text) - length(name)))
    if (match(name, /\[.*$/)) {
        type = type " " substr(name, RSTART)
        sub(/\[.*$/, "", name)
    }
    says("member " struct "." name ": " type ", offset %zu, size %zu",
        ", offsetof(struct " struct ", " name "), sizeof((struct " struct " *)0)->" name)
}

# A typedef of a callback, or a call.
function prototype(text,    name, result, parameters, kind) {
    sub(/\);$/, "", text)
    kind = sub(/^typedef /, "", text) ? "callback" : "call"
    parameters = text
    if (kind == "callback") {
        name = text
        sub(/^[^(]*\(\*/, "", name)
        sub(/\).*$/, "", name)
        sub(/^[^(]*\([^)]*\)\(/, "", parameters)
    } else {
        name = text
        sub(/\(.*$/, "", name)
        sub(/^.*[ *]/, "", name)
        sub(/^[^(]*\(/, "", parameters)
    }
    result = text
    sub(/ *\(.*$/, "", result)
    if (kind == "call") result = trim(substr(result, 1, length(result) - length(name)))
    says(kind " " name ": " result " (" types(parameters) ")", "")
}

BEGIN { print "#include <stdio.h>\nint main(void)\n{" }

{ $0 = trim($0) }
inside_comment { if (/\*\/$/) inside_comment = 0; next }
/^\/\*/ { if (!/\*\/$/) inside_comment = 1; next }
continued { continued = /\\$/; next }
# The version is another one in each release.
/^#define HERD_VERSION_/ { next }
/^#define HERD_[A-Z0-9_]+ \(?-?[0-9]/ {
    says("constant " $2 " = %lld", ", (long long)" $2)
    next
}
/^#/ { continued = /\\$/; next }
/^struct [a-z_]+ \{$/ {
    struct = $2
    says("struct " struct ": size %zu, alignment %zu",
        ", sizeof(struct " struct "), __alignof__(struct " struct ")")
    next
}
/^\};$/ { struct = ""; next }
struct != "" { member($0); next }
{
    text = trim(text " " $0)
    if (text ~ /^extern "C" \{$|^\}( \/\/.*)?$|^struct [a-z_]+;$/) text = ""
    if (text ~ /\);$/) { prototype(text); text = "" }
}

END {
    if (text != "") { print "#error not understood: " text }
    print "    return 0;\n}"
}
