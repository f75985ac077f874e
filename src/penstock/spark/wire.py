"""Messages between the driver and its tasks: frozen records, and the rows as which Spark moves them.

A row has four columns. `target` is the partition that takes it, and `kind` says which record it is. `head` is the
version of this format and the record's fields as JSON, by their names; `payload` is one piece of bytes, Arrow data or
the arrays of a block, which is not parsed here. Nothing is pickled: what a user's function needs travels with the
program of a job, before any message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, TypeVar, get_args

import numpy as np
import pyarrow as pa

from penstock import errors
from penstock.engine.statistics import Statistics
from penstock.errors import PenstockError
from penstock.graph.letters import Letter
from penstock.graph.signal_indices import FieldSummary
from penstock.spark.files.part import ResultPart
from penstock.spark.record_head import VERSION, head_of, read_record, version_error

ROWS = "target int, kind int, head binary, payload binary"
"""The columns of the rows in Spark."""
SCHEMA = pa.schema([("target", pa.int32()), ("kind", pa.int32()), ("head", pa.binary()), ("payload", pa.binary())])

R = TypeVar("R", bound="Record")
Scalar = int | float | bool
Payload = Any
"""A buffer of Arrow's, or bytes."""


class Kind(IntEnum):
    """Which record a row is."""

    BLOCK = 1
    RESULT = 2
    COUNTS = 3
    SKIPPED = 4
    FAILED = 5
    BEGINNING = 6
    SURVEY = 7
    FILE = 8
    SIGNAL = 9


# The records


@dataclass(frozen=True, slots=True, order=True)
class SenderOrigin:
    """Where the items of a sender of a running stream come from. Within a micro-batch, senders go in this order.

    Signals from outside (`is_data` false) come before all items. `label` is the file, or what else it is.
    """

    is_data: bool
    label: str


@dataclass(frozen=True, slots=True)
class Packing:
    """How a column lies in a block: the type of its numbers, and what is to be added to each."""

    dtype: str
    base: int | None = None


@dataclass(frozen=True, slots=True)
class SignalMark:
    """A signal among items: how many lie before it, the number of its class, and the values of its fields."""

    offset: int
    number: int
    values: tuple[Scalar | tuple[Scalar, ...], ...]


@dataclass(frozen=True, slots=True)
class SenderEnd:
    """What the last block of a sender says about all of its blocks, for a task of a running stream."""

    origin: SenderOrigin | None = None
    newest: int | float | None = None
    """The newest time of what was sent, where keys go idle by time; None where nothing was sent."""
    files: tuple[tuple[SenderOrigin, int], ...] = ()
    """Where a sender has read several files: each with how many items of those before it are in the block's bucket."""

    @property
    def read(self) -> tuple[tuple[SenderOrigin, int], ...]:
        """The same of any sender."""
        return self.files or (() if self.origin is None else ((self.origin, 0),))


@dataclass(frozen=True, slots=True)
class Block:
    """Items and signals for one target of a stage, in the order of their sender. The last has an `end`."""

    kind: ClassVar[Kind] = Kind.BLOCK
    stage: int
    sender: int
    sequence: int
    items: int
    columns: tuple[Packing, ...] = ()
    marks: tuple[SignalMark, ...] = ()
    end: SenderEnd | None = None
    payload: Payload = b""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Some rows of a leaf: as Arrow data, or as the files that hold them."""

    kind: ClassVar[Kind] = Kind.RESULT
    leaf: int
    sender: int
    sequence: int = 0
    parts: tuple[ResultPart, ...] = ()
    payload: Payload = b""


@dataclass(frozen=True)
class TaskCounts:
    """What a task counted: where it was, what came in and went out (`rows`, `bytes`), and what its engine counted."""

    kind: ClassVar[Kind] = Kind.COUNTS
    stage: int
    sender: int
    items: int
    rows: int
    bytes: int
    bytes_in: int
    seconds: float
    peak_bytes: int
    statistics: Statistics
    state: Mapping[str, int] = field(default_factory=dict)
    """Of a stage of a running stream: how many keys it knows, in how many pages, and how many it has touched."""
    origins: tuple[SenderOrigin, ...] = ()
    """What it has read of a running stream."""
    busy_s: tuple[float, ...] = ()
    """How long each of its cores was at work."""
    read: Mapping[int, int] = field(default_factory=dict)
    """How many items it has read of each split."""
    skipped: int = 0
    """How many letters it has written."""


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """A letter, with the split of its item, None for the end of the stream, and the item's index there."""

    split: int | None
    offset: int
    letter: Letter
    label: str | None = None
    """What was read, where a task of a running stream knows it."""


@dataclass(frozen=True, slots=True)
class SkippedItems:
    """The letters of a task."""

    kind: ClassVar[Kind] = Kind.SKIPPED
    stage: int
    sender: int
    items: tuple[SkippedItem, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """An error, by the name of its class and its text, and where in the stream it lies, so that the first is known.

    `split` is the split that the item came from; None where it is about the whole stream. `item` is the index by which
    the message names an item, and `offset` its place in the split, where the task has read that itself.
    """

    kind: ClassVar[Kind] = Kind.FAILED
    stage: int
    sender: int
    error_class: str
    text: str
    split: int | None = None
    item: int | None = None
    offset: int | None = None

    @property
    def error(self) -> PenstockError:
        found: type[PenstockError] = getattr(errors, self.error_class)
        return found(self.text)

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Smaller is earlier in the stream."""
        split = 1 << 62 if self.split is None else self.split
        return self.stage, split, self.item or 0, self.sender


@dataclass(frozen=True, slots=True)
class Beginning:
    """How many items of a split lie before the first sure beginning of a region; None where there is none."""

    kind: ClassVar[Kind] = Kind.BEGINNING
    split: int
    items: int | None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a first pass has seen in a split: of each field that is sought, and under no name how many items."""

    kind: ClassVar[Kind] = Kind.SURVEY
    split: int
    fields: Mapping[str, FieldSummary]


@dataclass(frozen=True, slots=True)
class ArrivedFile:
    """A file that Spark has found for a running stream."""

    kind: ClassVar[Kind] = Kind.FILE
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class ArrivedSignal:
    """A signal that was sent to a running stream, by the path of its file."""

    kind: ClassVar[Kind] = Kind.SIGNAL
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class PlacedSignals:
    """Where the signals from outside stand, by a first pass that is part of a plan of Spark's; or why it failed.

    `bases` are the indices of the first items of the splits. `places` has for each split the signals in it: before
    which of its items, and the number of the signal among those that were given.
    """

    bases: Mapping[int, int] = field(default_factory=dict)
    places: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    failure: Failed | None = None


Record = Block | TaskResult | TaskCounts | SkippedItems | Failed | Beginning | Survey | ArrivedFile | ArrivedSignal
CLASSES: dict[int, Any] = {each.kind: each for each in get_args(Record)}


# Rows


@dataclass(frozen=True, slots=True)
class Message:
    """A row: a record that is not decoded yet. Whoever hands it on need not know what it says."""

    target: int
    kind: int
    head: bytes
    payload: Payload = b""

    def decode(self) -> Any:
        """The record. Raises where another version of Penstock has made it."""
        if self.kind not in CLASSES:
            raise version_error(f"a message of kind {self.kind}")
        return read_record(CLASSES[self.kind], self.head, self.payload)

    def row(self, target: int | None = None) -> pa.RecordBatch:
        """The row, for another target where one is named, without a copy of the payload."""
        buffer = self.payload if isinstance(self.payload, pa.Buffer) else pa.py_buffer(self.payload)
        offsets = pa.py_buffer(np.array([0, buffer.size], np.int32))
        columns = [
            pa.array([self.target if target is None else target], pa.int32()),
            pa.array([self.kind], pa.int32()),
            pa.array([self.head], pa.binary()),
            pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def encode(record: Record, target: int = 0) -> pa.RecordBatch:
    """One row with a record, for a target; without a copy of its payload."""
    return Message(target, record.kind, head_of(record), getattr(record, "payload", b"")).row()


def messages(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages in some rows. Payloads are copied out of them: one that waits does not keep all in memory."""
    for rows in batches:
        targets, kinds, heads = (rows.column(at).to_pylist() for at in range(3))
        for target, kind, head, payload in zip(targets, kinds, heads, rows.column(3), strict=True):
            yield Message(target, kind, head, payload.as_buffer() or b"")


def decode(arrived: Iterable[Message], wanted: type[R]) -> Iterator[R]:
    """The records of one class among some messages."""
    return (each.decode() for each in arrived if each.kind == wanted.kind)


def sql_of_arrived(wanted: type[ArrivedFile | ArrivedSignal], target: int) -> tuple[str, ...]:
    """The columns of rows with such a record, in SQL, of a table of paths (`path`) and sizes (`length`)."""
    record = "to_json(named_struct('path', path, 'size', length))"
    return (
        f"{target} as target",
        f"{int(wanted.kind)} as kind",
        f"concat(X'{VERSION:02X}', encode({record}, 'UTF-8')) as head",
        "cast(null as binary) as payload",
    )
