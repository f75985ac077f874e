"""A split: a piece of a source that is read by itself, here or in another process."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from penstock.errors import InternalError, quoted
from penstock.graph.hidden import HiddenField

SMALL_ROWS, SMALL_BYTES = 4096, 256 << 10
"""Batches of fewer rows and bytes, such as those of small files, are put together."""


BAD = HiddenField.of("bad")
"""The column that a reader adds where it is asked for it: null, or what is wrong with a record (`bad_record`)."""


class Split(ABC):
    """Some items of a source, one after the other. Small, immutable and picklable: it holds no open file."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What is read, for messages: `part-0.parquet, row groups 3 to 5`."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """About how much is read."""

    @property
    def rows(self) -> int | None:
        """How many items it gives, where that is known without reading."""
        return None

    @property
    def tells_bad(self) -> bool:
        """Whether `read` takes the column `BAD`: then a record that is malformed is a row of nulls that tells so."""
        return False

    @property
    def skipped_before(self) -> int:
        """How many items were left out between the split before and this one; see `Items.splits`."""
        return 0

    @abstractmethod
    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        """The items, in order, as batches of flat columns of at most so many rows, none of them empty.

        Gives those columns only (None: all), but at least one. Reads ahead little: memory is bounded whatever the size
        of a file.
        """


class NoItems(Split):
    """A split with nothing in it, for a source that has none: some nodes have something to say even then."""

    label, bytes, rows = "no items", 0, 0

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        return iter(())


AnySplit = TypeVar("AnySplit", bound=Split)


@dataclass(frozen=True, slots=True)
class Bound:
    """What must hold of a field: that it is `<`, `<=`, `>`, `>=` or `==` to a number (of a time: in its unit)."""

    field: str
    relation: str
    value: int | float

    def refuses(self, low: int | float, high: int | float) -> bool:
        """Whether no value from `low` to `high` is within this bound."""
        outside = {
            "<": low >= self.value,
            "<=": low > self.value,
            ">": high <= self.value,
            ">=": high < self.value,
            "==": high < self.value or low > self.value,
        }
        return outside[self.relation]


@dataclass(frozen=True, slots=True)
class Joined(Split):
    """Several splits as one.

    Invariant: there is at least one part, or `skipped_before` counts what was left out at the end of the source.
    """

    parts: tuple[Split, ...]
    skipped: int = 0

    @property
    def label(self) -> str:
        if len(self.parts) < 2:
            return self.parts[0].label if self.parts else "nothing"
        return f"{self.parts[0].label} to {self.parts[-1].label} ({len(self.parts)} pieces)"

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def rows(self) -> int | None:
        counts = [part.rows for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def skipped_before(self) -> int:
        return self.skipped

    @property
    def tells_bad(self) -> bool:
        return bool(self.parts) and all(part.tells_bad for part in self.parts)

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        every = (batch for part in self.parts for batch in part.read(columns, at_most))
        return gather_batches(every, at_most)


def join_splits(parts: Iterable[Split], about_bytes: int) -> list[Split]:
    """The same items, in the same order, in splits of about so many bytes. A part is never cut."""
    return [group[0] if len(group) == 1 else Joined(tuple(group)) for group in group_by_bytes(parts, about_bytes)]


def group_by_bytes(parts: Iterable[AnySplit], about_bytes: int) -> Iterator[list[AnySplit]]:
    """Parts that follow each other, in groups of about so many bytes; a larger part is a group of its own."""
    waiting: list[AnySplit] = []
    size = 0
    for part in parts:
        if waiting and size + part.bytes > about_bytes:
            yield waiting
            waiting, size = [], 0
        waiting.append(part)
        size += part.bytes
    if waiting:
        yield waiting


def gather_batches(batches: Iterable[pa.RecordBatch], at_most: int) -> Iterator[pa.RecordBatch]:
    """The same rows with small batches put together, since each batch costs something of its own."""
    waiting: list[pa.RecordBatch] = []
    rows, room = 0, min(at_most, SMALL_ROWS)
    for batch in batches:
        is_small = batch.num_rows < room and batch.nbytes < SMALL_BYTES
        if waiting and (not is_small or rows + batch.num_rows > room):
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
        if not is_small:
            yield batch
        elif batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
    if waiting:
        yield pa.concat_batches(waiting)


def with_bad(split: Split, columns: Collection[str]) -> list[str]:
    """Columns to read, with that which tells of malformed records where the split has it."""
    return [*columns, *([BAD] if split.tells_bad else [])]


def bad_record(message: str, file: str, position: str, record: str) -> str:
    """What stands in the column `BAD` of a record that is malformed."""
    return json.dumps([message, file, position, record])


def choose_columns(fields: Mapping[str, pa.DataType], columns: Collection[str] | None) -> list[str]:
    """The names of the flat columns to give, in their order: those asked for, but at least one, a narrow one."""
    if columns is None:
        return list(fields)
    if not fields.keys() >= set(columns):
        raise InternalError(f"a split has the columns {quoted(fields)}; was asked for {quoted(columns)}")
    if not columns:
        return [min(fields, key=lambda name: _width(fields[name]))]
    return [name for name in fields if name in columns]


def _width(t: pa.DataType) -> int:
    try:
        return int(t.bit_width)
    except ValueError:  # a type of varying width
        return 1 << 20
