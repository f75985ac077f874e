"""From the source into ensembles: nulls dropped, filled or refused, signals from outside put at their places."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.ensemble import Ensemble, place_signals
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.arrow import beyond_int64, null_rows
from penstock.graph.record import Signal
from penstock.graph.source import beyond_error, fill_plain, from_plain, null_error, to_plain
from penstock.graph.tree import At


@dataclass(frozen=True)
class Batch:
    """A batch of the source: where it begins, the signals placed in it, and whether it is the first or the last."""

    rows: pa.RecordBatch
    base: int
    control: tuple[At, ...]
    is_first: bool
    is_last: bool


def batches(source: n.Source, control: Sequence[At], at_most: int) -> Iterator[Batch]:
    """The batches of a source with their signals; one empty batch where there are no items."""
    fields = source.items.fields
    nothing = pa.RecordBatch.from_arrays([pa.array([], t) for t in fields.values()], names=list(fields))
    waiting, left, base, is_first = None, list(control), 0, True
    for rows in source.items.batches(at_most):
        if waiting is not None:
            yield Batch(waiting, base, _taken(left, base + waiting.num_rows), is_first, is_last=False)
            base, is_first = base + waiting.num_rows, False
        waiting = rows
    waiting = nothing if waiting is None else waiting
    taken = _taken(left, base + waiting.num_rows + 1)
    # A signal whose place is never reached is an error, but only once everything before it has been read.
    yield Batch(waiting, base, (*taken, *left), is_first, is_last=not left)


def _taken(left: list[At], before: int) -> tuple[At, ...]:
    taken = tuple(given for given in left if given.index < before)
    del left[: len(taken)]
    return taken


def ensemble_of(entry: n.GraphNode, batch: Batch, signals: Sequence[type[Signal]], needed: Collection[str]) -> Ensemble:
    """A batch as it enters the graph behind a source, or behind what cleans it. `needed` are its used columns."""
    rows, dropped = batch.rows, None
    for node in _cleaning(entry):
        if isinstance(node, n.FillNull):
            rows = _filled(rows, node)
        else:
            here = _nulls(rows, node.names)
            dropped = here if dropped is None else dropped | here
    ensemble = _kept(rows, batch.base, dropped)
    _refuse(entry.source, ensemble, needed)
    ensemble.is_first, ensemble.is_last = batch.is_first, batch.is_last
    reached = [given for given in batch.control if given.index <= batch.base + batch.rows.num_rows]
    places = [given.index - batch.base for given in reached]
    if dropped is not None:
        before = np.concatenate(([0], np.cumsum(~dropped)))
        places = [int(before[place]) for place in places]
    place_signals(ensemble, list(zip(places, (given.signal for given in reached), strict=True)), signals)
    return ensemble


def _kept(rows: pa.RecordBatch, base: int, dropped: np.ndarray | None) -> Ensemble:
    index = None
    if dropped is not None and dropped.any():
        index = np.arange(base, base + rows.num_rows + 1)[np.append(~dropped, True)]
        rows = rows.filter(pa.array(~dropped))
    return Ensemble(rows.num_rows, dict(zip(rows.schema.names, rows.columns, strict=True)), base, index)


def _cleaning(entry: n.GraphNode) -> list[n.DropNulls | n.FillNull]:
    found: list[n.DropNulls | n.FillNull] = []
    while isinstance(entry, (n.DropNulls, n.FillNull)):
        found.append(entry)
        entry = entry.before
    return found[::-1]


def _nulls(rows: pa.RecordBatch, names: Sequence[str]) -> np.ndarray:
    found = np.zeros(rows.num_rows, bool)
    for name in names:
        here = null_rows(rows.column(name))
        if here is not None:
            found |= here
    return found


def _filled(rows: pa.RecordBatch, node: n.FillNull) -> pa.RecordBatch:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name, value in node.values.items():
        column = columns[name]
        if null_rows(column) is None:
            continue
        if types.is_list(column.type) or types.is_array(column.type):
            plain = [fill_plain(row, value, column.type) for row in to_plain(column)]
            columns[name] = from_plain(plain, column.type)
        else:
            columns[name] = pc.fill_null(column, pa.scalar(value, column.type))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _refuse(source: n.Source, ensemble: Ensemble, needed: Collection[str]) -> None:
    """Raise for the first item with a null, or with an unsigned integer that no signed one holds."""
    found, columns = [], {name: column for name, column in ensemble.columns.items() if name in needed}
    for at, (name, column) in enumerate(columns.items()):
        here = null_rows(column)
        if here is not None:
            row = int(np.argmax(here))
            found.append((row, at, name, bool(column[row].is_valid)))
    if found:
        row, _, name, is_element = min(found)
        raise null_error(source.label, name, ensemble.index_at(row), is_element)
    for name, column in columns.items():
        beyond = beyond_int64(column)
        if beyond is not None:
            raise beyond_error(source.label, name, ensemble.index_at(beyond))
