"""A job: which partition takes which bucket, and what comes back from the tasks. Knows nothing of a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.options import draw_seed
from penstock.errors import PenstockError, hides_values
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.plan.stages import Cut
from penstock.spark.worker.block import Block, row
from penstock.spark.worker.task import COUNTED, RESULT, SKIPPED, Counted, Program, ResultWriter, Skipped, sender_of
from penstock.spark.worker.task_failure import FAILED, Failed, first


@dataclass(frozen=True)
class Layout:
    """How many buckets each stage has, and the partitions that they are.

    All stages of a level share one shuffle, so each bucket has a partition of its own among those of its level.
    """

    splits: int
    targets: Mapping[int, tuple[int, ...]]
    senders: Mapping[int, tuple[int, ...]]
    partitions: tuple[int, ...]
    """By level, from the second on: how many partitions it has."""


def laid_out(cut: Cut, splits: int, buckets: int, at_most: int | None = None) -> Layout:
    """Give every stage its buckets: one for the whole stream, and for keys and parts in order as many as are asked for.

    Of a DataFrame only `at_most` is known: it has no more splits, and which of them sent anything is seen by receivers.
    """
    targets: dict[int, tuple[int, ...]] = {}
    senders: dict[int, tuple[int, ...]] = {}
    partitions = [0] * cut.levels
    first = 1 if cut.is_whole else splits
    counts = {0: first}
    for stage in cut.stages[1:]:
        assert stage.reads is not None
        count = {"key": buckets, "whole": 1, "order": buckets}[stage.reads.kind]
        start = partitions[stage.level]
        targets[stage.number] = tuple(range(start, start + count))
        partitions[stage.level] += count
        counts[stage.number] = count
        senders[stage.number] = tuple(
            sender_of(output, each)
            for before in cut.stages
            for output in before.outputs
            if output.stage == stage.number
            for each in range(counts[before.number])
        )
    return Layout(at_most or first, targets, senders, tuple(partitions[1:]))


class CollectWriter:
    """Hands a result to the driver as block rows."""

    def __init__(self, leaf: int, sender: int) -> None:
        self.leaf, self.sender, self.sequence, self.bytes = leaf, sender, 0, 0

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.num_rows:
            payload = rows.serialize()
            self.bytes += payload.size
            yield row(0, RESULT, self.sender, self.sequence, False, pickle.dumps(self.leaf), payload)
            self.sequence += 1

    def finish(self) -> Iterator[pa.RecordBatch]:
        return iter(())

    def abort(self) -> None:
        """Nothing is left behind."""


@dataclass(frozen=True)
class Gathered:
    """What came back from all tasks."""

    results: Mapping[int, list[Block]]
    counted: tuple[Counted, ...]
    skipped: tuple[Skipped, ...] = ()


def gathered(arrived: Sequence[Block]) -> Gathered:
    """Sort what came back. Of several errors the first in the stream's order is raised."""
    raise_first(arrived, lambda failed: failed.error)
    results: dict[int, list[Block]] = {}
    for block in arrived:
        if block.stage == RESULT:
            results.setdefault(pickle.loads(block.head), []).append(block)
    counted = [pickle.loads(block.head) for block in arrived if block.stage == COUNTED]
    for found in results.values():
        found.sort(key=lambda block: (block.sender, block.sequence))
    skipped = [each for block in _by_sender(arrived, SKIPPED) for each in pickle.loads(block.head)]
    return Gathered(results, tuple(sorted(counted, key=lambda each: (each.stage, each.sender))), tuple(skipped))


def _by_sender(arrived: Sequence[Block], kind: int) -> list[Block]:
    """The rows of a kind, by stage and task."""
    return sorted((block for block in arrived if block.stage == kind), key=lambda each: (each.sequence, each.sender))


def raise_first(arrived: Sequence[Block], told: Callable[[Failed], PenstockError]) -> None:
    """Raise the first error in the stream's order, where there is one."""
    found = [pickle.loads(block.head) for block in arrived if block.stage == FAILED]
    if found:
        raise told(first(found))


def table(leaf: n.GraphNode, found: Sequence[Block], has_places: bool) -> pa.Table:
    """The result of a leaf as a table, in the order of the senders, or of the stream where rows have their places."""
    fields = dict(leaf.shape.fields) | ({n.PLACE: pa.int64()} if has_places else {})
    schema = pa.schema(list(fields.items()))
    made = pa.Table.from_batches([pa.ipc.read_record_batch(block.payload, schema) for block in found], schema)
    if not has_places:
        return made
    order = np.argsort(made.column(n.PLACE).to_numpy(), kind="stable")
    return made.drop_columns([n.PLACE]).take(pa.array(order))


def program_of(
    cut: Cut,
    layout: Layout,
    results: Callable[[int, int], ResultWriter],
    options: Mapping[str, Any],
    signals: Mapping[int, tuple[tuple[int, Signal], ...]],
    bases: Mapping[int, int],
    cores: Mapping[int, int] | None = None,
    *,
    is_measured: bool = False,
) -> Program:
    """What tasks need to know. Where items are to be sent with their indices in the split, these begin at 0."""
    given = {} if any(output.has_places for output in cut.stages[0].outputs) else bases
    return Program(
        cut.stages,
        layout.targets,
        layout.senders,
        results,
        {"hash_seed": draw_seed(), **options},
        signals,
        given,
        layout.splits,
        cores=cores or {},
        hides_values=hides_values(),
        is_measured=is_measured,
    )
