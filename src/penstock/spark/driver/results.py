"""What comes back from the tasks of a job: results, what was counted, letters and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.graph import nodes as n
from penstock.spark.files.part import ResultPart
from penstock.spark.wire import Failed, Message, SkippedItem, SkippedItems, TaskCounts, TaskResult, decode
from penstock.spark.worker.task_failure import raise_first


@dataclass(frozen=True)
class JobOutput:
    """What came back from all tasks: results by leaf, in the order of the senders."""

    results: Mapping[int, list[TaskResult]]
    counts: tuple[TaskCounts, ...]
    skipped: tuple[SkippedItem, ...] = ()

    def parts(self, leaf: int = 0) -> tuple[ResultPart, ...]:
        """The files to which the result of a leaf was written, in order."""
        return parts_of(self.results.get(leaf, []))


def parts_of(results: Sequence[TaskResult]) -> tuple[ResultPart, ...]:
    return tuple(part for result in results for part in result.parts)


def gather(arrived: Sequence[Message]) -> JobOutput:
    """Sort what came back. Of several errors the first in the stream's order is raised."""
    raise_first(decode(arrived, Failed), lambda failed: failed.error)
    results: dict[int, list[TaskResult]] = {}
    for result in sorted(decode(arrived, TaskResult), key=lambda each: (each.sender, each.sequence)):
        results.setdefault(result.leaf, []).append(result)
    counts = sorted(decode(arrived, TaskCounts), key=lambda each: (each.stage, each.sender))
    letters = sorted(decode(arrived, SkippedItems), key=lambda each: (each.stage, each.sender))
    return JobOutput(results, tuple(counts), tuple(item for each in letters for item in each.items))


def table(leaf: n.GraphNode, results: Sequence[TaskResult], has_places: bool) -> pa.Table:
    """The result of a leaf as a table, in the order of the senders, or of the stream where rows have their places."""
    fields = dict(leaf.shape.fields) | ({n.PLACE: pa.int64()} if has_places else {})
    schema = pa.schema(list(fields.items()))
    rows = pa.Table.from_batches([pa.ipc.read_record_batch(result.payload, schema) for result in results], schema)
    if not has_places:
        return rows
    order = np.argsort(rows.column(n.PLACE).to_numpy(), kind="stable")
    return rows.drop_columns([n.PLACE]).take(pa.array(order))
