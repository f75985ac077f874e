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
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.record import Signal
from penstock.kernels import partition
from penstock.plan.cut import Exchange

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
SPLIT_BITS = 36
"""A place is the number of the split, then so many bits for the item's place in what leaves it."""
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


# Into blocks


class BlockWriter:
    """Cuts what one sender sends by an exchange into blocks: items and signals go in, block rows come out."""

    def __init__(self, exchange: Exchange, stage: int, targets: Sequence[int], sender: int, splits: int) -> None:
        self.exchange, self.stage, self.targets, self.sender = exchange, stage, targets, sender
        self.place = sender << SPLIT_BITS
        self.splits = splits
        self.sequences = [0] * len(targets)
        self.marks: list[list[tuple[int, tuple[int, Any]]]] = [[] for _ in targets]
        """The signals that lie behind the last block of each target, in front of the next."""
        self.pending: list[list[pa.RecordBatch]] = [[] for _ in targets]
        self.counts = [0] * len(targets)
        self.items = self.bytes = 0

    def signal(self, signal: Signal) -> Iterator[pa.RecordBatch]:
        """A signal goes to every target, behind what was sent so far."""
        held = (self.exchange.signals.index(type(signal)), signal.as_tuple())
        for bucket in range(len(self.targets)):
            self.marks[bucket].append((self.counts[bucket], held))
            if len(self.marks[bucket]) >= BLOCK_SIGNALS:
                yield self._block(bucket, is_last=False)

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Items go to their targets; block rows come out as they are full."""
        self.items += rows.num_rows
        if self.exchange.has_places and n.PLACE not in rows.schema.names:
            places = pa.array(np.arange(self.place, self.place + rows.num_rows))
            rows = rows.append_column(n.PLACE, places)
            self.place += rows.num_rows
        for bucket, part in enumerate(self._spread(rows)):
            if part.num_rows:
                yield from self._add(bucket, part)

    def _spread(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        if len(self.targets) == 1:
            return [rows]
        if self.exchange.kind == "order":
            return self._cut_by_place(rows)
        hashes = key_hashes([rows.column(name) for name in self.exchange.keys])
        starts, order = np.zeros(len(self.targets) + 1, np.int64), np.empty(rows.num_rows, np.uint32)
        partition.spread(hashes, starts, order)
        taken = taken_by(rows, order)
        return [taken.slice(start, stop - start) for start, stop in pairwise(starts)]

    def _cut_by_place(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Each target has some splits, one after the other; their places go up, and so do those of the rows."""
        splits = [-(-self.splits * at // len(self.targets)) for at in range(1, len(self.targets))]
        ends = np.searchsorted(rows.column(n.PLACE).to_numpy(), [split << SPLIT_BITS for split in splits])
        return [rows.slice(a, b - a) for a, b in zip([0, *ends], [*ends, rows.num_rows], strict=True)]

    def _add(self, bucket: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        most = _items_in_block(rows)
        at = 0
        while at < rows.num_rows:
            part = rows.slice(at, most - self.counts[bucket])
            at += part.num_rows
            self.pending[bucket].append(part)
            self.counts[bucket] += part.num_rows
            if self.counts[bucket] >= most:
                yield self._block(bucket, is_last=False)

    def _block(self, bucket: int, *, is_last: bool) -> pa.RecordBatch:
        parts, marks = self.pending[bucket], self.marks[bucket]
        payload: Any = b""
        if parts:
            rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            payload = rows.serialize()
        head = pickle.dumps(marks) if marks else b""
        made = row(self.targets[bucket], self.stage, self.sender, self.sequences[bucket], is_last, head, payload)
        self.bytes += made.column(6).nbytes
        self.sequences[bucket] += 1
        self.pending[bucket], self.marks[bucket], self.counts[bucket] = [], [], 0
        return made

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last block for every target, also where there is nothing in it."""
        for bucket in range(len(self.targets)):
            yield self._block(bucket, is_last=True)


def _items_in_block(rows: pa.RecordBatch) -> int:
    each = max(1, rows.nbytes // max(1, rows.num_rows))
    return int(max(1, min(BLOCK_ITEMS, BLOCK_BYTES // each)))


def key_hashes(columns: Sequence[pa.Array]) -> np.ndarray:
    """A hash of the key of each row."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        arrays = arrays_of(column)
        if types.is_text(column.type):
            partition.hash_texts(*arrays, hashes)
            continue
        values = arrays[0]
        if values.dtype.kind == "f":
            values = (values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is the same key as 0.0
        partition.hash_integers(values if values.dtype.kind != "b" else values.view(np.uint8), hashes)
    return hashes


def taken_by(rows: pa.RecordBatch, order: np.ndarray) -> pa.RecordBatch:
    """The rows in another order."""
    indices = None
    columns = []
    for column in rows.columns:
        if types.is_scalar(column.type) and not pt.is_boolean(column.type) and column.null_count == 0:
            (values,) = arrays_of(column)
            made = np.empty(len(order), values.dtype)
            partition.gather(values, order, made)
            columns.append(scalars_to_arrow(made, column.type))
        else:
            indices = pa.array(order) if indices is None else indices
            columns.append(column.take(indices))
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


# Out of blocks


def schema_of(exchange: Exchange) -> pa.Schema:
    """The columns of the items in the blocks of an exchange."""
    fields = exchange.send.given.fields
    names = [(name, fields[name]) for name in exchange.names]
    return pa.schema([*names, *([(n.PLACE, pa.int64())] if exchange.has_places else [])])


def arrival(block: Block, schema: pa.Schema, signals: Sequence[type[Signal]]) -> Arrival:
    """What lies in a block: items, and signals at their places among them."""
    if block.payload is not None and block.payload.size:
        rows = pa.ipc.read_record_batch(block.payload, schema)
    else:
        rows = pa.RecordBatch.from_arrays([pa.array([], t) for t in schema.types], schema=schema)
    places = None
    if n.PLACE in schema.names:
        places = rows.column(n.PLACE).to_numpy()
        rows = rows.drop_columns([n.PLACE])
    marks = []
    for offset, (number, values) in pickle.loads(block.head) if block.head else []:
        marks.append((offset, signals[number](*values)))
    return Arrival(rows, tuple(marks), places)
