"""What has arrived in a micro-batch: new files, and signals that were sent. Spark hands tasks their paths.

A task reads each file by itself, as one sender. A signal is a sender without items, before all files: so it stands
between the last item of the micro-batch before and the first of this one, for every node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import InternalError, PenstockError
from penstock.graph.files.file_items import FileItems
from penstock.graph.record import Signal
from penstock.graph.source import UNCUT
from penstock.graph.split import BAD, NoItems, Split
from penstock.spark.dataframe import FrameSplit
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.groups import groups_of
from penstock.spark.streaming.keeper import StateKeeper
from penstock.spark.streaming.pending_signals import Pending, Planned
from penstock.spark.worker.block import Block, Origin
from penstock.spark.worker.task import Program, failing, run_files, run_open, run_split
from penstock.spark.worker.task_failure import Failed

FILE, SIGNAL = -4, -5
"""What stands in the column `stage` of rows that name a file that has arrived, or a signal; `head` is the path."""


@dataclass(frozen=True)
class Reader:
    """Reads what arrives. Travels to the tasks."""

    items: FileItems | None
    signals: Mapping[str, type[Signal]]
    checkpoint: Checkpoint
    plan: Planned | None = None
    """Signals whose places are to be found among the items."""

    def takes(self, block: Block) -> bool:
        """Whether what a row names is meant: Spark also finds files that no glob of ours would."""
        return block.stage == SIGNAL or self.items is None or self.items.takes(bytes(block.head).decode())

    def piece(self, block: Block, batch: int) -> Piece:
        """What a row names."""
        path = bytes(block.head).decode()
        if block.stage == SIGNAL:
            signal = self.checkpoint.read_signal(path, self.signals)
            self.checkpoint.note_placed(path, batch)
            return Piece(Origin(False, path), NoItems(), (signal,))
        assert self.items is not None
        return Piece(Origin(True, path), ArrivedFile(self.items, path, block.sender))

    def group(self, block: Block, name: str | None) -> list[Piece] | None:
        """The files that are read with the one that a row names; none, where another task does. None without groups."""
        groups = groups_of(self.checkpoint, name)
        if groups is None or block.stage == SIGNAL or self.items is None:
            return None
        found = groups.begun_by(bytes(block.head).decode(), block.sender)
        return [Piece(Origin(True, path), ArrivedFile(self.items, path, size)) for path, size in found]

    def placer(self, batch: int, first: int | None = None) -> Pending | None:
        """What finds those places in a micro-batch whose first item has this index, or the one that was noted."""
        if self.plan is None:
            return None
        return Pending(self.plan, self.checkpoint, batch, self._items_before(batch) if first is None else first)

    def _items_before(self, batch: int) -> int:
        if batch == 0:
            return 0
        found = self.checkpoint.items_until(batch - 1)
        if found is None:
            raise InternalError(f"what batch {batch - 1} did was not noted")
        return found


@dataclass(frozen=True)
class Piece:
    """One piece of what has arrived."""

    origin: Origin
    split: Split
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrivedFile(Split):
    """All items of a file that has arrived. Whatever is wrong with it is found when it is read."""

    items: FileItems
    label: str
    bytes: int

    @property
    def tells_bad(self) -> bool:
        return self.items.format != "parquet"

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        file = self.items.arrived_file(self.label, self.bytes)
        plain = None if columns is None else [name for name in columns if name != BAD]
        for split in self.items.splits_of([file], UNCUT, plain):
            is_tolerant = columns is not None and BAD in columns and split.tells_bad
            yield from split.read(columns if is_tolerant else plain, at_most)


def run_pieces(
    program: Program, reader: Reader, arrived: Iterable[Block], batch: int, partition: int, groups: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on each piece that a task is given; all in order, where signals are placed among them.

    `groups` is the name of the groups of the micro-batch, where it has many files.
    """
    placer = reader.placer(batch)
    taken = filter(reader.takes, arrived)
    for ordinal, block in enumerate(taken if placer is None else sorted(taken, key=_in_order)):
        sender = partition << 32 | ordinal
        try:
            found = reader.group(block, groups)
            piece = reader.piece(block, batch) if found is None else None
        except PenstockError as error:
            yield from failing(program, Failed(0, sender, error))
            continue
        if piece is None:
            if found:
                origins = tuple(piece.origin for piece in found)
                program_ = replace(program, origin=origins[0], files=origins, signals={}, placer=placer)
                yield from run_files(program_, sender, [piece.split for piece in found])
            continue
        placed = {sender: tuple((0, signal) for signal in piece.signals)}
        yield from run_split(replace(program, origin=piece.origin, signals=placed, placer=placer), sender, piece.split)


def run_frame(
    program: Program, batches: Iterable[pa.RecordBatch], order_by: Sequence[str], partition: int
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on the rows of a streaming DataFrame: in order, where columns for one are named.

    Spark sorts no stream, so the rows of a micro-batch come to one task then, which sorts them.
    """
    if order_by:
        held = list(batches)
        order = [(name, "ascending") for name in order_by]
        batches = pa.Table.from_batches(held).sort_by(order).to_batches() if held else []
    origin = Origin(True, f"partition {partition:06} of the DataFrame")
    sender = 1 << 60 | partition
    yield from run_split(replace(program, origin=origin), sender, FrameSplit(batches))


def _in_order(block: Block) -> tuple[bool, bytes]:
    return block.stage != SIGNAL, bytes(block.head)


def run_together(
    program: Program, reader: Reader, arrived: Iterable[Block], batch: int, keeper: StateKeeper
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on all pieces of a micro-batch, one after the other, from where it was."""
    try:
        pieces = sorted(
            (reader.piece(block, batch) for block in arrived if reader.takes(block)), key=lambda piece: piece.origin
        )
    except PenstockError as error:
        yield from failing(program, Failed(0, 0, error))
        return
    first = keeper.splits
    keeper.begin([piece.origin for piece in pieces])
    splits = [(first + at, piece.split) for at, piece in enumerate(pieces)]
    signals = {first + at: tuple((0, signal) for signal in piece.signals) for at, piece in enumerate(pieces)}
    placer = reader.placer(batch, keeper.items)
    yield from run_open(replace(program, signals=signals, bases={first: keeper.items}, placer=placer), splits, keeper)
