# Reads include/herd.h, as cbindgen writes it, into tables. For page.awk; knows nothing of manual pages.
#
#   count, item[1..count]        what is declared, in order: calls, callbacks, structs, constants
#   kind[name]                   "call", "callback", "struct" or "constant"
#   comment[name]                its comment; paragraphs are separated by a newline
#   result[name]                 of a call or callback: the type of what it returns
#   arguments[name], argument[name, n]
#   members[name], member_type[name, n], member_name[name, n], member_comment[name, n]
#   value[name]                  of a constant that has a number

function squeezed(text) {
    gsub(/[ \t]+/, " ", text)
    gsub(/^ | $/, "", text)
    return text
}

# header_line LINE: called with each line of the header.
function header_line(line) {
    if (in_comment) {
        if (line ~ /\*\/$/) { in_comment = 0; return }
        sub(/^ *\* ?/, "", line)
        if (line == "") said = said "\n"
        else said = said (said == "" || said ~ /\n$/ ? "" : " ") line
    } else if (line ~ /^ *\/\*\*$/) {
        in_comment = 1
        said = ""
    } else if (line ~ /^ *\/\*\*.*\*\/$/) {
        said = line
        sub(/^ *\/\*\* */, "", said)
        sub(/ *\*\/$/, "", said)
    } else if (line ~ /^#define HERD_[A-Z0-9_]+ / && said != "") {
        constant_line(line)
    } else if (line !~ /^#/ && (said != "" || in_struct != "" || declaration != "")) {
        declaration_line(line)
    }
}

function add(name, what) {
    item[++count] = name
    kind[name] = what
    comment[name] = said
    said = ""
}

function constant_line(line,    part) {
    split(line, part, " ")
    add(part[2], "constant")
    if (part[3] ~ /^[(]?-?[0-9]+[)]?$/ && part[4] == "") {
        gsub(/[()]/, "", part[3])
        value[part[2]] = part[3]
    }
}

function declaration_line(line) {
    if (line ~ /^struct herd[a-z_]* \{$/) {
        in_struct = line
        gsub(/^struct | \{$/, "", in_struct)
        add(in_struct, "struct")
        members[in_struct] = 0
    } else if (line == "};") {
        in_struct = ""
    } else {
        declaration = declaration " " line
        if (line !~ /;$/) return
        declaration = squeezed(declaration)
        sub(/;$/, "", declaration)
        if (in_struct != "") member_declared(in_struct, declaration)
        else if (declaration ~ /^struct [a-z_]*$/) add(substr(declaration, 8), "struct")
        else prototype_declared(declaration)
        declaration = ""
    }
}

# "const char *name": the star belongs to the type.
function member_declared(name, text,    n, at) {
    n = ++members[name]
    at = match(text, /[a-z0-9_]+(\[[A-Z_]*\])?$/)
    member_type[name, n] = squeezed(substr(text, 1, at - 1))
    member_name[name, n] = substr(text, at)
    member_comment[name, n] = said
    said = ""
}

# Callbacks are typedefs, so no argument has a comma or a parenthesis of its own.
function prototype_declared(text,    name, head, open) {
    if (text ~ /^typedef /) {
        match(text, /[(][*]herd_[a-z_]*[)]/)
        name = substr(text, RSTART + 2, RLENGTH - 3)
        add(name, "callback")
        result[name] = squeezed(substr(text, 1, RSTART - 1))
        text = substr(text, RSTART + RLENGTH)
    } else {
        open = index(text, "(")
        head = substr(text, 1, open - 1)
        match(head, /herd_[a-z_]*$/)
        name = substr(head, RSTART)
        add(name, "call")
        result[name] = squeezed(substr(head, 1, RSTART - 1))
        text = substr(text, open)
    }
    gsub(/^[(]|[)]$/, "", text)
    arguments_declared(name, text)
}

function arguments_declared(name, text,    part, n) {
    arguments[name] = split(text, part, /, */)
    for (n = 1; n <= arguments[name]; n++) argument[name, n] = part[n]
}
