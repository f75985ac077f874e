"""The result of a job, handed out batch by batch, so that the driver never holds it as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import GraphError
from penstock.spark.dataframe import FrameRows
from penstock.spark.driver.batch_source import RowsAs
from penstock.spark.wire import Failed, Message, decode, messages
from penstock.spark.worker.task_failure import raise_first

if TYPE_CHECKING:
    from penstock.spark.driver.batch import BatchJob

SCHEMA = "is_data boolean, batch binary"


def arrow_batches(job: BatchJob, others: list[Message]) -> Iterator[pa.RecordBatch]:
    """The only result of a job, partition by partition. Messages about the run are appended to `others`."""
    leaves = job.plan.leaves
    if len(leaves) > 1:
        raise GraphError(f"run: batches() on Spark has one result; got {len(leaves)}; collect them, or run each")
    for row in job.rows(None, RowsAs(SCHEMA, as_rows)).toLocalIterator():
        batch = pa.ipc.open_stream(row.batch).read_next_batch()
        if row.is_data:
            yield batch
        else:
            others += messages([batch])
            raise_first(decode(others, Failed), job.actions.user_error)


def as_rows(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Each batch that a task gives as one row: of the result, or messages about the run."""
    for each in rows:
        batch = each.rows if isinstance(each, FrameRows) else each
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        columns = [pa.array([isinstance(each, FrameRows)]), pa.array([sink.getvalue().to_pybytes()], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["is_data", "batch"])
