"""A drawing of a pipeline as Mermaid text."""

from __future__ import annotations

import re
from collections import defaultdict

from penstock.report.picture import Box, Picture
from penstock.report.picture_svg import GROUP, GROUP_EDGE, GROUP_INK, KINDS, NEUTRAL
from penstock.report.svg import INK, flat, mix


def mermaid(picture: Picture) -> str:
    """The picture as a Mermaid flowchart; boxes are n0, n1, … in their order, since any text may be an id.

    >>> from penstock.report.picture import Arrow
    >>> print(mermaid(Picture((Box("a", "read"), Box("b", "map")), (Arrow("a", "b"),), {})))
    flowchart TD
      n0["read"]:::kind_other
      n1["map"]:::kind_other
      n0 --> n1
      classDef kind_other fill:#f3f4f5,stroke:#6b7280,color:#1f2430
    """
    names = {box.id: f"n{at}" for at, box in enumerate(picture.boxes)}
    members: dict[str | None, list[Box]] = defaultdict(list)
    for box in picture.boxes:
        members[box.group].append(box)
    lines = ["flowchart TD"]
    for at, (group, caption) in enumerate(picture.groups.items()):
        if members[group]:
            lines.append(f'  subgraph g{at}["{_mermaid(caption)}"]')
            lines.extend(f"    {_mermaid_box(box, names[box.id])}" for box in members[group])
            lines.append("  end")
    lines.extend(f"  {_mermaid_box(box, names[box.id])}" for box in members[None])
    for arrow in picture.arrows:
        line = "-.->" if arrow.control else "-->"
        label = f'|"{_mermaid(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {names[arrow.start]} {line}{label} {names[arrow.end]}")
    drawn = [f"g{at}" for at, group in enumerate(picture.groups) if members[group]]
    if drawn:
        lines.append(f"  class {','.join(drawn)} group")
        lines.append(f"  classDef group fill:{GROUP},stroke:{GROUP_EDGE},color:{GROUP_INK}")
    for kind in sorted({_mermaid_kind(box) for box in picture.boxes}):
        colour = KINDS.get(kind, NEUTRAL)
        lines.append(f"  classDef kind_{kind} fill:{mix(colour, 0.08)},stroke:{colour},color:{INK}")
    return "\n".join(lines)


def _mermaid_kind(box: Box) -> str:
    return box.kind if box.kind in KINDS else "other"


def _mermaid_box(box: Box, name: str) -> str:
    label = "<br/>".join(_mermaid(text) for text in (box.title, *box.lines))
    return f'{name}["{label}"]:::kind_{_mermaid_kind(box)}'


def _mermaid(text: str) -> str:
    """Every character but letters, digits and a few harmless ones as Mermaid's own #code;.

    Two dollars would begin a formula even so, and \\n a line; a space of no width keeps them apart.
    """
    line = re.sub(r"(?<=\$)(?=\$)|(?<=\\)(?=n)", "\u200b", flat(text))
    return "".join(glyph if glyph.isalnum() or glyph in " ,()=" else f"#{ord(glyph)};" for glyph in line) or " "
