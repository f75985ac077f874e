"""The credit protocol on arrays: what a sender grants, what a receiver may take, and what it has then taken.

Marks lie in a control queue as two arrays, their kind and their credit: the number of items that stand between a mark
and the one before it. A kind is 2 · depth for the opening of a region, 2 · depth + 1 for its closing, SIGNAL + n for a
signal of type n, and CREDIT for a message that carries nothing but credit. `depth` is how many regions are nested; an
array that counts by kind has a place for each depth and, behind them, one for each type of signal.

Every function is plain Python that Numba compiles; `kernels.protocol` gives them in either form.
"""

from __future__ import annotations

from typing import Any

SIGNAL = 1000
CREDIT = -1


def grant(credits: Any, first: int, last: int, before: int) -> int:
    """Turn the places of new marks, `credits[first:last]`, into credits; the place of the last mark comes back.

    `before` is the place from which the credit of the first counts.
    """
    credits = credits[first:last]
    for at in range(len(credits)):
        place = credits[at]
        credits[at] = place - before
        before = place
    return before


def arrange(
    kinds: Any,
    credits: Any,
    first: int,
    last: int,
    current: int,
    start: int,
    most: int,
    trusts: bool,
    spans: bool,
    depth: int,
    rows: Any,
    places: Any,
    references: Any,
) -> tuple[int, int]:
    """How many items, up to `most` from `start` on, and how many marks the receiver may take now.

    A mark comes after `current` items and those of its own credit. A receiver that `trusts` its sender takes items
    freely where no mark is queued; another has nothing but its credit. Without `spans`, no item behind a mark is taken
    together with one before it: items first, then the marks that stand right behind them. The place of each mark taken
    is written, and its row, which counts on from `rows` by kind.
    """
    kinds, credits, places, references = (
        kinds[first:last],
        credits[first:last],
        places[first:last],
        references[first:last],
    )
    reached, has_passed, before = current, False, 0
    outer = rows[0] if depth > 0 else 0  # the rows of the outermost regions, most often the only ones, by hand
    for at in range(len(kinds)):
        reached += credits[at]
        if reached > before and has_passed and not spans:
            return before, at
        if reached > most:
            return most, at
        before = reached
        kind = kinds[at]
        places[at] = start + reached
        references[at] = outer if kind == 0 else 0
        has_passed = has_passed or kind >= 0
        if kind == 0:
            outer += 1
        elif kind >= SIGNAL:
            references[at] = rows[depth + kind - SIGNAL]
            rows[depth + kind - SIGNAL] += 1
        elif kind > 1 and kind & 1 == 0:
            references[at] = rows[kind >> 1]
            rows[kind >> 1] += 1
    if trusts and (spans or not has_passed):
        return most, len(kinds)
    return before, len(kinds)


def settle(
    kinds: Any, credits: Any, first: int, last: int, current: int, items: int, marks: int, depth: int, passed: Any
) -> int:
    """Note that a receiver has consumed items and marks; its credit then.

    The credit of the mark that is next is transferred to the receiver. `passed` counts by kind what was consumed:
    regions that were closed, and signals; `passed` has, behind these, how many regions were opened at each depth.
    """
    kinds, credits = kinds[first:last], credits[first:last]
    opened = len(passed) - depth
    outer_opened, outer_closed = 0, 0
    for at in range(marks):
        current += credits[at]
        kind = kinds[at]
        outer_opened += kind == 0
        outer_closed += kind == 1
        if kind >= SIGNAL:
            passed[depth + kind - SIGNAL] += 1
        elif kind > 1:
            passed[(kind >> 1) if kind & 1 else opened + (kind >> 1)] += 1
    if depth > 0:
        passed[0] += outer_closed
        passed[opened] += outer_opened
    if marks == last - first:
        return max(current - items, 0)
    current += credits[marks] - items
    credits[marks] = 0
    return current


FUNCTIONS = (grant, arrange, settle)
