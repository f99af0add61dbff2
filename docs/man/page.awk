# Writes a manual page (mdoc(7)) from a frame and the header's comments:
#
#   awk -f header.awk -f page.awk -v version=0.1.0 -v released=2027-01-31 include/herd.h herd_listen.3.in
#
# A frame begins with lines `word: names`, up to the first macro: `about` (one line), `calls`, `callbacks`, `structs`,
# `constants` (a name that ends with * stands for all that begin so). Then comes what is written by hand. NAME,
# SYNOPSIS and, at the end of the DESCRIPTION, what the header says of each name are put in here.

# mdoc's way to write the date of the release, which a version that is none yet does not have.
BEGIN {
    split("January February March April May June July August September October November December", month, " ")
    dated = "not yet released"
    if (split(released, part, "-") == 3) dated = month[part[2] + 0] " " part[3] + 0 ", " part[1]
}

FNR == NR { header_line($0); next }

FNR == 1 {
    page = FILENAME
    gsub(/.*\/|\.in$/, "", page)
    section = page
    sub(/.*\./, "", section)
    title = page
    sub(/\.[0-9]$/, "", title)
}

!begun && /^[a-z]+:/ {
    key = $1
    sub(/^[a-z]+: */, "")
    names[key] = names[key] " " $0
    next
}

!begun {
    begun = 1
    for (key in names) names[key] = squeezed(names[key])
    own_calls = " " names["calls:"] " "
    print_head()
}

/^\.Sh / {
    if (in_description) print_reference()
    in_description = /^\.Sh DESCRIPTION/
}

{ print }

END { if (in_description) print_reference() }

function failed(why) {
    printf "%s: %s\n", page, why >"/dev/stderr"
    exit 1
}

# names_of KEY INTO: the names that a line of the frame stands for, each of this kind in the header
function names_of(key, what, into,    part, parts, p, i, n, prefix, found) {
    parts = split(names[key ":"], part, " ")
    for (p = 1; p <= parts; p++) {
        found = n
        prefix = part[p]
        if (sub(/[*]$/, "", prefix)) {
            for (i = 1; i <= count; i++)
                if (kind[item[i]] == what && index(item[i], prefix) == 1) into[++n] = item[i]
        } else if (kind[prefix] == what) {
            into[++n] = prefix
        }
        if (found == n) failed("no " what " " part[p] " in the header")
    }
    return n
}

function print_head(    calls, callbacks, n, into, i) {
    print ".\\\" Made from docs/man/" page ".in and include/herd.h: edit these."
    print ".Dd " dated
    print ".Dt " toupper(title) " " section
    print ".Os libherd " version
    print ".Sh NAME"
    calls = names_of("calls", "call", into)
    for (i = 1; i <= calls; i++) print ".Nm " into[i] (i < calls ? " ," : "")
    if (calls == 0) print ".Nm " title
    print ".Nd " names["about:"]
    if (calls == 0) return
    print ".Sh LIBRARY"
    print "libherd: link with \\-lherd, or with what"
    print ".Ql pkg\\-config \\-\\-libs herd"
    print "prints."
    print ".Sh SYNOPSIS"
    print ".In herd.h"
    for (i = 1; i <= calls; i++) print_prototype(into[i], into[i])
    callbacks = names_of("callbacks", "callback", into)
    for (i = 1; i <= callbacks; i++) print_prototype(into[i], "(*" into[i] ")")
}

function print_prototype(name, shown,    n) {
    print ".Ft " quoted(result[name])
    print ".Fo " quoted(shown)
    for (n = 1; n <= arguments[name]; n++) print ".Fa " quoted(argument[name, n])
    print ".Fc"
}

function print_reference(    into, n, i, m) {
    n = names_of("calls", "call", into)
    for (i = 1; i <= n; i++) { print ".Ss Fn " into[i]; print_call(comment[into[i]]) }
    n = names_of("callbacks", "callback", into)
    for (i = 1; i <= n; i++) { print ".Ss " into[i]; print_text(comment[into[i]]) }
    n = names_of("structs", "struct", into)
    for (i = 1; i <= n; i++) {
        print ".Ss struct " into[i]
        print_text(comment[into[i]])
        if (members[into[i]] == 0) continue
        print ".Bl -tag -width Ds"
        for (m = 1; m <= members[into[i]]; m++) {
            if (member_comment[into[i], m] == "Private.") continue
            print ".It Vt " quoted(member_type[into[i], m]) " Va " quoted(member_name[into[i], m])
            print_text(member_comment[into[i], m])
        }
        print ".El"
    }
    n = names_of("constants", "constant", into)
    if (n == 0) return
    print ".Ss Constants"
    print ".Bl -tag -width Ds"
    for (i = 1; i <= n; i++) {
        print ".It Dv " into[i] (into[i] in value ? " Pq " escaped(value[into[i]]) : "")
        print_text(comment[into[i]])
    }
    print ".El"
}

# --- What the header says of a call ---

# A comment is prose, then what is returned, then who may call: "Returns 0. -EINVAL: NULL; -EBUSY: in use. Any thread.
# Since 0.1." Prose stays prose, each code becomes an item of a list, and the rest comes last.
function print_call(text,    paragraph, paragraphs, p, sentence, n, s, tail, after) {
    items = 0
    returns = after = tail = ""
    paragraphs = split(text, paragraph, "\n+")
    for (p = 1; p <= paragraphs; p++) {
        in_returns = 0
        prose = ""
        n = sentences_of(paragraph[p], sentence)
        for (s = 1; s <= n; s++) {
            if (is_tail(sentence[s])) tail = tail " " sentence[s]
            else if (sentence[s] ~ /^Returns /) { in_returns = 1; answers(sentence[s]) }
            else if (is_code(sentence[s])) answers(sentence[s])
            else if (items > 0) after = after " " sentence[s]
            else if (in_returns) returns = returns " " sentence[s]
            else prose = prose " " sentence[s]
        }
        if (prose != "") { if (p > 1) print ".Pp"; print_words(prose) }
    }
    if (returns != "") { print ".Pp"; print_words(returns) }
    if (items > 0) {
        print ".Bl -tag -width Ds -offset indent"
        for (s = 1; s <= items; s++) { print_tag(item_code[s]); print_words(item_text[s]) }
        print ".El"
    }
    if (after != "") { print ".Pp"; print_words(after) }
    print ".Pp"
    print_words(tail)
}

function is_tail(sentence) {
    return sentence ~ /^(Thread: |Fork: |nginx: |Since |Any thread|Any process)/
}

# A code, or several, and a colon, or the end of the sentence: "-EMFILE, -ENFILE: no descriptor", "-ENOMEM".
function is_code(text) {
    return text ~ /^((-E|HERD_E)[A-Z0-9]+((, | or )(-E|HERD_E)[A-Z0-9]+)*)(:|[.;]|$| when | after )/ \
        || text ~ /^([01]: |Otherwise negative: |Negative: )/ || text ~ /^(other )?negated errno/
}

# answers SENTENCE: "Returns 0. ", or codes separated by semicolons, into `returns` and the items
function answers(sentence,    at, clause) {
    while (sentence != "") {
        clause = sentence
        sentence = ""
        for (at = index(clause, "; "); at > 0; at = next_at(clause, at)) {
            if (!is_code(substr(clause, at + 2))) continue
            sentence = substr(clause, at + 2)
            clause = substr(clause, 1, at - 1) "."
            break
        }
        if (clause ~ /^Returns [01]: /) sub(/^Returns /, "", clause)
        if (is_code(clause)) one_code(clause)
        else if (items > 0) item_text[items] = item_text[items] " " clause
        else returns = returns " " clause
    }
}

function next_at(text, at,    more) {
    more = index(substr(text, at + 1), "; ")
    return more == 0 ? 0 : at + more
}

function one_code(clause,    colon) {
    items++
    if (clause ~ /^(Otherwise negative|Negative): /) {
        item_code[items] = "Other"
        sub(/^[A-Za-z ]*: /, "", clause)
        item_text[items] = clause
    } else if (clause ~ /negated errno/) {
        item_code[items] = "Other"
        item_text[items] = clause
    } else if (clause !~ /^[^:]* (when|after) / && (colon = index(clause, ":")) > 0) {
        item_code[items] = substr(clause, 1, colon - 1)
        item_text[items] = squeezed(substr(clause, colon + 1))
    } else if (match(clause, / (when|after) /)) {
        item_code[items] = substr(clause, 1, RSTART - 1)
        item_text[items] = substr(clause, RSTART + 1)
    } else {
        sub(/[.;]$/, "", clause)
        item_code[items] = clause
        item_text[items] = clause ~ /^HERD_/ ? "see herd_strerror(3)." : "see errno(3)."
    }
}

function print_tag(text,    word, n, i, line) {
    n = split(text, word, " ")
    for (i = 1; i <= n; i++) {
        if (word[i] ~ /,$/) { sub(/,$/, "", word[i]); line = line " " tag_word(word[i]) " ," }
        else line = line " " tag_word(word[i])
    }
    print ".It" line
}

function tag_word(word) {
    return (word ~ /^-E/ ? "Er " : word ~ /^HERD_/ ? "Dv " : "No ") escaped(word)
}

# A sentence ends with a full stop before a capital, a digit, a minus or a backtick.
function sentences_of(text, into,    n, at, rest) {
    n = 0
    while (text != "") {
        rest = ""
        for (at = index(text, ". "); at > 0; at = next_stop(text, at)) {
            if (substr(text, at + 2, 1) !~ /[A-Z0-9`-]/ && substr(text, at + 2) !~ /^nginx: /) continue
            rest = substr(text, at + 2)
            text = substr(text, 1, at)
            break
        }
        into[++n] = text
        text = rest
    }
    return n
}

function next_stop(text, at,    more) {
    more = index(substr(text, at + 1), ". ")
    return more == 0 ? 0 : at + more
}

# --- Text ---

function print_text(text,    paragraph, paragraphs, p) {
    paragraphs = split(text, paragraph, "\n+")
    for (p = 1; p <= paragraphs; p++) {
        if (p > 1) print ".Pp"
        print_words(paragraph[p])
    }
}

# Words become text lines; names become macro lines.
function print_words(text,    token) {
    line = ""
    text = squeezed(text)
    while (text != "") {
        if (!match(text, /^[^ `]*`[^`]*`[^ ]*/)) match(text, /^[^ ]+/)
        token = substr(text, 1, RLENGTH)
        text = squeezed(substr(text, RLENGTH + 1))
        print_token(token)
    }
    print_line()
}

function print_line() {
    if (line != "") print line
    line = ""
}

function print_token(token,    core, opening, behind, macro) {
    core = token
    opening = "."
    behind = ""
    if (sub(/^[(]/, "", core)) opening = ".Pf ( "
    if (core ~ /^[a-z_0-9.]+[(][1-8][)][).,;:]*$/) {
        match(core, /[(][1-8][)]/)
        behind = substr(core, RSTART + 3)
        macro = "Xr " substr(core, 1, RSTART - 1) " " substr(core, RSTART + 1, 1)
    } else {
        while (match(core, /[).,;:]$/) && core !~ /[.][.][.]$/) {
            behind = substr(core, RSTART) behind
            core = substr(core, 1, RSTART - 1)
        }
        macro = macro_of(core)
    }
    if (macro == "") {
        gsub(/`/, "", token)
        print_word(token)
        return
    }
    print_line()
    gsub(/./, " &", behind)
    print opening macro behind
}

# macro_of CORE: for a word without its punctuation, or ""
function macro_of(core,    name) {
    if (core ~ /^-E[A-Z0-9]+$/) return "Er " escaped(core)
    if (core ~ /^(HERD_[A-Z0-9_]+|NULL)$/) return "Dv " core
    if (core !~ /^`[^`]*`$/) return ""
    name = substr(core, 2, length(core) - 2)
    if (name !~ /[A-Za-z0-9]/) return "Ql \\&" escaped(name)
    if (kind[name] == "call")
        return index(own_calls, " " name " ") ? "Fn " name : "Xr " name " 3"
    if (kind[name] == "callback" || name ~ /^struct /) return "Vt " quoted(name)
    if (name ~ /^HERD_[A-Z0-9_.]+$/) return "Dv " name
    if (name ~ /^herd_[a-z_]*[(]/) return "Ql " quoted(name)
    return "Va " quoted(name)
}

# mdoc wants each sentence on a line of its own.
function print_word(word) {
    word = escaped(word)
    if (line == "" && word ~ /^[.']/) word = "\\&" word
    if (length(line) + length(word) > 90) print_line()
    line = line (line == "" ? "" : " ") word
    if (word ~ /[.?!][)]?$/) print_line()
}

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/^-|[(]-/, "&\001", text)
    gsub(/-\001/, "\\-", text)
    return text
}

function quoted(text) {
    text = escaped(text)
    gsub(/"/, "\\(dq", text)
    return text ~ / / ? "\"" text "\"" : text
}
