"""Streams that meet: which items of the sides have one index, and which marks are the same, in one pass over all.

Each side is a run of events in the order of their places (`plan/heartbeat/clocks.py`): items, whose indices go up, and
marks. A place is dealt with once no side can have anything before it any more: that is so where the next event of a
side is known, or where its `frontier` has come so far. What several sides have (an item of one index, a mark of one
origin) is taken from all of them together; what only some have, from these.

Every function is plain Python that Numba compiles; `kernels.protocol` gives them in either form.
"""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable

from penstock.kernels.credit import CREDIT, SIGNAL

STEPS, ITEM = 4, 3
NEVER = (1 << 63) - 1
"""Behind every place."""


@register_jitable  # type: ignore[untyped-decorator]
def head(side: int, indices: Any, stops: Any, keys: Any, places: Any, last_marks: Any, at: Any, at_mark: Any) -> int:
    """The place of what a side has next; behind every place where it has nothing."""
    if at_mark[side] < last_marks[side] and places[side][at_mark[side]] <= at[side]:
        return keys[side][at_mark[side]]  # type: ignore[no-any-return]
    if at[side] < stops[side]:
        return STEPS * indices[side][at[side]] + ITEM  # type: ignore[no-any-return]
    return NEVER


@register_jitable  # type: ignore[untyped-decorator]
def is_decided(
    place: int,
    chosen: int,
    is_mark: bool,
    indices: Any,
    stops: Any,
    keys: Any,
    places: Any,
    last_marks: Any,
    frontiers: Any,
    at: Any,
    at_mark: Any,
) -> bool:
    """Whether no side can have anything that comes before what the chosen one has at a place."""
    for side in range(len(stops)):
        if head(side, indices, stops, keys, places, last_marks, at, at_mark) == NEVER:
            reached = frontiers[side]
            if reached < place or (reached == place and (side < chosen or not is_mark)):
                return False
    return True


@register_jitable  # type: ignore[untyped-decorator]
def taken_together(
    chosen: int, kinds: Any, places: Any, emitted: Any, last_marks: Any, sharing: Any, at: Any, at_mark: Any
) -> bool:
    """Whether all sides that share a mark have come to it."""
    mark = at_mark[chosen]
    kind, origin = kinds[chosen][mark], emitted[chosen][mark]
    for side in range(len(last_marks)):
        if side != chosen and (kind < SIGNAL or (sharing[origin] >> side) & 1):
            here = at_mark[side]
            if here >= last_marks[side] or places[side][here] > at[side]:
                return False
            if kinds[side][here] != kind or emitted[side][here] != origin:
                return False
    return True


@register_jitable  # type: ignore[untyped-decorator]
def pair_rows(
    a: Any,
    b: Any,
    at_a: int,
    at_b: int,
    last_a: int,
    last_b: int,
    is_merged: bool,
    is_outer: bool,
    rows: Any,
    indices: Any,
    count: int,
) -> tuple[int, int, int]:
    """Rows of two sides, up to where one of them has no item or a mark next: how far each has come, and the count.

    That is what mostly happens, and nothing has to be decided for it. In a function of its own because Numba counts the
    references to all arrays in every call.
    """
    room = len(rows)
    while at_a < last_a and at_b < last_b:
        first, second = a[at_a], b[at_b]
        takes_a = first <= second
        takes_b = second < first or (second == first and not is_merged)
        if (takes_a and takes_b) or is_outer or is_merged:
            if count == room:
                break
            rows[count, 0] = at_a if takes_a else -1
            rows[count, 1] = at_b if takes_b else -1
            indices[count] = first if takes_a else second
            count += 1
        at_a += takes_a
        at_b += takes_b
    return at_a, at_b, count


@register_jitable  # type: ignore[untyped-decorator]
def next_stop(side: int, stops: Any, places: Any, last_marks: Any, at_mark: Any) -> int:
    """How far the items of a side go before its next mark."""
    if at_mark[side] < last_marks[side]:
        return min(stops[side], places[side][at_mark[side]])  # type: ignore[no-any-return]
    return stops[side]  # type: ignore[no-any-return]


def align(
    indices: Any,
    stops: Any,
    kinds: Any,
    keys: Any,
    places: Any,
    emitted: Any,
    last_marks: Any,
    frontiers: Any,
    sharing: Any,
    is_merged: bool,
    is_outer: bool,
    rows: Any,
    aligned: Any,
    marks: Any,
    at: Any,
    at_mark: Any,
) -> tuple[int, int]:
    """How many rows and marks come of what the sides have; `at` and `at_mark` go on to what each side is then at.

    For each side there are the indices of its items, up to a stop, and the kinds, keys, places and origins of its
    marks; `sharing[origin]` are the sides, as bits, that a signal of an origin comes from. A row says where each side
    has its item, or -1, and `aligned` its index; a mark says from which side it is taken, where it lies there, and
    behind how many rows it stands. There is room for as many as `rows` and `marks` hold.
    """
    sides = len(stops)
    count, marked = 0, 0
    while True:
        if sides == 2:
            last_a = next_stop(0, stops, places, last_marks, at_mark)
            last_b = next_stop(1, stops, places, last_marks, at_mark)
            if at[0] < last_a and at[1] < last_b:
                at[0], at[1], count = pair_rows(
                    indices[0], indices[1], at[0], at[1], last_a, last_b, is_merged, is_outer, rows, aligned, count
                )
        best, chosen, is_mark = NEVER, -1, False
        for side in range(sides):
            while (
                at_mark[side] < last_marks[side]
                and places[side][at_mark[side]] <= at[side]
                and kinds[side][at_mark[side]] == CREDIT
            ):
                at_mark[side] += 1
            place = head(side, indices, stops, keys, places, last_marks, at, at_mark)
            marks_here = at_mark[side] < last_marks[side] and places[side][at_mark[side]] <= at[side]
            if place < best or (
                place == best
                and chosen >= 0
                and is_mark
                and not taken_together(chosen, kinds, places, emitted, last_marks, sharing, at, at_mark)
            ):
                best, chosen, is_mark = place, side, marks_here
        if chosen < 0 or not is_decided(
            best, chosen, is_mark, indices, stops, keys, places, last_marks, frontiers, at, at_mark
        ):
            return count, marked
        if is_mark:
            if marked == len(marks):
                return count, marked
            mark = at_mark[chosen]
            if not taken_together(chosen, kinds, places, emitted, last_marks, sharing, at, at_mark):
                return count, marked
            marks[marked, 0], marks[marked, 1], marks[marked, 2] = chosen, mark, count
            marked += 1
            kind, origin = kinds[chosen][mark], emitted[chosen][mark]
            for side in range(sides):
                if side == chosen or kind < SIGNAL or (sharing[origin] >> side) & 1:
                    at_mark[side] += 1
            continue
        index = indices[chosen][at[chosen]]
        present = 0
        for side in range(sides):
            rows_here = at[side] < stops[side] and indices[side][at[side]] == index
            ahead = at_mark[side] < last_marks[side] and places[side][at_mark[side]] <= at[side]
            if rows_here and not ahead and (not is_merged or side == chosen):
                present += 1
        if is_outer or present == sides or is_merged:
            if count == len(rows):
                return count, marked
            for side in range(sides):
                rows[count, side] = -1
            aligned[count] = index
        for side in range(sides):
            rows_here = at[side] < stops[side] and indices[side][at[side]] == index
            ahead = at_mark[side] < last_marks[side] and places[side][at_mark[side]] <= at[side]
            if rows_here and not ahead and (not is_merged or side == chosen):
                if is_outer or present == sides or is_merged:
                    rows[count, side] = at[side]
                at[side] += 1
        if is_outer or present == sides or is_merged:
            count += 1


FUNCTIONS = (align,)
