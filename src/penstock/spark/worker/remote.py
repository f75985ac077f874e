"""The functions that Spark hands to its workers: what a task calls on the rows that it is given.

They hold bytes only, a program and splits that are unpacked where they run. A `SplitTask` runs on one split;
`over_numbers` and `over_carried` make it a task over rows that name splits, or carry them. Splits that are named may be
`AlignedLater`: then each task finds out where its own one begins and ends.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.graph.split import Split
from penstock.spark.dataframe import FrameSplit
from penstock.spark.files.region_splits import align_split
from penstock.spark.record_head import head_of, read_record
from penstock.spark.wire import Kind, PlacedSignals, encode, messages
from penstock.spark.worker.first_pass import Sought, find_beginning, place_arrived, placement_of, survey_split
from penstock.spark.worker.program import Program
from penstock.spark.worker.task import run_nothing, run_received, run_split, run_whole
from penstock.spark.worker.task_failure import failure_in

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Any], Iterator[Any]]
SplitTask = Callable[[int, Split], Iterator[pa.RecordBatch]]
Report = Callable[[tuple[int, bytes]], None]
"""Reports a message, by its kind and head, while the job is running. It may come twice, when a task is run again."""
PLACED = "placement binary"
"""The column that a first pass gives that is part of the plan of a job."""


def pack(thing: Any) -> bytes:
    """Anything, with the functions in it, as bytes for the way to the tasks."""
    from pyspark import cloudpickle

    return cloudpickle.dumps(thing)  # type: ignore[no-any-return, no-untyped-call]


@lru_cache(maxsize=8)
def load_program(held: bytes) -> Program:
    """The program of a job, unpacked once in each worker."""
    return pickle.loads(held)  # type: ignore[no-any-return]


def _reported(rows: Iterator[pa.RecordBatch], report: Report | None) -> Iterator[pa.RecordBatch]:
    """The rows of a task, while what it counted and what failed is reported too."""
    for row in rows:
        for message in messages([row]) if report is not None else ():
            if report is not None and message.kind in (Kind.COUNTS, Kind.FAILED):
                report((message.kind, message.head))
        yield row


def partition_number() -> int:
    """The number of the partition that this task runs on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def as_it_is(rows: Iterator[Any]) -> Iterator[Any]:
    return rows


def then(task: Task, convert: Task) -> Task:
    return lambda batches: convert(task(batches))


# Splits


def over_split(held: bytes, report: Report | None) -> SplitTask:
    def run(number: int, split: Split) -> Iterator[pa.RecordBatch]:
        return _reported(run_split(load_program(held), number, split), report)

    return run


def beginning_of(held: bytes) -> SplitTask:
    def run(number: int, split: Split) -> Iterator[pa.RecordBatch]:
        return find_beginning(number, split, *pickle.loads(held))

    return run


def survey_of(sought: Sought) -> SplitTask:
    return lambda number, split: survey_split(number, split, sought)


@dataclass(frozen=True)
class PackedSplits:
    """All splits of a source, as they travel with every task."""

    splits: Sequence[bytes]

    def split(self, number: int) -> Split:
        return pickle.loads(self.splits[number])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class AlignedLater(PackedSplits):
    """The same, moved to where regions begin by the tasks themselves, because no pass may run before.

    `beginning` has what `first_beginning` needs to know of the regions, packed.
    """

    beginning: bytes

    def split(self, number: int) -> Split:
        """Requires: the splits are those that were listed. May raise what a function of the user raises."""
        send, by = pickle.loads(self.beginning)
        return align_split(number, [pickle.loads(split) for split in self.splits], send, by)


def over_numbers(run: SplitTask, splits: PackedSplits) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _with_split(run, number, splits)

    return task


def _with_split(run: SplitTask, number: int, splits: PackedSplits) -> Iterator[pa.RecordBatch]:
    try:
        split = splits.split(number)
    except PenstockError as error:
        yield encode(failure_in(number, error))
        return
    yield from run(number, split)


def over_carried(run: SplitTask) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, split in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield from run(number, pickle.loads(split))

    return task


def over_all(held: bytes, splits: Sequence[bytes], report: Report | None) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from _reported(run_whole(load_program(held), [pickle.loads(split) for split in splits]), report)

    return task


# Partitions of a DataFrame, and blocks


def over_partition(held: bytes, report: Report | None) -> Task:
    return lambda batches: _reported(run_split(load_program(held), partition_number(), FrameSplit(batches)), report)


def survey_frame(sought: Sought) -> Task:
    return lambda batches: survey_split(partition_number(), FrameSplit(batches), sought)


def over_nothing(held: bytes) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from run_nothing(load_program(held))

    return task


def over_blocks(held: bytes, report: Report | None) -> Task:
    return lambda batches: _reported(run_received(load_program(held), batches), report)


# With the places of signals as a column


def place_all(control: bytes, skipped: dict[int, int], *, is_frame: bool) -> Task:
    """One row with the places of all signals, or with the error of looking for them, from the rows of a first pass."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        placed = place_arrived(pickle.loads(control), list(messages(batches)), skipped, is_frame=is_frame)
        yield pa.record_batch({"placement": pa.array([head_of(placed)], pa.binary())})

    return task


@lru_cache(maxsize=8)
def placed_program(held: bytes, control: bytes, placement: bytes) -> Program:
    """The program with the places of signals that a first pass found."""
    program = load_program(held)
    found = placement_of(read_record(PlacedSignals, placement), pickle.loads(control))
    has_places = any(output.has_places for output in program.stages[0].outputs)
    return replace(program, signals=found.signals, bases={} if has_places else found.bases)


def over_placed(held: bytes, control: bytes, splits: PackedSplits, *, is_whole: bool) -> Task:
    """Splits, each named by a row that also has the places of signals; or all of them for one row."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, placement in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                program = placed_program(held, control, placement)
                if is_whole:
                    yield from run_whole(program, [pickle.loads(split) for split in splits.splits])
                else:
                    yield from _with_split(partial(run_split, program), number, splits)

    return task


def over_placed_partition(held: bytes, control: bytes) -> Task:
    """The rows of a partition of a DataFrame, each of which also has the places of signals, as its last column."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        left = iter(batches)
        first = next((batch for batch in left if batch.num_rows), None)
        if first is None:
            return run_split(load_program(held), partition_number(), FrameSplit(()))
        program = placed_program(held, control, first.column(first.num_columns - 1)[0].as_py())
        rows = (batch.select(batch.schema.names[:-1]) for batch in chain([first], left))
        return run_split(program, partition_number(), FrameSplit(rows))

    return task
