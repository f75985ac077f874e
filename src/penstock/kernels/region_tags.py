"""Regions as tags on items, and back: the `dense` way to carry them through a channel.

A region has a number, counted from 0 at each depth in the order in which regions open. An item carries the number of
its innermost region, and that region's parent the number of the one around it. A boundary that the next item's tag
tells is not sent; one that a signal or nothing follows is, as a mark. `links[d]` holds, for the row of a parent at a
depth, the number of the region around. Kinds of marks are those of `kernels.credit`.
"""

from __future__ import annotations

from typing import Any

from penstock.kernels.credit import SIGNAL


def tag(
    kinds: Any,
    places: Any,
    first: int,
    last: int,
    start: int,
    stop: int,
    depth: int,
    opened: Any,
    tags: Any,
    links: Any,
    rows: Any,
) -> int:
    """Tag the items from `start` to `stop`, and drop the marks among `first` to `last` that the tags make needless.

    `opened` counts the regions at each depth, `rows` holds the row of the next parent; both are left as they are then.
    What comes back is where the marks that remain end.
    """
    at = start
    for mark in range(first, last):
        for item in range(at, places[mark]):
            tags[item] = opened[depth - 1] - 1
        at = places[mark]
        if kinds[mark] < SIGNAL and kinds[mark] % 2 == 0:
            level = kinds[mark] // 2
            if level > 0:
                links[level][rows[level]] = opened[level - 1] - 1
            rows[level] += 1
            opened[level] += 1
    for item in range(at, stop):
        tags[item] = opened[depth - 1] - 1
    # From the end, so that a boundary is known to be followed by a signal at the same place.
    write, pinned = last, -1
    for mark in range(last - 1, first - 1, -1):
        if kinds[mark] >= SIGNAL:
            pinned = places[mark]
        if kinds[mark] >= SIGNAL or places[mark] >= stop or places[mark] == pinned:
            write -= 1
            kinds[write], places[write] = kinds[mark], places[mark]
    kept = last - write
    for mark in range(kept):
        kinds[first + mark], places[first + mark] = kinds[write + mark], places[write + mark]
    return first + kept


def rebuild(
    kinds: Any,
    places: Any,
    references: Any,
    first: int,
    last: int,
    start: int,
    stop: int,
    depth: int,
    opened: Any,
    is_open: Any,
    base: Any,
    tags: Any,
    links: Any,
    wanted: Any,
    made_kinds: Any,
    made_places: Any,
    made_references: Any,
    sent: Any,
) -> int:
    """All marks among the items from `start` to `stop`: those that were sent, and those that the tags tell.

    `opened` counts the regions that the receiver has seen open at each depth, `is_open` says whether the last one still
    is, and the row of region x is `base + x`; the first two are left as they are then. For every mark made, `sent`
    holds how many of those up to it were sent as marks. What comes back is how many were made.
    """
    count, mark = 0, first
    for item in range(start, stop + 1):
        while mark < last and places[mark] <= item:
            made_kinds[count], made_places[count] = kinds[mark], item
            made_references[count] = references[mark]
            if 0 <= kinds[mark] < SIGNAL:
                level = kinds[mark] // 2
                is_open[level] = 1 - kinds[mark] % 2
                if kinds[mark] % 2 == 0:
                    made_references[count] = base[level] + opened[level]
                    opened[level] += 1
            mark += 1
            sent[count] = mark - first
            count += 1
        if item == stop:
            break
        if is_open[depth - 1] == 1 and opened[depth - 1] - 1 == tags[item]:
            continue
        wanted[depth - 1] = tags[item]
        for level in range(depth - 1, 0, -1):
            if is_open[level] == 1 and wanted[level] == opened[level] - 1:
                wanted[level - 1] = opened[level - 1] - 1  # it may have come as a mark, before there were tags
            else:
                wanted[level - 1] = links[level][base[level] + wanted[level]]
        while is_open[depth - 1] == 0 or opened[depth - 1] - 1 < wanted[depth - 1]:
            # The next to open is the innermost whose next region lies in the one that is open around it.
            level = depth - 1
            while level > 0 and (
                opened[level] > wanted[level]
                or is_open[level - 1] == 0
                or links[level][base[level] + opened[level]] != opened[level - 1] - 1
            ):
                level -= 1
            for inner in range(depth - 1, level - 1, -1):
                if is_open[inner] == 1:
                    is_open[inner] = 0
                    made_kinds[count], made_places[count], made_references[count] = 2 * inner + 1, item, 0
                    sent[count] = mark - first
                    count += 1
            made_kinds[count], made_places[count] = 2 * level, item
            made_references[count] = base[level] + opened[level]
            is_open[level] = 1
            opened[level] += 1
            sent[count] = mark - first
            count += 1
    return count


def tally(kinds: Any, count: int, depth: int, passed: Any) -> None:
    """Count marks by kind, as `settle` of the credit protocol does."""
    opened = len(passed) - depth
    for at in range(count):
        kind = kinds[at]
        if kind >= SIGNAL:
            passed[depth + kind - SIGNAL] += 1
        elif kind >= 0 and kind % 2 == 0:
            passed[opened + kind // 2] += 1
        elif kind >= 0:
            passed[kind // 2] += 1


FUNCTIONS = (tag, rebuild, tally)
