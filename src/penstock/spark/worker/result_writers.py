"""How the tasks hand on a result: its rows, or the files to which they have written them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.spark.files.part import PartWriter, Staging
from penstock.spark.wire import TaskResult, encode


class CollectWriter:
    """Hands a result to the driver."""

    def __init__(self, leaf: int, sender: int) -> None:
        self.leaf, self.sender, self.sequence, self.bytes = leaf, sender, 0, 0

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.num_rows:
            payload = rows.serialize()
            self.bytes += payload.size
            yield encode(TaskResult(self.leaf, self.sender, self.sequence, payload=payload))
            self.sequence += 1

    def finish(self) -> Iterator[pa.RecordBatch]:
        return iter(())

    def abort(self) -> None:
        """Nothing is left behind."""


@dataclass(frozen=True)
class PartResults:
    """Makes the writers of the tasks."""

    staging: Staging

    def __call__(self, leaf: int, sender: int) -> PartResultWriter:
        return PartResultWriter(self.staging, leaf, sender)


class PartResultWriter:
    """Writes the result of one sender to parts, and reports them in one row."""

    def __init__(self, staging: Staging, leaf: int, sender: int) -> None:
        self.leaf, self.sender = leaf, sender
        self.writer = PartWriter(staging, (sender,))
        self.bytes = 0

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.writer.write(rows)
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        parts = self.writer.close()
        self.bytes = sum(part.bytes for part in parts)
        yield encode(TaskResult(self.leaf, self.sender, parts=parts))

    def abort(self) -> None:
        self.writer.abort()
