"""Blocks: what Spark moves between two stages. One row is one block: thousands of items, with the signals among them.

A sender cuts what leaves a stage into blocks for each target and numbers them; a receiver finds them in that order
again, whatever order they arrive in. The last block of a sender for a target says that it is the last.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.columns import arrays_of, scalars_to_arrow
from penstock.engine.intake import Arrival
from penstock.errors import DataError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.record import Signal
from penstock.kernels import partition
from penstock.plan.idle import Idle
from penstock.plan.stages import Exchange

ROWS = "target int, stage int, sender long, sequence long, is_last boolean, head binary, payload binary"
"""The columns of block rows in Spark. `target` is the partition that takes the row."""
SCHEMA = pa.schema(
    [
        ("target", pa.int32()),
        ("stage", pa.int32()),
        ("sender", pa.int64()),
        ("sequence", pa.int64()),
        ("is_last", pa.bool_()),
        ("head", pa.binary()),
        ("payload", pa.binary()),
    ]
)
SPLIT_BITS = 32
"""A place is the number of the split, then so many bits for the item's place in what leaves it."""
MOST_SPLITS = 1 << 25
"""How many splits there may be: places of what comes at the end of a stream lie behind those of all items."""
BLOCK_ITEMS, BLOCK_BYTES, BLOCK_SIGNALS = 1 << 16, 1 << 20, 1 << 12
"""How large a block is: at most so many items and signals, and about so many bytes."""


def row(
    target: int, stage: int, sender: int, sequence: int, is_last: bool, head: bytes, payload: pa.Buffer | bytes = b""
) -> pa.RecordBatch:
    """One block row, without a copy of the payload."""
    buffer = payload if isinstance(payload, pa.Buffer) else pa.py_buffer(payload)
    offsets = pa.py_buffer(np.array([0, buffer.size], np.int32))
    columns = [
        pa.array([target], pa.int32()),
        pa.array([stage], pa.int32()),
        pa.array([sender], pa.int64()),
        pa.array([sequence], pa.int64()),
        pa.array([is_last], pa.bool_()),
        pa.array([head], pa.binary()),
        pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Block:
    """A block as it arrives. `head` tells what lies in it."""

    stage: int
    sender: int
    sequence: int
    is_last: bool
    head: bytes
    payload: Any


def blocks(rows: pa.RecordBatch) -> Iterator[Block]:
    """The blocks in some rows, without a copy of their payloads."""
    stages, senders, sequences, lasts, heads = (rows.column(at).to_pylist() for at in (1, 2, 3, 4, 5))
    payloads = rows.column(6)
    for at in range(rows.num_rows):
        yield Block(stages[at], senders[at], sequences[at], lasts[at], heads[at], payloads[at].as_buffer())


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Where the items of a sender of a running stream come from. Within a micro-batch, senders go in this order.

    Signals from outside (`is_data` false) come before all items. `label` is the file, or what else it is.
    """

    is_data: bool
    label: str


def origin_of(last: Block) -> Origin:
    """The origin of a sender, which its last block tells."""
    return pickle.loads(last.head)[3]  # type: ignore[no-any-return]


def files_of(last: Block) -> list[tuple[Origin, int]]:
    """The files that a sender has read, each with how many items of those before it are in this bucket.

    A sender of one file has not told.
    """
    told = (*pickle.loads(last.head), None, None)[5]
    return [(origin_of(last), 0)] if told is None else told


def newest_of(last: Block) -> Any:
    """The newest time of what a sender has sent, which its last block tells; None where there was none."""
    return (*pickle.loads(last.head), None, None)[4]


def times_of(rows: pa.RecordBatch, idle: Idle) -> np.ndarray:
    """The times of items, by which their keys are not idle."""
    (values,) = arrays_of(rows.column(idle.time))
    return values.astype(np.float64 if idle.is_float else np.int64, copy=False)


# Into blocks


class BlockWriter:
    """Cuts what one sender sends by an exchange into blocks: items and signals go in, block rows come out.

    Invariant: of each target, `filled` items lie in its row of `flat`, and in its list of `rest`.
    """

    def __init__(
        self,
        exchange: Exchange,
        stage: int,
        targets: Sequence[int],
        sender: int,
        splits: int,
        origin: Origin | None = None,
        *,
        is_indexed: bool = False,
        hash_seed: int = 0,
    ) -> None:
        """With `is_indexed`, rows that have places come with those in the split that is the sender.

        All senders of a stage must have the same `hash_seed`, which decides where each key goes.
        """
        self.exchange, self.stage, self.targets, self.sender, self.splits = exchange, stage, targets, sender, splits
        self.origin, self.is_indexed, self.hash_seed = origin, is_indexed, np.uint64(hash_seed)
        self.first_split = sender if origin is None else 0
        self.place = self.first_split << SPLIT_BITS
        self.first_item = 0
        """The index of the first item of the file that is sent, among those of all files of the sender."""
        self.files: list[tuple[Origin, np.ndarray]] = []
        """Where there are several files: each with how many items of those before it went to each target."""
        self.schema = schema_of(exchange)
        self.room = 0
        self.filled = np.zeros(len(targets), np.int64)
        self.packed = np.zeros(len(targets), np.int64)
        """How many items of each target are in blocks that have left."""
        self.flat: dict[str, np.ndarray] = {}
        """The scalars of each field: a row a target."""
        self.rest: list[list[pa.RecordBatch]] = [[] for _ in targets]
        """The other fields of each target, as they came."""
        self.sequences = [0] * len(targets)
        self.marks: list[list[tuple[int, tuple[int, Any]]]] = [[] for _ in targets]
        """The signals among the items of each target: how many items lie before, and which."""
        self.items = self.bytes = 0
        self.newest: Any = None
        """The newest time of all items, where there are times by which keys go idle."""

    def begin_file(self, origin: Origin, first_item: int) -> None:
        """What comes from now on is of this file. A file is a split: places are told apart by it."""
        if self.files:
            self.first_split += 1
            self.place = self.first_split << SPLIT_BITS
        self.files.append((origin, self.packed + self.filled))
        self.first_item = first_item

    def signal(self, signal: Signal) -> Iterator[pa.RecordBatch]:
        """A signal goes to every target, behind what was sent so far."""
        held = (self.exchange.signals.index(type(signal)), signal.as_tuple())
        for bucket in range(len(self.targets)):
            self.marks[bucket].append((int(self.filled[bucket]), held))
            if len(self.marks[bucket]) >= BLOCK_SIGNALS:
                yield self._block(bucket, is_last=False)

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Items go to their targets; block rows come out as they are full."""
        if not rows.num_rows:
            return
        self.items += rows.num_rows
        if self.exchange.has_places:
            rows = self._with_places(rows)
        self._note_times(rows)
        self._make_room(rows)
        buckets = self._buckets(rows)
        slots = np.empty(rows.num_rows, np.int32)
        columns = {name: arrays_of(rows.column(name))[0] for name in self.flat}
        others = rows.drop_columns(list(self.flat)) if len(self.flat) < rows.num_columns else None
        start = 0
        while start < rows.num_rows:
            stop = partition.assign(buckets, start, self.room, self.filled, slots)
            for name, out in self.flat.items():
                partition.scatter(columns[name], buckets, slots, start, stop, out)
            if others is not None:
                self._spread(others, buckets, start, stop)
            start = stop
            for bucket in np.flatnonzero(self.filled == self.room):
                yield self._block(int(bucket), is_last=False)

    def _with_places(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with their places: as they come, or as numbers of a split, by their order or by their indices."""
        if n.PLACE not in rows.schema.names:
            places = np.arange(self.place, self.place + rows.num_rows)
            rows = rows.append_column(n.PLACE, pa.array(places))
        elif not self.is_indexed:
            return rows
        else:
            places = rows.column(n.PLACE).to_numpy() - self.first_item + (self.first_split << SPLIT_BITS)
            rows = rows.set_column(rows.schema.names.index(n.PLACE), n.PLACE, pa.array(places))
        self.place = int(places[-1]) + 1
        if self.place - 1 >> SPLIT_BITS != self.first_split:
            raise DataError(
                f"a split must give at most {1 << SPLIT_BITS:,} items, to be put in order again; one gave more; "
                f"cut the source into smaller ones (split_bytes=), or its files"
            )
        return rows

    def _note_times(self, rows: pa.RecordBatch) -> None:
        idle = self.exchange.idle
        if idle is None or idle.time is None:
            return
        times = times_of(rows, idle)
        times = times[np.isfinite(times)] if idle.is_float else times
        if len(times):
            newest = times.max().item()
            self.newest = newest if self.newest is None else max(self.newest, newest)

    def _make_room(self, rows: pa.RecordBatch) -> None:
        """Decide, with the first items, how many make a block."""
        if self.room:
            return
        self.room = _items_in_block(rows)
        for field in self.schema:
            if is_flat(field.type):
                self.flat[field.name] = np.empty((len(self.targets), self.room), types.storage(field.type))

    def _buckets(self, rows: pa.RecordBatch) -> Any:
        buckets = np.zeros(rows.num_rows, np.uint16)
        if len(self.targets) == 1:
            return buckets
        if self.exchange.kind == "order":
            # Each target has some splits, one after the other.
            firsts = [-(-self.splits * at // len(self.targets)) << SPLIT_BITS for at in range(1, len(self.targets))]
            return np.searchsorted(firsts, rows.column(n.PLACE).to_numpy(), side="right").astype(np.uint16)
        columns = [rows.column(name) for name in self.exchange.keys]
        if len(columns) == 1 and types.is_scalar(columns[0].type):
            partition.bucket_integers(key_integers(columns[0]), len(self.targets), buckets, self.hash_seed)
        else:
            partition.bucket(key_hashes(columns, self.hash_seed), len(self.targets), buckets)
        return buckets

    def _spread(self, others: pa.RecordBatch, buckets: np.ndarray, start: int, stop: int) -> None:
        """Put rows of what is no scalar to their targets, in their order."""
        here = buckets[start:stop]
        if len(self.targets) == 1:
            self.rest[0].append(others.slice(start, stop - start))
            return
        taken = others.take(pa.array(start + np.argsort(here, kind="stable")))
        ends = np.cumsum(np.bincount(here, minlength=len(self.targets)))
        for bucket, (first, last) in enumerate(pairwise([0, *ends])):
            if first < last:
                self.rest[bucket].append(taken.slice(first, last - first))

    def _block(self, bucket: int, *, is_last: bool) -> pa.RecordBatch:
        count = int(self.filled[bucket])
        packed = [_packed(out[bucket, :count]) for out in self.flat.values()]
        parts: list[Any] = [part for part, _ in packed]
        if self.rest[bucket]:
            parts.append(pa.concat_batches(self.rest[bucket]).serialize())
        held = (count, [(part.dtype.str, base) for part, base in packed], self.marks[bucket])
        about: tuple[Any, ...] = () if self.origin is None and self.newest is None else (self.origin, self.newest)
        if self.files:
            about = (self.origin, self.newest, [(origin, int(before[bucket])) for origin, before in self.files])
        head = pickle.dumps((*held, *about) if is_last else held)
        payload = pa.py_buffer(b"".join(memoryview(part).cast("B") for part in parts)) if count else b""
        made = row(self.targets[bucket], self.stage, self.sender, self.sequences[bucket], is_last, head, payload)
        self.bytes += made.column(6).nbytes
        self.sequences[bucket] += 1
        self.packed[bucket] += count
        self.rest[bucket], self.marks[bucket], self.filled[bucket] = [], [], 0
        return made

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last block for every target, also where there is nothing in it."""
        for bucket in range(len(self.targets)):
            yield self._block(bucket, is_last=True)


def is_flat(t: pa.DataType) -> bool:
    """Whether a column of this type is one array of numbers."""
    return types.is_scalar(t) and not pt.is_boolean(t)


def _packed(values: np.ndarray) -> tuple[np.ndarray, Any]:
    """Integers as narrow as they may be, above a base; whatever else as it is."""
    if values.dtype.kind not in "iu" or not len(values):
        return values, None
    low, high = int(values.min()), int(values.max())
    for narrow in (np.uint8, np.uint16, np.uint32):
        if high - low <= np.iinfo(narrow).max and np.dtype(narrow).itemsize < values.itemsize:
            return (values - values.dtype.type(low)).astype(narrow), low
    return values, None


def _items_in_block(rows: pa.RecordBatch) -> int:
    each = max(1, rows.nbytes // max(1, rows.num_rows))
    return int(max(1, min(BLOCK_ITEMS, BLOCK_BYTES // each)))


def key_integers(column: pa.Array) -> np.ndarray:
    """The values of a key's field that is no text, as integers: equal keys are equal integers."""
    (values,) = arrays_of(column)
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is the same key as 0.0
    return values.view(np.uint8) if values.dtype.kind == "b" else values


def key_hashes(columns: Sequence[pa.Array], seed: np.uint64) -> np.ndarray:
    """A hash of the key of each row."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        if types.is_text(column.type):
            partition.hash_texts(*arrays_of(column), hashes, seed)
        else:
            partition.hash_integers(key_integers(column), hashes, seed)
    return hashes


# Out of blocks


def schema_of(exchange: Exchange) -> pa.Schema:
    """The columns of the items in the blocks of an exchange."""
    fields = exchange.send.given.fields
    names = [(name, fields[name]) for name in exchange.names]
    return pa.schema([*names, *([(n.PLACE, pa.int64())] if exchange.has_places else [])])


def arrival(block: Block, schema: pa.Schema, signals: Sequence[type[Signal]]) -> Arrival:
    """What lies in a block: items, and signals at their places among them."""
    count, packed, marks, *_ = pickle.loads(block.head)
    columns = _columns(block.payload, count, packed, schema)
    places = columns.pop(n.PLACE).to_numpy() if n.PLACE in columns else None
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return Arrival(rows, tuple((offset, signals[number](*values)) for offset, (number, values) in marks), places)


def _columns(payload: Any, count: int, packed: Sequence[tuple[str, Any]], schema: pa.Schema) -> dict[str, pa.Array]:
    if not count:
        return {field.name: pa.array([], field.type) for field in schema}
    found: dict[str, pa.Array] = {}
    at = 0
    for field, (held, base) in zip([field for field in schema if is_flat(field.type)], packed, strict=True):
        values = np.frombuffer(payload, np.dtype(held), count, at)
        at += values.nbytes
        if base is not None:
            stored = types.storage(field.type)
            values = values.astype(stored) + stored.type(base)
        found[field.name] = scalars_to_arrow(values, field.type)
    others = [field for field in schema if field.name not in found]
    if others:
        rest = pa.ipc.read_record_batch(payload.slice(at), pa.schema(others))
        found |= dict(zip(rest.schema.names, rest.columns, strict=True))
    return {field.name: found[field.name] for field in schema}
