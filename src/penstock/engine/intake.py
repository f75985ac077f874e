"""From the source into ensembles: nulls dropped, filled or refused, signals from outside put at their places."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codegen.outlets import is_contiguous
from penstock.engine.ensemble import Columns, Ensemble, Table, place_signals
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.arrow import beyond_int64, beyond_rows, null_rows
from penstock.graph.letters import Letter, fault_text, letter
from penstock.graph.record import Signal
from penstock.graph.source import beyond_error, fill_plain, from_plain, null_error, to_plain
from penstock.graph.split import BAD
from penstock.graph.tree import At, never_reached
from penstock.plan.heartbeat.clocks import BEFORE, STEPS


@dataclass(frozen=True)
class Skipped:
    """Where items are noted that fail before they reach a loop. `number` is that of each node."""

    letters: list[Letter]
    number: Mapping[n.GraphNode, int]

    def note(self, index: int, node: n.GraphNode, message: str, fields: Mapping[str, Any]) -> None:
        number = node.__dict__.get("numbered", self.number[node])
        self.letters.append(letter(index, number, node, None, message, fields))


@dataclass(frozen=True)
class Batch:
    """A batch of the source: where it begins, the signals placed in it, and whether it is the first or the last."""

    rows: pa.RecordBatch
    base: int
    control: tuple[At, ...]
    is_first: bool
    is_last: bool
    places: np.ndarray | None = None
    end: int = 0
    """Where items have places: one behind those of all so far, and not behind any that follows."""
    bad: np.ndarray | None = None
    """Which of the rows are records that were malformed, and are skipped."""


@dataclass(frozen=True)
class Arrival:
    """Some items of a stream, the signals among them (each before the item at an offset), and the items' places.

    Where items have places, neither these nor those that follow stand before `start`.
    """

    rows: pa.RecordBatch
    signals: tuple[tuple[int, Signal], ...] = ()
    places: np.ndarray | None = None
    start: int = 0


def arriving(source: n.Source, arrivals: Iterable[Arrival], base: int = 0, *, is_open: bool = False) -> Iterator[Batch]:
    """What arrives as batches that are numbered from `base`; one empty batch where nothing does.

    With `is_open` the stream does not end with the last of them: more may come another time.
    """
    waiting, is_first, end = None, True, 0
    for arrival in arrivals:
        if waiting is not None:
            yield _numbered(waiting, base, end, is_first, is_last=False)
            base, is_first = base + waiting.rows.num_rows, False
        waiting, end = arrival, _end(arrival, end)
    last = waiting or Arrival(no_items(source), (), np.empty(0, np.int64))
    yield _numbered(last, base, end, is_first, is_last=not is_open)


def no_items(source: n.Source) -> pa.RecordBatch:
    """A batch of a source without rows."""
    fields = source.items.fields
    return pa.RecordBatch.from_arrays([pa.array([], t) for t in fields.values()], names=list(fields))


def _end(arrival: Arrival, before: int) -> int:
    """A place behind all that has arrived; `before` is one behind all that came before."""
    has_places = arrival.places is not None and len(arrival.places) > 0
    return int(arrival.places[-1]) + 1 if has_places else max(before, arrival.start)  # type: ignore[index]


def _numbered(arrival: Arrival, base: int, end: int, is_first: bool, *, is_last: bool) -> Batch:
    control = tuple(At(base + offset, signal) for offset, signal in arrival.signals)
    return Batch(arrival.rows, base, control, is_first, is_last, arrival.places, end)


def batches(
    source: n.Source, control: Sequence[At], at_most: int, columns: Collection[str], *, is_tolerant: bool = False
) -> Iterator[Batch]:
    """The batches of a source with their signals; one empty batch where there are no items.

    With `is_tolerant`, records that are malformed are rows that tell so.
    """
    read = source.items.tolerant_batches if is_tolerant else source.items.batches
    left = list(control)
    last = None
    for batch in arriving(source, (Arrival(rows) for rows in read(at_most, columns))):
        if batch.is_last:
            last = batch
        else:
            yield replace(batch, control=_taken(left, batch.base + batch.rows.num_rows))
    assert last is not None
    taken = _taken(left, last.base + last.rows.num_rows + 1)
    # A signal whose place is never reached is an error, but only once everything before it has been read.
    yield replace(last, control=(*taken, *left), is_last=not left)


def _taken(left: list[At], before: int) -> tuple[At, ...]:
    taken = tuple(given for given in left if given.index < before)
    del left[: len(taken)]
    return taken


@dataclass(frozen=True)
class Portion:
    """A batch as it enters the graph: columns, and the marks of signals among the rows."""

    table: Table
    count: int
    kinds: np.ndarray
    places: np.ndarray
    references: np.ndarray
    is_last: bool


def portion_of(
    entry: n.GraphNode,
    batch: Batch,
    signals: Sequence[type[Signal]],
    needed: Collection[str],
    skipped: Skipped | None = None,
) -> Portion:
    """A batch as it enters the graph behind a source, or behind what cleans it. `needed` are its used columns.

    With `skipped` an item that fails here is left out, and noted there.
    """
    rows, dropped = batch.rows, batch.bad
    for node in _cleaning(entry):
        if isinstance(node, n.FillNull):
            rows = _filled(rows, node)
        else:
            here = _nulls(rows, node.names)
            dropped = here if dropped is None else dropped | here
    index = np.array([batch.base])
    if skipped is not None or not is_contiguous(entry):
        index = np.arange(batch.base, batch.base + rows.num_rows + 1)
        if batch.places is not None:
            index = np.append(batch.places, batch.end)
    reached = [given for given in batch.control if given.index <= batch.base + batch.rows.num_rows]
    places = [given.index - batch.base for given in reached]
    before = [int(index[at] if len(index) > 1 else index[0] + at) for at in places]
    if skipped is not None:
        failed = _failed(entry, rows, index, needed, dropped, skipped)
        dropped = failed if dropped is None else dropped | failed
    if dropped is not None and dropped.any():
        index, rows = index[np.append(~dropped, True)], rows.filter(pa.array(~dropped))
        kept = np.concatenate(([0], np.cumsum(~dropped)))
        places = [int(kept[place]) for place in places]
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    if skipped is None:
        _refuse(entry.source, columns, lambda row: int(index[row] if len(index) > 1 else index[0] + row), needed)
    kinds, at, references, records = place_signals(
        list(zip(places, (given.signal for given in reached), strict=True)), signals
    )
    table = Table(columns, [], records, index, _mark_places(before))
    return Portion(table, rows.num_rows, kinds, at, references, batch.is_last)


def _mark_places(indices: Sequence[int]) -> list[np.ndarray]:
    """Where signals that come with the source stand, by its clock; no node has emitted them."""
    return [STEPS * np.array(indices, np.int64) + BEFORE, np.zeros(len(indices), np.int64)]


class Feeder:
    """Hands the batches of the source to all readers, each batch when they are all through with the one before.

    With `is_open`, batches may run out before the last: the stream pauses there.
    """

    def __init__(
        self,
        batches: Iterator[Batch],
        signals: Sequence[type[Signal]],
        *,
        is_open: bool = False,
        skipped: Skipped | None = None,
        has_enough: Callable[[], bool] | None = None,
    ) -> None:
        """`has_enough` says, before a batch is read, whether the stream may as well end with the one before."""
        self.skipped, self.has_enough = skipped, has_enough
        self.batches, self.signals, self.is_open = batches, signals, is_open
        self.is_paused = False
        self.batch: Batch | None = None
        self.readers: list[Reader] = []

    def advance(self) -> None:
        """Go on to the next batch, if all readers are through and there is one."""
        while not self.is_paused and not (self.batch is not None and self.batch.is_last):
            for reader in self.readers:
                if not reader.is_through:
                    return
            before = self.batch
            if before is not None and self.has_enough is not None and self.has_enough():
                self.batch = _end_behind(before)
            else:
                self.batch = next(self.batches, None)
            if self.batch is None and self.is_open:
                self.is_paused = True
                return
            if self.batch is None:
                assert before is not None
                raise never_reached(before.control[-1], before.base + before.rows.num_rows)
            if self.skipped is not None and BAD in self.batch.rows.schema.names:
                self.batch = _without_bad(self.batch, self.readers[0].edge.source, self.skipped)
            portions: dict[n.GraphNode, Portion] = {}
            for reader in self.readers:
                if reader.edge not in portions:
                    given = (reader.edge, self.batch, self.signals, reader.needed, self.skipped)
                    portions[reader.edge] = portion_of(*given)
                reader.give(portions[reader.edge])


def _end_behind(batch: Batch) -> Batch:
    """The end of a stream of which no more than this batch is read."""
    places = None if batch.places is None else batch.places[:0]
    base, rows = batch.base + batch.rows.num_rows, batch.rows.slice(0, 0)
    return Batch(rows, base, (), is_first=False, is_last=True, places=places, end=batch.end)


class Reader:
    """What a node that reads the source takes its ensembles from: as a channel, but with nothing to wait for.

    Without `spans`, no item behind a signal is taken together with one before it.
    """

    def __init__(self, feeder: Feeder, edge: n.GraphNode, needed: Collection[str], *, spans: bool = True) -> None:
        self.feeder, self.edge, self.needed, self.spans = feeder, edge, needed, spans
        feeder.readers.append(self)
        self.portion: Portion | None = None
        self.row = self.mark = self.consumed_marks = 0

    def give(self, portion: Portion) -> None:
        self.portion, self.row, self.mark = portion, 0, 0

    @property
    def is_through(self) -> bool:
        """Whether all of the batch has been consumed."""
        return self.portion is None or (self.row == self.portion.count and self.mark == len(self.portion.kinds))

    @property
    def queued(self) -> int:
        return 0 if self.portion is None else self.portion.count - self.row

    @property
    def is_ended(self) -> bool:
        return self.portion is not None and self.portion.is_last

    @property
    def has_marks(self) -> bool:
        return self.portion is not None and self.mark < len(self.portion.kinds)

    @property
    def is_full(self) -> bool:
        """Whether nothing more can come before something is consumed: the rest of a batch waits for no other."""
        return not self.is_through

    def ready(self) -> int:
        """How many items could be taken in one ensemble, were it wide enough."""
        if self.portion is None:
            return 0
        if self.spans or not self.has_marks:
            return self.portion.count - self.row
        return int(self.portion.places[self.mark]) - self.row

    def take(self, most: int) -> Ensemble:
        """The next ensemble, of at most `most` items."""
        assert self.portion is not None
        places = self.portion.places
        stop = self.row + min(most, self.ready())
        last = int(np.searchsorted(places, stop, side="right")) if len(places) else 0
        is_last = self.portion.is_last and stop == self.portion.count and last == len(places)
        return Ensemble(
            self.portion.table,
            self.row,
            stop,
            self.mark,
            last,
            self.portion.kinds,
            places,
            self.portion.references,
            _NO_PARENTS,
            is_last,
        )

    def consume(self, items: int, marks: int) -> int:
        """Go on behind items and marks; how many marks."""
        self.row += items
        self.mark += marks
        self.consumed_marks += marks
        return marks

    def check(self) -> None:
        """Nothing to check: there is no credit here."""

    def reached(self, clock: str) -> int:
        """How far the source has come by its own clock: all that stands before this place was consumed."""
        if self.portion is None:
            return 0
        index = self.portion.table.index
        at = int(index[0]) + self.row if len(index) == 1 and self.portion.count != 0 else int(index[self.row])
        return STEPS * at + BEFORE


_NO_PARENTS = np.empty(0, np.int64)


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
        column = columns.get(name)  # a column that nobody uses need not be there
        if column is None or null_rows(column) is None:
            continue
        if types.is_list(column.type) or types.is_array(column.type):
            plain = [fill_plain(row, value, column.type) for row in to_plain(column)]
            columns[name] = from_plain(plain, column.type)
        else:
            columns[name] = pc.fill_null(column, pa.scalar(value, column.type))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _refuse(source: n.Source, columns: Columns, index: Callable[[int], int], needed: Collection[str]) -> None:
    """Raise for the first item with a null, or with an unsigned integer that no signed one holds."""
    found, columns = [], {name: column for name, column in columns.items() if name in needed}
    for at, (name, column) in enumerate(columns.items()):
        here = null_rows(column)
        if here is not None:
            row = int(np.argmax(here))
            found.append((row, at, name, bool(column[row].is_valid)))
    if found:
        row, _, name, is_element = min(found)
        raise null_error(source.label, name, index(row), is_element).about(index(row))
    for name, column in columns.items():
        beyond = beyond_int64(column)
        if beyond is not None:
            raise beyond_error(source.label, name, index(beyond)).about(index(beyond))


def _without_bad(batch: Batch, source: n.Source, skipped: Skipped) -> Batch:
    """A batch whose malformed records are marked, after a letter was written for each."""
    told = batch.rows.column(BAD)
    rows = batch.rows.drop_columns([BAD])
    if told.null_count == len(told):
        return replace(batch, rows=rows)
    bad = told.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(bad).tolist():
        message, file, position, record = json.loads(told[row].as_py())
        index = batch.base + row if batch.places is None else int(batch.places[row])
        number = source.__dict__.get("numbered", skipped.number[source])
        made = letter(index, number, source, None, message, {"record": record})
        skipped.letters.append(replace(made, file=file, position=position))
    return replace(batch, rows=rows, bad=bad)


def _failed(
    entry: n.GraphNode,
    rows: pa.RecordBatch,
    index: np.ndarray,
    needed: Collection[str],
    dropped: np.ndarray | None,
    skipped: Skipped,
) -> np.ndarray:
    """Which items have a null, or an unsigned integer that no signed one holds; a letter is written for each."""
    used = [name for name in rows.schema.names if name in needed]
    found: dict[int, tuple[str, str]] = {}
    for kind in ("null", "beyond"):  # nulls come first, and the first field that has one
        for name in used:
            column = rows.column(name)
            here = null_rows(column) if kind == "null" else beyond_rows(column)
            for row in () if here is None else np.flatnonzero(here).tolist():
                is_element = kind == "null" and column[row].is_valid
                found.setdefault(row, ("null_element" if is_element else kind, name))
    failed = np.zeros(rows.num_rows, bool)
    for row, (kind, name) in sorted(found.items()):
        if dropped is None or not dropped[row]:
            failed[row] = True
            fields = {each: to_plain(rows.column(each).slice(row, 1))[0] for each in used}
            skipped.note(int(index[row]), entry, fault_text(kind, entry, name), fields)
    return failed
