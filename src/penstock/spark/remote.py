"""The functions that Spark hands to its workers: what a task calls on the rows that it is given.

They hold bytes only, a program and splits that are unpacked where they run. A `SplitTask` runs on one split; `numbered`
and `carried` make it a task over rows that name splits, or carry them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.graph.placing import ITEMS
from penstock.spark.align import first_beginning
from penstock.spark.block import blocks
from penstock.spark.frame import FrameSplit
from penstock.spark.monitor import Report, reporting
from penstock.spark.stream.arrived import run_frame, run_pieces
from penstock.spark.survey import Sought, seen_in
from penstock.spark.task import Program, answered, run_nothing, run_received, run_split, run_whole

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
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or 0)


def over_arrived(held: bytes, reader: bytes) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        arrived = (block for rows in batches for block in blocks(rows))
        return run_pieces(unpacked_program(held), pickle.loads(reader), arrived, batch_number(), _partition())

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
