"""What keyed states, joins and merges mean, over plain lists: an oracle that shares nothing with the library.

There is no graph here and nothing of Penstock. A stream is the list of its rows, worked out step by step. A row knows
its index, the source item that it came of, its fields, and the value of its key. A column knows the step that computed
it (`made`), whatever it is called now, so that two streams have one key if they are grouped by the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Values = dict[str, Any]


class Refused(Exception):
    """The library must refuse this."""


@dataclass(frozen=True)
class Row:
    index: int
    """What rows of several streams are joined by."""
    source: int
    """Which item of the source it came of: where signals stand among rows."""
    fields: Values
    key: dict[int, Any]
    """The value of each column that the stream is grouped by."""


@dataclass(frozen=True)
class Plain:
    """A stream."""

    rows: list[Row]
    made: dict[str, int]
    """For every field the number of the step that computed it."""
    grouping: dict[str, int] | None = None
    """The columns that the key is made of, under their names when it was given."""
    keyed_at: int = 0
    """Which step gave the key: a key_by, or a meet of several."""
    is_unclear: bool = False
    """Whether streams of several keys have met, so that a state has no one key."""
    may_be_refused: bool = False
    """Whether streams of one key have met of which not all still have its fields."""
    has_all: bool = True
    """Whether nothing was dropped since rows got their indices."""
    numbered_at: int = 0
    """Which step gave the rows their indices: only rows that were numbered together can be joined."""

    def items(self) -> list[Values]:
        return [row.fields for row in self.rows]


@dataclass
class Record:
    """The state of a key: how many items it had, and the sum of a field."""

    n: int = 0
    total: int = 0


@dataclass
class Model:
    """Runs steps on plain streams, with signals that set every total before the item of an index."""

    signals: Sequence[tuple[int, int]] = ()
    steps: int = field(default=0, init=False)

    def _number(self) -> int:
        self.steps += 1
        return self.steps

    def source(self, items: Iterable[Values]) -> Plain:
        rows = [Row(at, at, dict(item), {}) for at, item in enumerate(items)]
        names = rows[0].fields if rows else {}
        return Plain(rows, {name: self._number() for name in names}, numbered_at=self._number())

    # Steps without a state

    def map(self, given: Plain, name: str, function: Callable[[Values], Any]) -> Plain:
        rows = [replace(row, fields=row.fields | {name: function(row.fields)}) for row in given.rows]
        return replace(given, rows=rows, made=given.made | {name: self._number()})

    def filter(self, given: Plain, function: Callable[[Values], bool]) -> Plain:
        return replace(given, rows=[row for row in given.rows if function(row.fields)], has_all=False)

    def select(self, given: Plain, names: Mapping[str, str]) -> Plain:
        rows = [replace(row, fields={new: row.fields[old] for new, old in names.items()}) for row in given.rows]
        return replace(given, rows=rows, made={new: given.made[old] for new, old in names.items()})

    def key_by(self, given: Plain, names: Sequence[str]) -> Plain:
        grouping = {name: given.made[name] for name in names}
        rows = [replace(row, key={made: row.fields[name] for name, made in grouping.items()}) for row in given.rows]
        clear = replace(given, is_unclear=False, may_be_refused=False)
        return replace(clear, rows=rows, grouping=grouping, keyed_at=self._number())

    # States: one for each key, or one for all rows of a stream without a key

    def _states(self, given: Plain, take: Callable[[Record, Row], None]) -> None:
        """Go through the rows and the signals, first to last. A signal is seen by keys that are yet to come, too."""
        if given.is_unclear:
            raise Refused
        records: dict[tuple[Any, ...], Record] = {}
        signals = list(self.signals)
        last = 0
        for row in given.rows:
            while signals and signals[0][0] <= row.source:
                last = signals.pop(0)[1]
                for record in records.values():
                    record.total = last
            key = tuple(value for _, value in sorted(row.key.items()))
            take(records.setdefault(key, Record(total=last)), row)

    def count(self, given: Plain, name: str, of: str) -> Plain:
        """A field: how many items the key has had, and a running total."""
        rows: list[Row] = []

        def take(record: Record, row: Row) -> None:
            record.n += 1
            record.total += row.fields[of]
            rows.append(replace(row, fields=row.fields | {name: 1000 * record.n + record.total}))

        self._states(given, take)
        return replace(given, rows=rows, made=given.made | {name: self._number()})

    def every_other(self, given: Plain, of: str) -> Plain:
        """The rows with which the key's count and total are odd together."""
        rows: list[Row] = []

        def take(record: Record, row: Row) -> None:
            record.n += 1
            record.total += row.fields[of]
            if (record.n + record.total) % 2 == 1:
                rows.append(row)

        self._states(given, take)
        return replace(given, rows=rows, has_all=False)

    def aggregate(self, given: Plain, of: str) -> list[Values]:
        """One row for each key, in the order of their first items."""
        if given.is_unclear or given.grouping is None:
            raise Refused
        found: dict[tuple[Any, ...], Values] = {}
        for row in given.rows:
            key = {name: row.key[made] for name, made in given.grouping.items()}
            values = found.setdefault(tuple(key.values()), key | {"rows": 0, "sum": 0})
            values["rows"] += 1
            values["sum"] += row.fields[of]
        return list(found.values())

    # Where streams meet

    def join(self, sides: Sequence[Plain], *, is_outer: bool, fill: int) -> Plain:
        by_index = [{row.index: row for row in side.rows} for side in sides]
        indices = sorted(set().union(*by_index) if is_outer else set(by_index[0]).intersection(*by_index[1:]))
        names = [name for side in sides for name in side.made]
        rows = []
        for index in indices:
            here = [rows[index] for rows in by_index if index in rows]
            fields = dict.fromkeys(names, fill)
            for row in reversed(here):
                fields |= row.fields
            rows.append(Row(index, here[0].source, fields, here[0].key))
        made = {name: self._column(name, sides, is_outer) for name in names}
        return self._keyed(sides, Plain(rows, made, has_all=False, numbered_at=sides[0].numbered_at))

    def _column(self, name: str, sides: Sequence[Plain], is_outer: bool) -> int:
        """A field is that of its side, unless it is filled in where all sides that have it drop rows."""
        having = [side for side in sides if name in side.made]
        is_filled = is_outer and len(having) < len(sides) and not any(side.has_all for side in having)
        return self._number() if is_filled else having[0].made[name]

    def merge(self, sides: Sequence[Plain]) -> Plain:
        every = [(row.index, at, row) for at, side in enumerate(sides) for row in side.rows]
        every.sort(key=lambda each: each[:2])
        rows = [replace(row, index=number) for number, (_, _, row) in enumerate(every)]
        columns = {name: {side.made[name] for side in sides} for name in sides[0].made}
        made = {name: ids.pop() if len(ids) == 1 else self._number() for name, ids in columns.items()}
        return self._keyed(sides, Plain(rows, made, numbered_at=self._number()))

    def _keyed(self, sides: Sequence[Plain], met: Plain) -> Plain:
        """The key of what has met: the one key of all sides, or none if no side has one. All else is unclear."""
        first = sides[0]
        groupings = [None if side.grouping is None else set(side.grouping.values()) for side in sides]
        if any(side.is_unclear for side in sides) or any(each != groupings[0] for each in groupings):
            return replace(met, is_unclear=True)
        if first.grouping is None:
            return met
        is_one = len({side.keyed_at for side in sides}) == 1
        has_fields = all(side.made.get(name) == made for side in sides for name, made in first.grouping.items())
        refused = any(side.may_be_refused for side in sides) or not (is_one or has_fields)
        keyed_at = first.keyed_at if is_one else self._number()
        return replace(met, grouping=first.grouping, keyed_at=keyed_at, may_be_refused=refused)
