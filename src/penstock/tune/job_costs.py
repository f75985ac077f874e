"""What the parts of a job on Spark cost, fitted to what a small run of it took.

A task costs `fixed + per_byte · bytes + per_peer · peers`, where peers are the tasks that it sends blocks to or gets
them from: a block of the shuffle costs alpha + beta · size, alpha being `per_peer` and beta a part of `per_byte`. Tasks
that run alone tell these. Tasks on all slots, small and large ones, tell what both become where all cores are busy: a
task keeps more than a core busy at times, and small ones mostly wait where large ones work. They also tell how much
tasks vary, and how uneven buckets are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from penstock.errors import ModelError
from penstock.tune.job_profile import JobProfile, RunTime, SampleRole, StageTime, TaskTime

ROLES: tuple[SampleRole, ...] = ("little", "alone", "side by side", "full")
"""The runs that a profile must have."""
APART = 1.5
"""So many times as large must a task be for two of them to tell what a byte costs."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a task of a stage costs, alone on its machine, and how much comes in for each byte of the source.

    `full_fixed_s` and `full_per_byte_s` are the same on a machine each of whose cores has a task; None: no more than
    alone. `spread` are measured times over what was expected, of tasks of `spread_bytes`. `hot` is the share of all
    that the largest bucket has beyond its due. `state_per_byte` is how much memory a byte that comes in leaves taken,
    beyond `peak_bytes`.
    """

    name: str
    level: int
    kind: str
    fixed_s: float
    per_byte_s: float
    per_peer_s: float = 0.0
    share: float = 1.0
    full_fixed_s: float | None = None
    full_per_byte_s: float | None = None
    spread: tuple[float, ...] = (1.0,)
    spread_bytes: float = 1.0
    hot: float = 0.0
    peak_bytes: int = 0
    state_per_byte: float = 0.0

    def seconds(self, size: float, peers: int = 0) -> float:
        """What a task costs on so many bytes that sends to or receives from so many others."""
        return self.fixed_s + self.per_byte_s * size + self.per_peer_s * max(0, peers - 1)

    def full(self, size: float, peers: int = 0) -> float:
        """How many times as long it takes on a machine each of whose cores has such a task.

        >>> StageCost("read", 0, "split", 1.0, 1.0, full_fixed_s=1.0, full_per_byte_s=2.0).full(3.0)
        1.75
        """
        more_s = (self.full_fixed_s or self.fixed_s) - self.fixed_s
        more_s += ((self.full_per_byte_s or self.per_byte_s) - self.per_byte_s) * size
        return 1.0 + max(0.0, more_s) / (self.seconds(size, peers) or 1.0)


@dataclass(frozen=True, slots=True)
class JobCost:
    """What a job costs: the driver's part, the waits before levels from the second on, and the stages.

    The driver takes `before_s` until the first task and `after_s + after_per_byte_s · bytes + after_per_task_s · tasks`
    behind the last: bytes of the source, and tasks that gave results. `start_s` is what the first task of a slot takes
    longer where its Python worker is not there yet.
    """

    stages: tuple[StageCost, ...]
    before_s: float = 0.0
    after_s: float = 0.0
    after_per_byte_s: float = 0.0
    after_per_task_s: float = 0.0
    waits_s: tuple[float, ...] = ()
    gap_s: float = 0.0
    dispatch_s: float = 0.0
    start_s: float = 0.0
    machine_cores: int = 1
    bytes_per_item: float = 0.0

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(sorted({stage.level for stage in self.stages}))

    def at(self, level: int) -> tuple[StageCost, ...]:
        return tuple(stage for stage in self.stages if stage.level == level)


def costs(profile: JobProfile) -> JobCost:
    """Fit the costs to a profile."""
    little, alone, beside, full = (profile.of(role) for role in ROLES)
    if not (little and alone and beside and full):
        raise ModelError(
            f"scale: a profile must have runs that are {', '.join(map(repr, ROLES[:-1]))} and {ROLES[-1]!r}; got "
            f"{sorted({run.role for run in profile.runs})}; leave profile= out, and it is measured again"
        )
    if not max(run.source_items for run in beside):
        raise ModelError("scale: the sample must have items; the source gave none; give a stream that has data")
    per_peer = _per_peer(profile)
    names = [stage.name for stage in beside[0].stages]
    stages = tuple(_stage(profile, name, per_peer) for name in names)
    fixed, per_byte, per_task = _after(profile)
    warm = [*little, *alone, *beside, *full]
    return JobCost(
        stages,
        median(run.before_s for run in warm),
        fixed,
        per_byte,
        per_task,
        tuple(median(waits) for waits in zip(*(run.waits_s for run in warm), strict=False)),
        median(run.gap_s for run in beside),
        profile.dispatch_s,
        max(0.0, _middle(profile.of("cold"), _seconds) - _middle(little, _seconds)),
        profile.machine_cores,
        beside[0].source_bytes / max(1, beside[0].source_items),
    )


def _seconds(run: RunTime) -> float:
    return run.seconds


def _middle(runs: Sequence[RunTime], of: Callable[[RunTime], float]) -> float:
    return median(map(of, runs)) if runs else 0.0


def _per_peer(profile: JobProfile) -> float:
    """What one more block costs its sender: the first stage with many buckets against that with one."""
    many, little = ([run.stages[_first(run)].tasks[0] for run in profile.of(role)] for role in ("many", "little"))
    if not many or many[0].peers <= little[0].peers:
        return 0.0
    more = median(task.seconds for task in many) - median(task.seconds for task in little)
    return max(0.0, more / (many[0].peers - little[0].peers))


def _first(run: RunTime) -> int:
    return next(at for at, stage in enumerate(run.stages) if stage.level == 0)


def _stage(profile: JobProfile, name: str, per_peer: float) -> StageCost:
    little, alone, beside, full = (_stages_of(profile, role, name) for role in ROLES)
    if not (little and alone and beside and full):
        raise ModelError(f"scale: each run of a profile must have the stage {name!r}; some have not; measure it again")
    fixed, per_byte = _line(little, alone)
    first, run = beside[0], profile.of("side by side")[0]
    exchanges = per_peer if first.level > 0 or any(task.peers for task in first.tasks) else 0.0
    cost = StageCost(name, first.level, first.kind, fixed, per_byte, exchanges)
    cost = _crowd_costs(profile, cost, beside, full)
    expected = _expected_time(profile, cost, first)
    ratios = [task.seconds / (expected(task) or 1.0) for stage in beside for task in stage.tasks]
    mean = sum(ratios) / len(ratios)
    peak = [max(task.peak_bytes for task in stages[0].tasks) for stages in (little, alone)]
    growth = max(0, peak[1] - peak[0]) / max(1, alone[0].bytes) if first.kind != "split" else 0.0
    return replace(
        cost,
        share=first.bytes / max(1, run.source_bytes),
        spread=tuple(ratio / mean for ratio in ratios),
        spread_bytes=first.bytes / len(first.tasks),
        hot=hot_share([task.bytes for task in first.tasks]) if first.kind == "key" else 0.0,
        peak_bytes=peak[0],
        state_per_byte=growth,
    )


def _stages_of(profile: JobProfile, role: SampleRole, name: str) -> list[StageTime]:
    return [stage for run in profile.of(role) if (stage := run.stage(name)) is not None]


def _expected_time(profile: JobProfile, cost: StageCost, stage: StageTime) -> Callable[[TaskTime], float]:
    """What a task of this stage is to take alone, by the costs."""
    run = next(run for run in profile.runs if stage in run.stages)
    senders = sum(len(each.tasks) for each in run.stages if each.level == stage.level - 1) if stage.level > 0 else 0
    return lambda task: cost.seconds(task.bytes, task.peers + senders)


def _crowd_costs(
    profile: JobProfile, cost: StageCost, beside: Sequence[StageTime], full: Sequence[StageTime]
) -> StageCost:
    """The costs with those on a machine each of whose cores has a task, from small tasks and large ones on all slots.

    Where these are of about one size, both costs grow alike.
    """
    (few, few_s), (much, much_s) = (_beyond(profile, cost, stages) for stages in (beside, full))
    here = min(-(-profile.slots // profile.machines), min(len(stage.tasks) for stage in (*beside, *full)))
    if here <= 1 or profile.machine_cores <= 1:
        return cost
    over, within = max(1.0, here / profile.machine_cores), min(here, profile.machine_cores)
    part = (profile.machine_cores - 1) / (within - 1)

    def on_all(alone_s: float, crowded_s: float) -> float:
        return max(alone_s, alone_s + (crowded_s / over - alone_s) * part)

    if much > APART * few and much_s > few_s:
        per_byte = min((much_s - few_s) / (much - few), much_s / much)
        fixed = few_s - per_byte * few
    else:
        factor = much_s / (cost.seconds(much) or 1.0)
        fixed, per_byte = factor * cost.fixed_s, factor * cost.per_byte_s
    return replace(cost, full_fixed_s=on_all(cost.fixed_s, fixed), full_per_byte_s=on_all(cost.per_byte_s, per_byte))


def _beyond(profile: JobProfile, cost: StageCost, stages: Sequence[StageTime]) -> tuple[float, float]:
    """The bytes of a task, and its seconds beyond what single blocks cost: the means of a run, of these the middle."""
    means = []
    for stage in stages:
        expected = _expected_time(profile, replace(cost, fixed_s=0.0, per_byte_s=0.0), stage)
        means.append(sum(task.seconds - expected(task) for task in stage.tasks) / len(stage.tasks))
    return stages[0].bytes / len(stages[0].tasks), median(means)


def _line(little: Sequence[StageTime], alone: Sequence[StageTime]) -> tuple[float, float]:
    """The fixed cost of a task and that of a byte, from one that had little and one that had much.

    Where these are of about one size, all that passes outside the work proper is taken for fixed.
    """
    (few, few_s), (much, much_s) = ((stages[0].tasks[0].bytes, _task_s(stages)) for stages in (little, alone))
    if much > APART * few and much_s > few_s:
        per_byte = min((much_s - few_s) / (much - few), much_s / much)
        return max(0.0, few_s - per_byte * few), per_byte
    work_s = min(much_s, median(stage.tasks[0].work_s for stage in alone))
    return much_s - work_s, work_s / max(1, much)


def _task_s(stages: Sequence[StageTime]) -> float:
    return median(stage.tasks[0].seconds for stage in stages)


def hot_share(sizes: Sequence[int]) -> float:
    """The share of all that the largest of some buckets has beyond its due: what does not get less with more buckets.

    >>> hot_share([10, 10, 10, 10]), hot_share([40, 20, 20, 20])
    (0.0, 0.2)
    """
    total, count = sum(sizes), len(sizes)
    if count < 2 or not total:
        return 0.0
    return round(max(0.0, max(sizes) / total * count - 1.0) / (count - 1), 12)


def _after(profile: JobProfile) -> tuple[float, float, float]:
    """What the driver does behind the last task: fixed, for each byte of the source, and for each task."""
    little, alone, beside = (profile.of(role) for role in ("little", "alone", "side by side"))
    few, much = little[0].source_bytes, alone[0].source_bytes
    fixed = _middle(little, lambda run: run.after_s)
    more = _middle(alone, lambda run: run.after_s) - fixed
    per_byte = max(0.0, more / (much - few)) if much > APART * few else 0.0
    last = max(stage.level for stage in beside[0].stages)
    tasks = sum(len(stage.tasks) for stage in beside[0].stages if stage.level == last)
    left = _middle(beside, lambda run: run.after_s) - fixed - per_byte * (beside[0].source_bytes - few)
    return max(0.0, fixed - per_byte * few), per_byte, max(0.0, left) / max(1, tasks - 1)
