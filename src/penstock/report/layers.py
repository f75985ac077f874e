"""The rows of a drawing: which boxes hang together, and how far down each stands.

Boxes of one group that hang together are a *piece*; every other box is a piece by itself. Rows come by the longest
path. A piece has its rows for itself: whatever leads to one of its boxes stands above all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

Edges = Sequence[tuple[int, int]]
"""Arrows, by the numbers of their boxes."""


def downwards(count: int, edges: Edges) -> list[int]:
    """The numbers 0..count-1 with every start before its end; those on or below a cycle are left out."""
    below = by_start(edges)
    waiting = [0] * count
    for _, end in edges:
        waiting[end] += 1
    order = [number for number in range(count) if not waiting[number]]
    for number in order:
        for end in below[number]:
            waiting[end] -= 1
            if not waiting[end]:
                order.append(end)
    return order


def by_start(edges: Edges) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = defaultdict(list)
    for start, end in edges:
        grouped[start].append(end)
    return grouped


def components(count: int, edges: Edges) -> list[int]:
    """For each number the least number that it hangs together with."""
    least = list(range(count))

    def root(number: int) -> int:
        while least[number] != number:
            least[number] = number = least[least[number]]
        return number

    for start, end in edges:
        low, high = sorted((root(start), root(end)))
        least[high] = low
    return [root(number) for number in range(count)]


def homes_of(groups: Sequence[str | None], edges: Edges) -> list[int]:
    """For each box its piece, named by the first box of that.

    Ensures that the pieces, like the boxes, form no cycle. A group that an arrow leaves and another comes back to
    would; then groups are divided by level, which goes up with every arrow that comes in from outside.
    """
    count = len(groups)
    within = [(start, end) for start, end in edges if groups[start] is not None and groups[start] == groups[end]]
    homes = components(count, within)
    if len(downwards(count, _between(homes, edges))) == count:
        return homes
    below, inside = by_start(edges), set(within)
    level = [0] * count
    for start in downwards(count, edges):
        for end in below[start]:
            level[end] = max(level[end], level[start] + ((start, end) not in inside))
    return components(count, [(start, end) for start, end in within if level[start] == level[end]])


def _between(homes: Sequence[int], edges: Edges) -> Edges:
    return [(homes[start], homes[end]) for start, end in edges if homes[start] != homes[end]]


def rows_of(homes: Sequence[int], edges: Edges) -> tuple[list[int], dict[int, range]]:
    """The row of each box, and the rows of each piece: below whatever leads to it, and all of that one's piece."""
    count = len(homes)
    rows = [0] * count
    below = by_start([(start, end) for start, end in edges if homes[start] == homes[end]])
    deep: dict[int, int] = {}
    for start in downwards(count, edges):
        for end in below[start]:
            rows[end] = max(rows[end], rows[start] + 1)
        deep[homes[start]] = max(deep.get(homes[start], 0), rows[start] + 1)
    first = dict.fromkeys(deep, 0)
    below = by_start(_between(homes, edges))
    for home in (home for home in downwards(count, _between(homes, edges)) if home in deep):
        for end in below[home]:
            first[end] = max(first[end], first[home] + deep[home])
    spans = {home: range(first[home], first[home] + deep[home]) for home in sorted(deep)}
    return [spans[home].start + row for home, row in zip(homes, rows, strict=True)], spans
