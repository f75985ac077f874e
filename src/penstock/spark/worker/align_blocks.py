"""Streams that meet as blocks: items of several stages, brought together by their places in the source.

On each side places go up, and none is there twice. So of every side some items are at hand, and whatever lies before
the least of their ends can be brought together and handed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.intake import Arrival
from penstock.plan.stages import StageMeeting


def align_sides(meeting: StageMeeting, sides: Sequence[Iterator[Arrival]]) -> Iterator[Arrival]:
    """What comes of several streams, each in the order of its places, where they meet."""
    heads = [next(side, None) for side in sides]
    while True:
        ends = [_places(head)[-1] for head in heads if head is not None]
        if not ends:
            return
        bound = min(ends)
        parts = []
        for at, head in enumerate(heads):
            part, rest = _part(head, int(bound))
            parts.append(part)
            heads[at] = next(sides[at], None) if rest is None else rest
        made = _merge(meeting, parts) if meeting.is_merge else _join(meeting, parts)
        if made.rows.num_rows:
            yield made


def _places(given: Arrival) -> np.ndarray:
    assert given.places is not None
    return given.places


def _part(head: Arrival | None, bound: int) -> tuple[Arrival | None, Arrival | None]:
    """What stands at a place or before it, and what stands behind."""
    if head is None:
        return None, None
    count = int(np.searchsorted(_places(head), bound, side="right"))
    return _slice(head, 0, count), _slice(head, count, len(_places(head)))


def _slice(given: Arrival, start: int, stop: int) -> Arrival | None:
    return Arrival(given.rows.slice(start, stop - start), (), _places(given)[start:stop]) if start < stop else None


def _merge(meeting: StageMeeting, parts: Sequence[Arrival | None]) -> Arrival:
    """All items in the order of their places; of one place, in the order of the sides."""
    here = [part for part in parts if part is not None]
    places = np.concatenate([_places(part) for part in here])
    order = np.argsort(places, kind="stable")
    rows = pa.concat_batches([part.rows.select(list(meeting.fields)) for part in here]).take(pa.array(order))
    return Arrival(rows, (), places[order])


def _join(meeting: StageMeeting, parts: Sequence[Arrival | None]) -> Arrival:
    """One item for each place that all sides have, or any."""
    given = [np.empty(0, np.int64) if part is None else _places(part) for part in parts]
    places = np.unique(np.concatenate(given))
    at = [np.searchsorted(each, places) for each in given]
    has = [np.isin(places, each, assume_unique=True) for each in given]
    if not meeting.is_outer:
        both = np.logical_and.reduce(has)
        places, at, has = places[both], [each[both] for each in at], [each[both] for each in has]
    columns = {name: _column(meeting, name, t, parts, at, has) for name, t in meeting.fields.items()}
    return Arrival(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), (), places)


def _column(
    meeting: StageMeeting,
    name: str,
    t: pa.DataType,
    parts: Sequence[Arrival | None],
    at: Sequence[np.ndarray],
    has: Sequence[np.ndarray],
) -> pa.Array:
    """A field: of the first side that has it and the item; where none does, what stands for it."""
    if name in meeting.present:
        return pa.array(has[meeting.present.index(name)])
    index, missing = np.zeros(len(at[0]), np.int64), np.ones(len(at[0]), bool)
    columns: list[pa.Array] = []
    start = 0
    for side, part in enumerate(parts):
        if part is None or name not in part.rows.schema.names:
            continue
        taken = missing & has[side]
        index[taken] = start + at[side][taken]
        missing &= ~taken
        columns.append(part.rows.column(name))
        start += part.rows.num_rows
    if not columns:
        return pa.array([meeting.fill[name]] * len(index), t) if name in meeting.fill else pa.nulls(len(index), t)
    found = pa.concat_arrays(columns).take(pa.array(index, mask=missing))
    return pc.fill_null(found, pa.scalar(meeting.fill[name], t)) if missing.any() else found
