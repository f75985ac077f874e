"""The functions that Spark hands to its workers for the first stage of a running stream."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.spark.streaming.arrived import Arrived, run_frame, run_pieces
from penstock.spark.streaming.groups import PROPERTY
from penstock.spark.wire import Kind, Message, messages
from penstock.spark.worker.remote import Batches, Task, load_program, partition_number


def over_arrived(held: bytes, reader: bytes) -> Task:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        program, groups, arrived = load_program(held), _property(PROPERTY), arrived_in(messages(batches))
        return run_pieces(program, pickle.loads(reader), arrived, batch_number(), partition_number(), groups)

    return task


def over_frame(held: bytes, order_by: Sequence[str]) -> Task:
    return lambda batches: run_frame(load_program(held), batches, order_by, partition_number())


def arrived_in(arrived: Iterable[Message]) -> Iterator[Arrived]:
    """The files and signals that some messages name."""
    return (each.decode() for each in arrived if each.kind in (Kind.FILE, Kind.SIGNAL))


def batch_number() -> int:
    """The number of the micro-batch that this task belongs to."""
    return int(_property("streaming.sql.batchId") or 0)


def _property(name: str) -> str | None:
    """A property of the job that this task belongs to."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty(name)
