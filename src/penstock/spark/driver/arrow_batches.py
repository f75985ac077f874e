"""The result of a job, handed out batch by batch, so that the driver never holds it as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import GraphError
from penstock.spark.dataframe import Data
from penstock.spark.driver.results import raise_first
from penstock.spark.worker.block import Block, blocks

if TYPE_CHECKING:
    from penstock.spark.driver.batch import BatchJob

SCHEMA = "is_data boolean, batch binary"


def arrow_batches(job: BatchJob, others: list[Block]) -> Iterator[pa.RecordBatch]:
    """The only result of a job, partition by partition. Blocks that tell of the run are appended to `others`."""
    if len(job.leaves) > 1:
        raise GraphError(f"run: batches() on Spark has one result; got {len(job.leaves)}; collect them, or run each")
    for row in job.rows(None, (SCHEMA, pack)).toLocalIterator():
        batch = pa.ipc.open_stream(row.batch).read_next_batch()
        if row.is_data:
            yield batch
        else:
            others += blocks(batch)
            raise_first(others, job.told)


def pack(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Each batch that a task gives as one row: of the result, or blocks that tell of the run."""
    for each in rows:
        batch = each.rows if isinstance(each, Data) else each
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        columns = [pa.array([isinstance(each, Data)]), pa.array([sink.getvalue().to_pybytes()], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["is_data", "batch"])
