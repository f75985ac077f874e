"""A stage of a running stream as Spark calls it: once a bucket in each micro-batch, with a store that survives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.spark.streaming.arrived import run_together
from penstock.spark.streaming.keeper import StateKeeper
from penstock.spark.streaming.state_store import SparkStore
from penstock.spark.streaming.stream_tasks import arrived_in, batch_number
from penstock.spark.wire import Message
from penstock.spark.worker.remote import load_program
from penstock.spark.worker.task import run_blocks
from penstock.spark.worker.task_failure import refuse_commit

if TYPE_CHECKING:
    import pandas as pd

NOW = "now"
"""The column that holds the time of the micro-batch in milliseconds, where keys go idle by that."""


class Bucket(StatefulProcessor):
    """Runs the stages of one level of a running stream: those whose blocks arrive, or the first one on whole files."""

    def __init__(self, held: bytes, reader: bytes | None = None) -> None:
        self.held, self.reader = held, reader

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        program = load_program(self.held)
        now, rows = _time_of(rows)
        arrived = _messages(rows, int(key[0]))
        if self.reader is None:
            sent = run_blocks(program, arrived, StateKeeper(self.store, now))
        else:
            reader, keeper = pickle.loads(self.reader), StateKeeper(self.store)
            sent = run_together(program, reader, arrived_in(arrived), batch_number(), keeper)
        for each in sent:
            refuse_commit(each)
            yield each.to_pandas()

    def close(self) -> None:
        """Nothing is held open."""


def _time_of(rows: Iterator[pd.DataFrame]) -> tuple[int | None, Iterator[pd.DataFrame]]:
    """The time of the micro-batch in milliseconds, where the rows tell it, and the rows."""
    first = next(rows, None)
    if first is None:
        return None, iter(())
    return int(first[NOW].iloc[0]) if NOW in first else None, chain([first], rows)


def _messages(rows: Iterator[pd.DataFrame], target: int) -> Iterator[Message]:
    for frame in rows:
        columns = [frame[name] for name in ("kind", "head", "payload")]
        for kind, head, payload in zip(*columns, strict=True):
            yield Message(target, int(kind), bytes(head), pa.py_buffer(payload or b""))
