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
from penstock.spark.wire import ArrivedFile, ArrivedSignal, SenderOrigin
from penstock.spark.worker.program import Program
from penstock.spark.worker.task import failure_rows, run_files, run_open, run_split
from penstock.spark.worker.task_failure import failure_before

Arrived = ArrivedFile | ArrivedSignal
"""What a row names."""


@dataclass(frozen=True)
class ArrivalReader:
    """Reads what arrives. Travels to the tasks."""

    items: FileItems | None
    signals: Mapping[str, type[Signal]]
    checkpoint: Checkpoint
    plan: Planned | None = None
    """Signals whose places are to be found among the items."""

    def takes(self, arrived: Arrived) -> bool:
        """Whether what a row names is meant: Spark also finds files that no glob of ours would."""
        return isinstance(arrived, ArrivedSignal) or self.items is None or self.items.takes(arrived.path)

    def piece(self, arrived: Arrived, batch: int) -> ArrivedPiece:
        """What a row names."""
        path = arrived.path
        if isinstance(arrived, ArrivedSignal):
            signal = self.checkpoint.read_signal(path, self.signals)
            self.checkpoint.note_placed(path, batch)
            return ArrivedPiece(SenderOrigin(False, path), NoItems(), (signal,))
        assert self.items is not None
        return ArrivedPiece(SenderOrigin(True, path), FileSplit(self.items, path, arrived.size))

    def group(self, arrived: Arrived, name: str | None) -> list[ArrivedPiece] | None:
        """The files that are read with the one that a row names; none, where another task does. None without groups."""
        groups = groups_of(self.checkpoint, name)
        if groups is None or isinstance(arrived, ArrivedSignal) or self.items is None:
            return None
        files = groups.begun_by(arrived.path, arrived.size)
        return [ArrivedPiece(SenderOrigin(True, path), FileSplit(self.items, path, size)) for path, size in files]

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
class ArrivedPiece:
    """One piece of what has arrived."""

    origin: SenderOrigin
    split: Split
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class FileSplit(Split):
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
    program: Program,
    reader: ArrivalReader,
    arrived: Iterable[Arrived],
    batch: int,
    partition: int,
    groups: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on each piece that a task is given; all in order, where signals are placed among them.

    `groups` is the name of the groups of the micro-batch, where it has many files.
    """
    placer = reader.placer(batch)
    taken = filter(reader.takes, arrived)
    for ordinal, each in enumerate(taken if placer is None else sorted(taken, key=_order)):
        sender = partition << 32 | ordinal
        try:
            group = reader.group(each, groups)
            piece = reader.piece(each, batch) if group is None else None
        except PenstockError as error:
            yield from failure_rows(program, failure_before(0, sender, error))
            continue
        if piece is None:
            if group:
                origins = tuple(piece.origin for piece in group)
                of_group = replace(program, origin=origins[0], files=origins, signals={}, placer=placer)
                yield from run_files(of_group, sender, [piece.split for piece in group])
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
    origin = SenderOrigin(True, f"partition {partition:06} of the DataFrame")
    sender = 1 << 60 | partition
    yield from run_split(replace(program, origin=origin), sender, FrameSplit(batches))


def _order(arrived: Arrived) -> tuple[bool, bytes]:
    return isinstance(arrived, ArrivedFile), arrived.path.encode(errors="surrogatepass")


def run_together(
    program: Program, reader: ArrivalReader, arrived: Iterable[Arrived], batch: int, keeper: StateKeeper
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on all pieces of a micro-batch, one after the other, from where it was."""
    try:
        pieces = sorted(
            (reader.piece(each, batch) for each in arrived if reader.takes(each)), key=lambda piece: piece.origin
        )
    except PenstockError as error:
        yield from failure_rows(program, failure_before(0, 0, error))
        return
    first = keeper.splits
    keeper.begin([piece.origin for piece in pieces])
    splits = [(first + at, piece.split) for at, piece in enumerate(pieces)]
    signals = {first + at: tuple((0, signal) for signal in piece.signals) for at, piece in enumerate(pieces)}
    placer = reader.placer(batch, keeper.items)
    yield from run_open(replace(program, signals=signals, bases={first: keeper.items}, placer=placer), splits, keeper)
