"""The functions that Spark hands to its workers: what a task calls on the rows that it is given.

They hold bytes only, a program and splits that are unpacked where they run. A `SplitTask` runs on one split; `numbered`
and `carried` make it a task over rows that name splits, or carry them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.errors import ControlError, PenstockError
from penstock.graph.signal_indices import ITEMS
from penstock.spark.dataframe import FrameSplit
from penstock.spark.driver.monitor import Report, reporting
from penstock.spark.driver.results import raise_first
from penstock.spark.driver.survey import Sought, gathered, placed_by, seen_in
from penstock.spark.files.region_splits import first_beginning
from penstock.spark.streaming.arrived import run_frame, run_pieces
from penstock.spark.streaming.groups import PROPERTY
from penstock.spark.worker.block import blocks
from penstock.spark.worker.task import Program, answered, run_nothing, run_received, run_split, run_whole

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Any], Iterator[Any]]
SplitTask = Callable[[int, bytes], Iterator[pa.RecordBatch]]


def packed(thing: Any) -> bytes:
    """Anything, with the functions in it, as bytes for the way to the tasks."""
    from pyspark import cloudpickle

    return cloudpickle.dumps(thing)  # type: ignore[no-any-return, no-untyped-call]


@lru_cache(maxsize=8)
def unpacked_program(held: bytes) -> Program:
    """The program of a job, unpacked once in each worker."""
    return pickle.loads(held)  # type: ignore[no-any-return]


def over_split(held: bytes, report: Report | None) -> SplitTask:
    def run(number: int, split: bytes) -> Iterator[pa.RecordBatch]:
        return reporting(run_split(unpacked_program(held), number, pickle.loads(split)), report)

    return run


def beginning_of(held: bytes) -> SplitTask:
    def run(number: int, split: bytes) -> Iterator[pa.RecordBatch]:
        send, by = pickle.loads(held)
        # The first split begins with the stream, wherever its first region surely begins.
        return answered(number, lambda: first_beginning(send, by, pickle.loads(split)) if number else 0)

    return run


def survey_of(sought: Sought) -> SplitTask:
    def run(number: int, held: bytes) -> Iterator[pa.RecordBatch]:
        split = pickle.loads(held)
        return answered(number, lambda: seen_in(split.read(list(sought), ITEMS), split.label, sought))

    return run


def survey_frame(sought: Sought) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        split = FrameSplit(batches)
        return answered(_partition(), lambda: seen_in(split.read(list(sought), ITEMS), split.label, sought))

    return task


def over_partition(held: bytes, report: Report | None) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        return reporting(run_split(unpacked_program(held), _partition(), FrameSplit(batches)), report)

    return task


def place_all(control: bytes, skipped: dict[int, int], *, is_frame: bool) -> Task:
    """One row with the places of all signals, or with the error of looking for them, from the rows of a first pass."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        try:
            found = [block for batch in batches for block in blocks(batch)]
            raise_first(found, lambda failed: failed.error)
            seen = gathered(found)
            if is_frame:  # a partition without rows would not be told of its signals
                seen = {number: each for number, each in seen.items() if each[""].count}
                if not seen:
                    raise ControlError("control: a DataFrame without rows has no place for a signal; got none")
            answer: Any = placed_by(pickle.loads(control), seen, skipped)
        except PenstockError as error:
            answer = error
        yield pa.record_batch({"placement": pa.array([packed(answer)], pa.binary())})

    return task


@lru_cache(maxsize=8)
def placed_program(held: bytes, placement: bytes) -> Program:
    """The program with the places of signals that a first pass found."""
    program, found = unpacked_program(held), pickle.loads(placement)
    if isinstance(found, PenstockError):
        raise found
    has_places = any(output.has_places for output in program.stages[0].outputs)
    return replace(program, signals=found.signals, bases={} if has_places else found.bases)


def over_placed(held: bytes, splits: Sequence[bytes], *, is_whole: bool) -> Task:
    """Splits, each named by a row that also has the places of signals; or all of them for one row."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, placement in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                program = placed_program(held, placement)
                if is_whole:
                    yield from run_whole(program, [pickle.loads(split) for split in splits])
                else:
                    yield from run_split(program, number, pickle.loads(splits[number]))

    return task


def over_placed_partition(held: bytes) -> Task:
    """The rows of a partition of a DataFrame, each of which also has the places of signals, as its last column."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        left = iter(batches)
        first = next((batch for batch in left if batch.num_rows), None)
        if first is None:
            return run_split(unpacked_program(held), _partition(), FrameSplit(()))
        program = placed_program(held, first.column(first.num_columns - 1)[0].as_py())
        rows = (batch.select(batch.schema.names[:-1]) for batch in chain([first], left))
        return run_split(program, _partition(), FrameSplit(rows))

    return task


def over_nothing(held: bytes) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from run_nothing(unpacked_program(held))

    return task


def _partition() -> int:
    """The number of the partition that this task runs on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def batch_number() -> int:
    """The number of the micro-batch that this task belongs to."""
    return int(_property("streaming.sql.batchId") or 0)


def _property(name: str) -> str | None:
    """A property of the job that this task belongs to."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty(name)


def over_arrived(held: bytes, reader: bytes) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        arrived = (block for rows in batches for block in blocks(rows))
        program, groups = unpacked_program(held), _property(PROPERTY)
        return run_pieces(program, pickle.loads(reader), arrived, batch_number(), _partition(), groups)

    return task


def over_frame(held: bytes, order_by: Sequence[str]) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        return run_frame(unpacked_program(held), batches, order_by, _partition())

    return task


def as_it_is(rows: Iterator[Any]) -> Iterator[Any]:
    return rows


def then(task: Task, convert: Task) -> Task:
    return lambda batches: convert(task(batches))


def numbered(run: SplitTask, splits: Sequence[bytes]) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from run(number, splits[number])

    return task


def carried(
    run: SplitTask,
) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, split in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield from run(number, split)

    return task


def over_all(held: bytes, splits: Sequence[bytes], report: Report | None) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from reporting(
                    run_whole(unpacked_program(held), [pickle.loads(split) for split in splits]), report
                )

    return task


def over_blocks(held: bytes, report: Report | None) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        return reporting(run_received(unpacked_program(held), batches), report)

    return task
