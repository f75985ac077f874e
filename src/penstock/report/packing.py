"""The columns of a drawing: items side by side, children below their parents, nothing overlapping.

The same procedure, `place`, finds the columns of the boxes within each piece, and of the pieces within the picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.report.measures import COLUMN_GAP


@dataclass(slots=True, eq=False)
class Item:
    """Something that takes room in the slots `first` to `last`: a box, a lane, or the frame of a piece."""

    first: int
    last: int
    width: float
    inside: Item | None = None  # the frame that it lies in
    x: float = 0.0  # of its centre, from the centre of that frame

    @property
    def slots(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def centre(self) -> float:
        return self.x + (self.inside.x if self.inside else 0.0)


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of an arrow, from one item to a lower one; it leaves and enters so far from their centres."""

    above: Item
    below: Item
    leave: float = 0.0
    enter: float = 0.0

    @property
    def slant(self) -> float:
        """How far right of its beginning it ends, if the upper item is at x = 0."""
        return self.below.x + self.enter - self.leave

    @property
    def ends(self) -> tuple[float, float]:
        return self.above.centre + self.leave, self.below.centre + self.enter


def place(items: Sequence[Item], links: Sequence[Link]) -> None:
    """Set every x: children side by side in order, parents centred above them, nothing overlapping.

    A join hangs below its middle parent, and is then drawn towards the mean of all of them as far as there is room.
    """
    into: dict[Item, list[Link]] = defaultdict(list)
    for link in links:
        into[link.below].append(link)
    children: dict[Item, list[Link]] = defaultdict(list)
    for link in links:
        if link is into[link.below][(len(into[link.below]) - 1) // 2]:
            children[link.above].append(link)
    downwards = sorted(items, key=lambda item: item.first)
    trees: dict[Item, list[Item]] = {}
    for item in reversed(downwards):
        trees[item] = _pack(sorted(children[item], key=lambda link: link.leave), trees)
        trees[item].append(item)
    _pack([Link(item, item) for item in items if item not in into], trees)
    for item in downwards:
        if len(into[item]) > 1:
            goal = sum(link.above.x + link.leave - link.enter for link in into[item]) / len(into[item])
            _draw_towards(goal, item, children, items)


def _pack(links: Sequence[Link], trees: dict[Item, list[Item]]) -> list[Item]:
    """Put the trees that the links lead to side by side, below a parent at x = 0; straight below it where possible."""
    packed: list[Item] = []
    free: dict[int, float] = {}  # slot -> where the room right of the packed ones begins
    for link in links:
        tree = trees.pop(link.below)
        apart = [free[slot] - item.left for item in tree for slot in item.slots if slot in free] if free else []
        move(tree, max(-link.slant, *apart) if apart else -link.slant)
        for item in tree if len(links) > 1 else ():
            for slot in item.slots:
                free[slot] = max(free.get(slot, item.right), item.right + COLUMN_GAP)
        packed = packed + tree if packed else tree
    if links:
        move(packed, -(links[0].slant + links[-1].slant) / 2)
    return packed


def move(tree: Iterable[Item], shift: float) -> None:
    if shift:
        for item in tree:
            item.x += shift


def _draw_towards(goal: float, root: Item, children: Mapping[Item, Sequence[Link]], items: Sequence[Item]) -> None:
    """Move the tree of the root so that the root comes to the goal, or as near as there is room."""
    tree = [root]
    for item in tree:
        tree.extend(link.below for link in children[item])
    mine = set(tree)
    others: dict[int, list[Item]] = defaultdict(list)
    for other in items:
        for slot in other.slots if other not in mine else ():
            others[slot].append(other)
    side = 1.0 if goal > root.x else -1.0
    room = abs(goal - root.x)
    for item in tree:
        for other in (other for slot in item.slots for other in others[slot]):
            if (other.x - item.x) * side > 0:
                room = min(room, abs(other.x - item.x) - (item.width + other.width) / 2 - COLUMN_GAP)
    move(tree, max(room, 0.0) * side)
