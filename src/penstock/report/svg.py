"""The pen that all drawings share: text that is measured without a font, and SVG elements as text.

Nobody knows in which font a reader sees a drawing, so widths here are upper bounds: what fits, fits everywhere.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape

INK, FAINT = "#1f2430", "#5f6675"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
"""Okabe and Ito's colours without yellow, which is lost on white; black is the ink."""
FONT = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"

# Widths of glyphs in em, rounded up from DejaVu Sans, the widest of the fonts that the list above can end in.
_GLYPHS = {
    glyph: width
    for width, glyphs in (
        (0.36, " ijl'I.,:;/\\|·-f"),
        (0.42, "!()[]tr"),
        (0.54, '"*_`szJ?c'),
        (0.64, "$0123456789ESbdghnpqu{}aeoTYLFkPvxy"),
        (0.70, "KABVXZCR"),
        (0.80, "NUH&DGOQ"),
        (0.87, "#+<=>^~→≤≥wM"),
        (1.00, "%Wm@…"),
    )
    for glyph in glyphs
}


# ---------------------------------------------------------------------------------------------------------------------
# Measuring text
# ---------------------------------------------------------------------------------------------------------------------


def flat(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def text_width(text: str, size: float, bold: bool = False) -> float:
    """At least the width that any usual sans-serif font gives to the text."""
    return sum(map(_glyph_width, text)) * size * (1.1 if bold else 1.0)


def _glyph_width(glyph: str) -> float:
    if glyph in _GLYPHS:
        return _GLYPHS[glyph]
    if unicodedata.combining(glyph):
        return 0.0
    return 1.3 if unicodedata.east_asian_width(glyph) in "WF" else 0.85


def fit(text: str, size: float, room: float, bold: bool = False) -> str:
    """The text in one line, with an ellipsis for what has no room."""
    text = flat(text)
    if text_width(text, size, bold) <= room + 0.01:  # the room was often made for this very text
        return text
    room -= text_width("…", size, bold)
    kept = 0
    while kept < len(text) and (room := room - text_width(text[kept], size, bold)) >= 0:
        kept += 1
    return text[:kept].rstrip() + "…"


# ---------------------------------------------------------------------------------------------------------------------
# SVG
# ---------------------------------------------------------------------------------------------------------------------


def opening(label: str, width: float, height: float) -> str:
    """The first tag of a standalone <svg> element of this size, in pixels; the label is for those who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{xml(label)}" '
        f'width="{px(width)}" height="{px(height)}" viewBox="0 0 {px(width)} {px(height)}" font-family="{FONT}">'
    )


def rect(x: float, y: float, width: float, height: float, radius: float, fill: str, edge: str, more: str = "") -> str:
    return (
        f'<rect {more + " " if more else ""}x="{px(x)}" y="{px(y)}" width="{px(width)}" height="{px(height)}" '
        f'rx="{px(radius)}" fill="{fill}" stroke="{edge}"/>'
    )


def text_line(
    x: float,
    y: float,
    text: str,
    size: float,
    room: float,
    ink: str,
    anchor: str = "start",
    bold: bool = False,
    full: str | None = None,
) -> str:
    """One line of text that fits the room; if it says less than the full text, that is its tooltip."""
    shown = fit(text, size, room, bold)
    full = text if full is None else full
    tooltip = f"<title>{xml(full)}</title>" if shown != flat(full) else ""
    look = ' font-weight="600"' if bold else ""
    look += f' text-anchor="{anchor}"' if anchor != "start" else ""
    where = f'x="{px(x)}" y="{px(y)}" font-size="{px(size)}"'
    return f'<text {where}{look} fill="{ink}">{xml(shown)}{tooltip}</text>'


def px(number: float) -> str:
    """A length or place in pixels, to a tenth."""
    return f"{number:.1f}".removesuffix(".0")


# What XML cannot hold at all: control characters, halves of surrogate pairs, and two code points that are none.
_UNHEARD_OF = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(text: str) -> str:
    """The text with a sign of replacement for each character that XML cannot hold."""
    return _UNHEARD_OF.sub("\ufffd", text)


def xml(text: str) -> str:
    """Escaped for text and for attributes, where white space would be flattened."""
    return escape(printable(text)).replace("\t", "&#9;").replace("\n", "&#10;").replace("\r", "&#13;")


def mix(colour: str, share: float) -> str:
    """So much of the colour in white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in parts)
