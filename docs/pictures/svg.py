#!/usr/bin/env python3
"""Draws what was on a terminal, read from standard input with its colors, as an SVG: svg.py light|dark."""

import re
import sys
from html import escape

# The background; the text; the colors 0 to 7 of a terminal, and dim text.
PALETTES = {
    "light": ("#f6f8fa", "#1f2328",
              ["#24292f", "#cf222e", "#116329", "#7d4e00", "#0550ae", "#8250df", "#1b7c83", "#6e7781"], "#656d76"),
    "dark": ("#161b22", "#e6edf3",
             ["#8b949e", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3"], "#9198a1"),
}
COLUMN, ROW, MARGIN = 7.8, 19, 16
ESCAPES = re.compile(r"\x1b\[([0-9;]*)m")


def spans(line, style):
    """The pieces of a line: column, text, style. Changes the style, which goes on in the next line."""
    column, parts = 0, ESCAPES.split(line)
    for place, part in enumerate(parts):
        if place % 2 == 0:
            if part:
                yield column, part, dict(style)
            column += len(part)
            continue
        for code in (int(code or 0) for code in part.split(";")):
            if code == 0:
                style.clear()
            elif code == 1:
                style["bold"] = True
            elif code == 2:
                style["dim"] = True
            elif code == 22:
                style.pop("bold", None), style.pop("dim", None)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                style["color"] = code % 10
            elif code == 39:
                style.pop("color", None)


def attributes(style, palette):
    _, _, colors, dim = palette
    fill = colors[style["color"]] if "color" in style else dim if "dim" in style else None
    return (f' fill="{fill}"' if fill else "") + (' font-weight="bold"' if "bold" in style else "")


def picture(lines, palette):
    background, text, _, _ = palette
    width = max(len(ESCAPES.sub("", line)) for line in lines) * COLUMN + 2 * MARGIN
    height = len(lines) * ROW + 2 * MARGIN
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}">'
    yield f'<rect width="100%" height="100%" rx="8" fill="{background}"/>'
    yield f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="{text}">'
    style = {}
    for row, line in enumerate(lines):
        pieces = ""
        for column, part, of_part in spans(line, style):
            # Each word has its column, so that tables stay straight in any font.
            for word in re.finditer(r"\S+(?: \S+)*", part):
                x = MARGIN + (column + word.start()) * COLUMN
                length = len(word[0]) * COLUMN
                pieces += (f'<tspan x="{x:.1f}" textLength="{length:.1f}"{attributes(of_part, palette)}>'
                           f"{escape(word[0], quote=False)}</tspan>")
        if pieces:
            yield f'<text y="{MARGIN + (row + 0.7) * ROW:.0f}">{pieces}</text>'
    yield "</g>\n</svg>"


print("\n".join(picture(sys.stdin.read().rstrip("\n").split("\n"), PALETTES[sys.argv[1]])))
