"""What a small run of a job on Spark took, as it was measured: what the model of clusters is made from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from penstock.errors import GraphError

SampleRole = Literal["alone", "cold", "full", "little", "many", "side by side", "warm"]
"""What a run of the sample is for, see `RunTime`."""

FIRST_PASS = -1
"""The level of tasks that go over the splits before all stages, to look where something begins."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One task: how long it had its slot, as the driver saw it, and how long of that its stage was at work.

    `bytes` and `items` came in. `peers` is to how many buckets it sends.
    """

    seconds: float
    work_s: float
    bytes: int
    items: int
    peers: int = 0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StageTime:
    """The tasks of a stage. Stages of one level run side by side; the next level begins when all of them are through.

    `kind` is what a task has: a "split" of the source, the bucket of a "key", a part of an "order", or the "whole".
    """

    name: str
    level: int
    kind: str
    tasks: tuple[TaskTime, ...]

    @property
    def bytes(self) -> int:
        return sum(task.bytes for task in self.tasks)


@dataclass(frozen=True, slots=True)
class RunTime:
    """One run of the sample: the whole time, and what of it passed before the first task and behind the last.

    `role` says what it is for: "cold" began with new Python workers; "little" had one split as small as there is, and
    "alone" one as large as the sample, so that one task ran at a time; "many" is as "little", with many buckets; "side
    by side" had several tasks for every slot, and "full" one, as large as the sample if the source has so much.
    `waits_s` are the times between levels, and `gap_s` is how long a slot was free between two tasks, in the mean.
    """

    role: SampleRole
    seconds: float
    before_s: float
    after_s: float
    waits_s: tuple[float, ...]
    gap_s: float
    stages: tuple[StageTime, ...]

    @property
    def source_bytes(self) -> int:
        """How much of the source it read."""
        return sum(stage.bytes for stage in self.stages if stage.level == 0)

    @property
    def source_items(self) -> int:
        return sum(task.items for stage in self.stages if stage.level == 0 for task in stage.tasks)

    def stage(self, name: str) -> StageTime | None:
        return next((stage for stage in self.stages if stage.name == name), None)


@dataclass(frozen=True, slots=True)
class JobProfile:
    """All runs of a sample of a graph, and where they ran: on `slots` of so many machines, with so many cores each.

    `dispatch_s` is how long the driver takes for a task that does nothing, as a bound from above. `graph` names the
    stages with their nodes, and `sink` what becomes of the result.
    """

    graph: tuple[str, ...]
    sink: str
    slots: int
    machines: int
    machine_cores: int
    dispatch_s: float
    runs: tuple[RunTime, ...]

    def of(self, role: SampleRole) -> tuple[RunTime, ...]:
        """The runs with a role."""
        return tuple(run for run in self.runs if run.role == role)

    def check(self, graph: Sequence[str], sink: str) -> None:
        """Refuse what is not a profile of this graph with this sink."""
        if tuple(graph) != self.graph:
            raise GraphError(
                f"scale: the profile must be one of the same graph, whose stages are {'; '.join(graph)}; got one of "
                f"{'; '.join(self.graph)}; leave profile= out, and it is measured again"
            )
        if sink != self.sink:
            raise GraphError(
                f"scale: the profile must be one of a run to {sink!r}; got one to {self.sink!r}; leave profile= out, "
                "and it is measured again"
            )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> JobProfile:
        """A profile that was kept as text."""
        fields = json.loads(text)
        return cls(**{**fields, "graph": tuple(fields["graph"]), "runs": tuple(map(_run, fields["runs"]))})


def _run(fields: Mapping[str, Any]) -> RunTime:
    return RunTime(**{**fields, "waits_s": tuple(fields["waits_s"]), "stages": tuple(map(_stage, fields["stages"]))})


def _stage(fields: Mapping[str, Any]) -> StageTime:
    return StageTime(**{**fields, "tasks": tuple(TaskTime(**task) for task in fields["tasks"])})
