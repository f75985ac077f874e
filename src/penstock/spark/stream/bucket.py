"""A stage of a running stream as Spark calls it: once a bucket in each micro-batch, with a store that survives."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from penstock.spark.block import Block
from penstock.spark.remote import batch_number, unpacked_program
from penstock.spark.stream.arrived import run_together
from penstock.spark.stream.keeper import StateKeeper
from penstock.spark.task import run_blocks

if TYPE_CHECKING:
    import pandas as pd

_HELD = StructType([StructField("held", BinaryType())])
NOW = "now"
"""The column that holds the time of the micro-batch in milliseconds, where keys go idle by that."""
_PAGE = StructType([StructField("group", IntegerType()), StructField("page", IntegerType())])


class SparkStore:
    """The frame and the pages of the bucket that is at work, in Spark's state store."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.frames = handle.getValueState("frame", _HELD)
        self.pages = handle.getMapState("pages", _PAGE, _HELD)

    def frame(self) -> bytes | None:
        found = self.frames.get()
        return None if found is None else bytes(found[0])

    def put_frame(self, held: bytes) -> None:
        self.frames.update((held,))

    def page(self, group: int, page: int) -> bytes | None:
        found = self.pages.getValue((group, page))
        return None if found is None else bytes(found[0])

    def put_page(self, group: int, page: int, held: bytes) -> None:
        self.pages.updateValue((group, page), (held,))

    def drop_page(self, group: int, page: int) -> None:
        self.pages.removeKey((group, page))

    def all_pages(self, group: int) -> Iterable[tuple[int, bytes]]:
        for (of, page), (held,) in self.pages.iterator():
            if of == group:
                yield page, bytes(held)


class Bucket(StatefulProcessor):
    """Runs the stages of one level of a running stream: those whose blocks arrive, or the first one on whole files."""

    def __init__(self, held: bytes, reader: bytes | None = None) -> None:
        self.held, self.reader = held, reader

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        program = unpacked_program(self.held)
        now, rows = _time_of(rows)
        arrived = _blocks(rows)
        if self.reader is None:
            pairs = ((int(key[0]), block) for block in arrived)
            made = run_blocks(program, pairs, StateKeeper(self.store, now))
        else:
            made = run_together(program, pickle.loads(self.reader), arrived, batch_number(), StateKeeper(self.store))
        for each in made:
            yield each.to_pandas()

    def close(self) -> None:
        """Nothing is held open."""


def _time_of(rows: Iterator[pd.DataFrame]) -> tuple[int | None, Iterator[pd.DataFrame]]:
    """The time of the micro-batch in milliseconds, where the rows tell it, and the rows."""
    first = next(rows, None)
    if first is None:
        return None, iter(())
    return int(first[NOW].iloc[0]) if NOW in first else None, chain([first], rows)


def _blocks(rows: Iterator[pd.DataFrame]) -> Iterator[Block]:
    for frame in rows:
        columns = [frame[name] for name in ("stage", "sender", "sequence", "is_last", "head", "payload")]
        for stage, sender, sequence, is_last, head, payload in zip(*columns, strict=True):
            held = pa.py_buffer(payload or b"")
            yield Block(int(stage), int(sender), int(sequence), bool(is_last), head, held)
