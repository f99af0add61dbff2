#!/usr/bin/env python3
"""terminal_svg.py TITLE <CAPTURE >PICTURE: a terminal's screen, as `tmux capture-pane -e -p` writes it, as SVG.

Block characters are drawn as rectangles and all else is set to the cell's width, so that the picture does not
depend on the reader's font.
"""
import re
import sys
from html import escape

CELL, LINE, EDGE, SIZE = 8.4, 18, 12, 14
GROUND, INK = "#16181d", "#d7dae0"
COLORS = ["#3b4048", "#e06c75", "#7fbf6a", "#e0b15e", "#5b9df0", "#c678dd", "#4fb8c4", "#d7dae0"]
BRIGHT = ["#8a919c", "#ff7b86", "#98d982", "#f2c777", "#7cb5ff", "#d99aee", "#6fd3de", "#ffffff"]
SGR = re.compile(r"\x1b\[([0-9;]*)m")
LEFT = {chr(0x2590 - eighths): eighths for eighths in range(1, 9)}  # one eighth to a full block
LOWER = {chr(0x2580 + eighths): eighths for eighths in range(1, 8)}


class Style:
    ink, bold, reverse = INK, False, False

    def apply(self, codes):
        codes = [int(code or 0) for code in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.ink, self.bold, self.reverse = INK, False, False
            elif code in (1, 22):
                self.bold = code == 1
            elif code in (7, 27):
                self.reverse = code == 7
            elif code == 39:
                self.ink = INK
            elif code == 49:
                pass  # the ground is never another
            elif 30 <= code <= 37:
                self.ink = COLORS[code - 30]
            elif 90 <= code <= 97:
                self.ink = BRIGHT[code - 90]
            elif code == 38 and codes[:1] == [5]:
                self.ink = (COLORS + BRIGHT)[codes[1]]
                del codes[:2]
            else:
                sys.exit(f"terminal_svg: a style that it does not know: {code}")


def rectangle(x, y, width, height, color):
    return f'<rect x="{x:.1f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{color}"/>'


def run(column, line, text, style):
    """Characters of one style, from a column on."""
    x, y = EDGE + column * CELL, EDGE + line * LINE
    ink, out = style.ink, []
    if style.reverse:
        out.append(rectangle(x, y, len(text) * CELL, LINE, INK))
        ink = GROUND
    for bar in re.finditer("[\u2588-\u258f]+", text):  # in one piece: cell by cell there would be seams
        eighths = sum(LEFT[char] for char in bar.group())
        out.append(rectangle(x + bar.start() * CELL, y + 2, CELL * eighths / 8, LINE - 4, ink))
    for at, char in enumerate(text):
        if char in LOWER:
            height = (LINE - 4) * LOWER[char] / 8
            out.append(rectangle(x + at * CELL, y + LINE - 2 - height, CELL, height, ink))
    plain = "".join(" " if char in LEFT or char in LOWER else char for char in text)
    for word in re.finditer(r"\S+", plain):
        bold = ' font-weight="bold"' if style.bold else ""
        width = f'textLength="{len(word.group()) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
        at = f'x="{x + word.start() * CELL:.1f}" y="{y + LINE - 5}"'
        out.append(f'<text {at} {width} fill="{ink}"{bold}>{escape(word.group())}</text>')
    return out


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    style, shapes, widest = Style(), [], 0
    for number, line in enumerate(lines):
        column = 0
        for index, part in enumerate(SGR.split(line)):
            if index % 2 == 1:
                style.apply(part)
            elif part:
                shapes += run(column, number, part, style)
                column += len(part)
        widest = max(widest, column)
    width, height = 2 * EDGE + widest * CELL, 2 * EDGE + len(lines) * LINE
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
          f'height="{height}" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{SIZE}">')
    print(f"<title>{escape(sys.argv[1])}</title>")
    print(f'<rect width="100%" height="100%" rx="6" fill="{GROUND}"/>')
    print("\n".join(shapes) + "\n</svg>")


main()
