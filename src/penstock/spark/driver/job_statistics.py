"""What the tasks of a job counted, put together by stage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from penstock.engine.statistics import NodeStatistics, Statistics
from penstock.plan.stages import Cut
from penstock.spark.wire import TaskCounts


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """One stage, over all its tasks. `skew` is the largest number of items that a task had, over their mean.

    `busy_s` is how long each core of a task was at work, in all tasks together. `late` is how many items came after
    their windows had closed.
    """

    name: str
    tasks: int
    items: int
    rows: int
    bytes: int
    seconds: float
    skew: float
    peak_bytes: int
    nodes: tuple[NodeStatistics, ...]
    busy_s: tuple[float, ...] = ()
    late: int = 0


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """A job on Spark: its stages from the source on, and how long it took as a whole."""

    seconds: float
    stages: tuple[StageStatistics, ...]
    skipped: int = 0
    """How many letters there are: items that were skipped, once for each node at which they failed."""

    @property
    def late(self) -> int:
        """How many items came after their windows had closed."""
        return sum(stage.late for stage in self.stages)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.as_dict())

    def __str__(self) -> str:
        lines = []
        for stage in self.stages:
            lines.append(
                f"{stage.name}: {stage.tasks:,} tasks, {stage.items:,} items in, {stage.rows:,} rows out, skew "
                f"{stage.skew:.2f}, {stage.seconds:.2f} s of work, at most {stage.peak_bytes / 1e6:,.0f} MB a worker"
            )
            if len(stage.busy_s) > 1:
                lines.append("  at work on each core of a task: " + ", ".join(f"{s:.2f} s" for s in stage.busy_s))
            lines += [
                f"  {line}" for line in str(Statistics(0, stage.seconds, stage.nodes, (), late=stage.late)).splitlines()
            ]
        lines += [f"{self.skipped:,} items skipped"] if self.skipped else []
        return "\n".join(lines)


def job_statistics(cut: Cut, counted: Sequence[TaskCounts], seconds: float, skipped: int = 0) -> JobStatistics:
    """Put together what all tasks counted."""
    stages = []
    for stage in cut.stages:
        mine = [each for each in counted if each.stage == stage.number]
        items = [each.items for each in mine]
        mean = sum(items) / len(items) if items else 0.0
        stages.append(
            StageStatistics(
                stage.name,
                len(mine),
                sum(items),
                sum(each.rows for each in mine),
                sum(each.bytes for each in mine),
                sum(each.seconds for each in mine),
                max(items) / mean if mean else 1.0,
                max((each.peak_bytes for each in mine), default=0),
                _together([each.statistics for each in mine]),
                tuple(map(sum, zip_longest(*(each.busy_s for each in mine), fillvalue=0.0))),
                sum(each.statistics.late for each in mine),
            )
        )
    return JobStatistics(seconds, tuple(stages), skipped)


def _together(found: Sequence[Statistics]) -> tuple[NodeStatistics, ...]:
    """The nodes of several runs of one stage, each as one. Runs on several cores need not have the same."""
    same: dict[str, list[NodeStatistics]] = {}
    for node in (node for run in found for node in run.nodes):
        same.setdefault(node.name, []).append(node)
    return tuple(_sum(nodes) for nodes in same.values())


def _sum(same: Sequence[NodeStatistics]) -> NodeStatistics:
    ensembles = sum(node.ensembles for node in same)
    outputs: dict[str, int] = {}
    for node in same:
        for name, count in node.outputs_per_input.items():
            outputs[name] = outputs.get(name, 0) + count
    return NodeStatistics(
        same[0].name,
        sum(node.firings for node in same),
        ensembles,
        sum(node.full for node in same),
        sum(node.items for node in same),
        sum(node.occupancy * node.ensembles for node in same) / ensembles if ensembles else 0.0,
        sum(node.signals for node in same),
        sum(node.outputs for node in same),
        outputs,
        sum(node.seconds for node in same),
    )
