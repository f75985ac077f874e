"""Into blocks: what a sender sends, cut for its targets, thousands of items to a block, with the signals among them.

A sender cuts what leaves a stage into blocks for each target and numbers them; a receiver finds them in that order
again, whatever order they arrive in. The last block of a sender for a target has an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.columns import arrays_of
from penstock.errors import DataError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.record import Signal
from penstock.kernels import partition
from penstock.plan.stages import Exchange
from penstock.spark.wire import Block, Packing, SenderEnd, SenderOrigin, SignalMark, encode
from penstock.spark.worker.block_columns import SPLIT_BITS, is_flat, schema_of, times_of

BLOCK_ITEMS, BLOCK_BYTES, BLOCK_SIGNALS = 1 << 16, 1 << 20, 1 << 12
"""How large a block is: at most so many items and signals, and about so many bytes."""


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
        origin: SenderOrigin | None = None,
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
        self.files: list[tuple[SenderOrigin, np.ndarray]] = []
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
        self.marks: list[list[SignalMark]] = [[] for _ in targets]
        """The signals among the items of each target."""
        self.items = self.bytes = 0
        self.newest: Any = None
        """The newest time of all items, where there are times by which keys go idle."""

    def begin_file(self, origin: SenderOrigin, first_item: int) -> None:
        """What comes from now on is of this file. A file is a split: places are told apart by it."""
        if self.files:
            self.first_split += 1
            self.place = self.first_split << SPLIT_BITS
        self.files.append((origin, self.packed + self.filled))
        self.first_item = first_item

    def signal(self, signal: Signal) -> Iterator[pa.RecordBatch]:
        """A signal goes to every target, behind what was sent so far."""
        number, values = self.exchange.signals.index(type(signal)), signal.as_tuple()
        for bucket in range(len(self.targets)):
            self.marks[bucket].append(SignalMark(int(self.filled[bucket]), number, values))
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
        arrays = [_narrow(out[bucket, :count]) for out in self.flat.values()]
        pieces: list[Any] = [array for array, _ in arrays]
        if self.rest[bucket]:
            pieces.append(pa.concat_batches(self.rest[bucket]).serialize())
        block = Block(
            self.stage,
            self.sender,
            self.sequences[bucket],
            count,
            tuple(Packing(array.dtype.str, base) for array, base in arrays),
            tuple(self.marks[bucket]),
            self._end(bucket) if is_last else None,
            pa.py_buffer(b"".join(memoryview(piece).cast("B") for piece in pieces)) if count else b"",
        )
        row = encode(block, self.targets[bucket])
        self.bytes += row.column("payload").nbytes
        self.sequences[bucket] += 1
        self.packed[bucket] += count
        self.rest[bucket], self.marks[bucket], self.filled[bucket] = [], [], 0
        return row

    def _end(self, bucket: int) -> SenderEnd:
        files = tuple((origin, int(before[bucket])) for origin, before in self.files)
        return SenderEnd(self.origin, self.newest, files)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last block for every target, also where there is nothing in it."""
        for bucket in range(len(self.targets)):
            yield self._block(bucket, is_last=True)


def _narrow(values: np.ndarray) -> tuple[np.ndarray, Any]:
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
