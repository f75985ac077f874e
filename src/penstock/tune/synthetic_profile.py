"""Profiles of jobs that were never run, for examples and tests: what a job with known costs would have shown."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.tune.cluster import Cluster, DataSize, Tasks, tasks_of
from penstock.tune.job_costs import JobCost, StageCost
from penstock.tune.job_profile import JobProfile, RunTime, SampleRole, StageTime, TaskTime

LITTLE, MUCH, MANY = 1 << 20, 64 << 20, 64


def synthetic_profile(
    graph: Sequence[str], cost: JobCost | None = None, *, sink: str = "collect", slots: int = 2, machines: int = 1
) -> JobProfile:
    """The profile of a job with these costs; without any, of one stage with 10 ms a task and 10 ns a byte.

    >>> from penstock.tune.job_costs import costs
    >>> stage = costs(synthetic_profile(["stage 1"])).stages[0]
    >>> round(stage.fixed_s, 6), round(stage.per_byte_s, 12)
    (0.01, 1e-08)
    """
    cost = cost or JobCost((StageCost("stage 1", 0, "split", 0.01, 1e-8),), before_s=0.1, after_s=0.1)
    beside = max(8, 2 * slots)
    runs = [
        _run("cold", cost, LITTLE, 1, 1, cost.start_s),
        _run("little", cost, LITTLE, 1, 1),
        _run("alone", cost, MUCH, 1, 1),
        _run("many", cost, LITTLE, 1, MANY),
        _run("side by side", cost, MUCH, beside, beside, is_full=True),
        _run("full", cost, slots * MUCH, slots, slots, is_full=True),
    ]
    return JobProfile(tuple(graph), sink, slots, machines, cost.machine_cores, cost.dispatch_s, tuple(runs))


def _run(
    role: SampleRole,
    cost: JobCost,
    size: int,
    splits: int,
    buckets: int,
    start_s: float = 0.0,
    *,
    is_full: bool = False,
) -> RunTime:
    data, cluster = DataSize(size, splits), Cluster(buckets=buckets)
    levels = list(tasks_of(cost, data, cluster, buckets))
    stages = tuple(_stage(tasks, buckets, is_full) for level in levels for tasks in level)
    last = sum(len(tasks.bytes) for tasks in levels[-1])
    after = cost.after_s + cost.after_per_byte_s * size + cost.after_per_task_s * (last - 1)
    work = sum(task.seconds for stage in stages for task in stage.tasks)
    total = cost.before_s + start_s + sum(cost.waits_s) + work + after
    return RunTime(role, total, cost.before_s, after, cost.waits_s, cost.gap_s, stages)


def _stage(tasks: Tasks, buckets: int, is_full: bool) -> StageTime:
    stage = tasks.stage
    peers = buckets if stage.per_peer_s and stage.level == 0 else 0
    times = tuple(
        TaskTime(_task_s(tasks, size, is_full), stage.per_byte_s * size, int(size), int(size), peers)
        for size in tasks.bytes
    )
    return StageTime(stage.name, stage.level, stage.kind, times)


def _task_s(tasks: Tasks, size: float, is_full: bool) -> float:
    factor = tasks.stage.full(size, tasks.peers) if is_full else 1.0
    return factor * tasks.stage.seconds(size, tasks.peers)
