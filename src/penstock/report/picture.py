"""What a drawing of a pipeline shows: boxes, the arrows between them, and the groups that became one loop.

The reader of a picture wants three facts at a glance: what flows into what, which steps became one compiled loop, and
where a region opens and closes. So boxes stand in rows with arrows going down, a fused chain is one tinted rectangle,
and open regions are rails: beside the text of every box inside them, and along every arrow that carries their items.
`picture_layout` finds the places, `picture_svg` draws, and `mermaid` writes the same as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.report.layers import downwards


@dataclass(frozen=True, slots=True)
class Box:
    """One node of the graph. `depth` counts the regions that are open at its output."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "node"
    group: str | None = None
    depth: int = 0

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(
                f"box {self.id!r}: depth counts open regions, so it must be 0 or more; got {self.depth}; "
                f"does a step close a region that none has opened?"
            )


@dataclass(frozen=True, slots=True)
class Arrow:
    """Items, or for `control` signals, go from the box `start` to the box `end`."""

    start: str
    end: str
    label: str = ""
    control: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph without cycles, ready to be drawn. Boxes and arrows are drawn in the order in which they stand here."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    groups: Mapping[str, str]
    title: str = ""

    def __post_init__(self) -> None:
        where = f"picture {self.title!r}"
        known: set[str] = set()
        for box in self.boxes:
            if box.id in known:
                raise ValueError(f"{where}: every box must have its own id; got {box.id!r} twice; rename one of them")
            known.add(box.id)
            if box.group is not None and box.group not in self.groups:
                raise ValueError(
                    f"{where}: the group of box {box.id!r} must be one of {sorted(self.groups)}; got {box.group!r}; "
                    f"add it with a caption to groups, or set group=None"
                )
        for arrow in self.arrows:
            for end in (arrow.start, arrow.end):
                if end not in known:
                    raise ValueError(
                        f"{where}: arrow {arrow.start!r} -> {arrow.end!r} must join two boxes of the picture; "
                        f"got {end!r}, which is none; add the box, or drop the arrow"
                    )
        caught = set(range(len(self.boxes))) - set(downwards(len(self.boxes), self.edges))
        if caught:
            raise ValueError(
                f"{where}: arrows must lead down, without a cycle; got one at or above {self.boxes[min(caught)].id!r}; "
                f"drop the arrow that goes back"
            )

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The arrows, by the numbers of their boxes."""
        number = {box.id: at for at, box in enumerate(self.boxes)}
        return [(number[arrow.start], number[arrow.end]) for arrow in self.arrows]
