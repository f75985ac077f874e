"""Which partition takes which bucket. Knows nothing of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.stages import Cut
from penstock.spark.worker.program import sender_of


@dataclass(frozen=True)
class BucketLayout:
    """How many buckets each stage has, and the partitions that they are.

    All stages of a level share one shuffle, so each bucket has a partition of its own among those of its level.
    """

    splits: int
    targets: Mapping[int, tuple[int, ...]]
    senders: Mapping[int, tuple[int, ...]]
    partitions: tuple[int, ...]
    """By level, from the second on: how many partitions it has."""


def lay_out(cut: Cut, splits: int, buckets: int, at_most: int | None = None) -> BucketLayout:
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
    return BucketLayout(at_most or first, targets, senders, tuple(partitions[1:]))
