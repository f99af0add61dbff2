# Finds the code blocks of markdown and manual pages: awk -f blocks.awk -v into=DIRECTORY FILE...
# Writes each to DIRECTORY/N and prints `N|file|line|language|what is said of it`, which is the HTML comment (in a
# manual page the comment) right before it.

FNR == 1 { is_page = FILENAME ~ /\.in$/; in_block = fenced = 0; said = ""; was_blank = 1 }

is_page { page_line(); next }
{ markdown_line() }

function begin(language) {
    in_block = 1
    file = into "/" ++blocks
    printf "" >file
    print blocks "|" FILENAME "|" FNR "|" language "|" said
    said = ""
}

function markdown_line() {
    if (fenced) {
        if ($0 ~ /^ *```$/) { fenced = in_block = 0; close(file) }
        else print >file
    } else if ($0 ~ /^ *```/) {
        fenced = 1
        begin(substr($0, index($0, "```") + 3))
    } else if (in_block && ($0 ~ /^    / || $0 == "")) {
        print substr($0, 5) >file
    } else {
        if (in_block) { in_block = 0; close(file) }
        if ($0 ~ /^    / && was_blank) { begin("sh"); print substr($0, 5) >file }
        else if ($0 ~ /^<!-- .* -->$/) said = substr($0, 6, length($0) - 9)
        else if ($0 != "") said = ""
    }
    was_blank = $0 == "" || $0 ~ /^<!--/
}

function page_line() {
    if (in_block) {
        if ($0 ~ /^\.Ed/) { in_block = 0; close(file); return }
        gsub(/\\e/, "\\")
        gsub(/\\-/, "-")
        print >file
    } else if ($0 ~ /^\.Bd -literal/) {
        begin("c")
    } else if ($0 ~ /^\.\\" /) {
        said = substr($0, 5)
    } else {
        said = ""
    }
}
