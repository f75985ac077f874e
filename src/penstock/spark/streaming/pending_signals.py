"""Signals that were placed before a stream began, by index or by the value of a field: found as the items come."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ControlError
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.signal_indices import IndexSearch, fields_of, values_of
from penstock.graph.tree import At
from penstock.spark.streaming.checkpoint import Checkpoint

NAMED = "at-"
"""How the names of these signals begin, among those of the signals that were sent."""


@dataclass(frozen=True)
class Planned:
    """Signals to be placed, each with a name that stays the same when the stream is started again."""

    signals: tuple[tuple[str, At], ...]
    source: n.Source

    @property
    def fields(self) -> tuple[str, ...]:
        return fields_of([given for _, given in self.signals])


def name_signals(control: Sequence[At], source: n.Source) -> Planned:
    """Name each signal by what it is and where it stands."""
    names: list[str] = []
    for given in control:
        said = repr((given.index, given.field, given.value, type(given.signal).__name__, given.signal.as_tuple()))
        name = f"{NAMED}{hashlib.sha256(said.encode()).hexdigest()[:16]}"
        names.append(f"{name}-{sum(each.startswith(name) for each in names)}")
    for field in fields_of(control):
        values_of(control, field, source)  # refuses what cannot be looked for
    return Planned(tuple(zip(names, control, strict=True)), source)


def refuse_passed(plan: Planned, checkpoint: Checkpoint, items: int) -> None:
    """Refuse a signal whose item has passed before it was ever placed."""
    for name, given in plan.signals:
        if given.field is None and given.index < items and checkpoint.placed(name) is None:
            raise ControlError(
                f"control: a signal must stand before an item that is still to come; {given.signal!r} is to stand "
                f"before item {given.index}, and {items} have been taken; send it, or place it behind these"
            )


class Pending:
    """The signals of a plan that no micro-batch before this one has placed. It sees all items of this one, in order."""

    def __init__(self, plan: Planned, checkpoint: Checkpoint, batch: int, first: int) -> None:
        self.plan, self.checkpoint, self.batch, self.index = plan, checkpoint, batch, first
        self.left = [(name, given) for name, given in plan.signals if self._is_pending(name)]
        self.looks = {}
        for field in fields_of([given for _, given in self.left]):
            wanted = [given for _, given in self.left if given.field == field]
            self.looks[field] = IndexSearch(field, values_of(wanted, field, plan.source), plan.source.label)

    @property
    def fields(self) -> Sequence[str]:
        return self.plan.fields

    def _is_pending(self, name: str) -> bool:
        place = self.checkpoint.placed(name)
        return place is None or place.batch >= self.batch

    def among(self, rows: pa.RecordBatch) -> list[tuple[int, Signal]]:
        """The signals that stand among the next items: each before the one at an offset."""
        found: list[tuple[int, Signal]] = []
        before = {field: self._reached(look, rows) for field, look in self.looks.items()}
        for name, given in list(self.left):
            offset = given.index - self.index if given.field is None else before[given.field].pop(0)
            if offset is not None and 0 <= offset < rows.num_rows:
                self.checkpoint.note_placed(name, self.batch, self.index + offset)
                found.append((offset, given.signal))
                self.left.remove((name, given))
        self.index += rows.num_rows
        for field in self.looks:
            wanted = [given for _, given in self.left if given.field == field]
            self.looks[field].values = values_of(wanted, field, self.plan.source)
            self.looks[field].before = [None] * len(wanted)
        return sorted(found, key=lambda each: each[0])

    def _reached(self, look: IndexSearch, rows: pa.RecordBatch) -> list[int | None]:
        """For each value that is looked for, how many of these items lie before the first that has reached it."""
        count = look.count
        look.add(rows)
        return [None if found is None else found - count for found in look.before]
