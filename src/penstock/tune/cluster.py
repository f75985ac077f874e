"""Clusters on paper: how long a job of Spark will take on n executors, from the costs that a small run of it showed.

Levels of stages follow each other. At each level there are as many tasks as Penstock would make: splits of the source,
or buckets, of which each slot gets one. Every task costs what `costs` has fitted, times a measured deviation, times the
factor of a straggler where it is one; and `schedule` tells how long the list of them takes.

What the model leaves out: failures, the garbage collector at a full heap, other users of the cluster, and speculative
copies. A task runs on one core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import ModelError
from penstock.tune.job_costs import JobCost, StageCost
from penstock.tune.schedule import Slots, makespan

SPLIT_BYTES = 64 << 20
TASKS_A_CORE = 4
"""As the driver cuts a source: splits of so many bytes, or smaller ones, until each slot has so many."""
DRAWS = 9
DRAWN_TASKS = 20_000
"""Fewer draws are made where there are more tasks: what varies evens out among them."""


@dataclass(frozen=True)
class DataSize:
    """How much data a job is to have: bytes of the source, as splits count them.

    `splits` is how many there are, where that is known; `sizes` are those of each, by how many slots there are, and
    count for those numbers of slots that are nearest.
    """

    bytes: float
    splits: int | None = None
    sizes: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.bytes > 0 or not math.isfinite(self.bytes):
            raise ModelError(f"scale: data= must be more than no bytes; got {self.bytes!r}; say how much there will be")
        if self.splits is not None and self.splits < 1:
            raise ModelError(f"scale: data= must have 1 split or more; got splits={self.splits!r}")

    def cut(self, slots: int, split_bytes: int | None) -> Sequence[float]:
        """The sizes of the splits on so many slots."""
        if self.sizes:
            return self.sizes[min(self.sizes, key=lambda known: abs(math.log(known / slots)))]
        wanted = split_bytes or min(SPLIT_BYTES, self.bytes / (TASKS_A_CORE * slots) + 1)
        count = self.splits or max(1, math.ceil(self.bytes / wanted))
        return [self.bytes / count] * count


@dataclass(frozen=True)
class Cluster:
    """What there is beside the number of executors: their cores, and what makes the job slower.

    A cluster is cut for two slots at least, as Spark does; `local` is Spark in one process, which may have one.
    `machines` is on how many machines all executors are, each like that of the profile; None: each on one of its own.
    `skew` is the largest bucket over the mean, at every number of buckets; None: the share of the hottest one stays as
    in the sample. `stragglers` is the probability that a task is one, and how many times as long it takes. `cold` adds
    the start of the Python workers. `bandwidth` (bytes/s) is what an executor gets from others in the shuffle, and
    `storage` (bytes/s) what all of them together get from the source; without them, both are as measured.
    """

    cores: int = 1
    machines: int | None = None
    skew: float | None = None
    stragglers: tuple[float, float] = (0.0, 1.0)
    cold: bool = False
    bandwidth: float | None = None
    storage: float | None = None
    buckets: int | None = None
    split_bytes: int | None = None
    local: bool = False

    def __post_init__(self) -> None:
        for name in ("cores", "machines", "buckets", "split_bytes"):
            whole(name, getattr(self, name))
        for name in ("bandwidth", "storage"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ModelError(f"scale: {name} must be more than 0 bytes a second, or None; got {value!r}")
        if self.skew is not None and not self.skew >= 1:
            raise ModelError(f"scale: skew, the largest bucket over the mean, must be 1 or more; got {self.skew!r}")
        if len(tuple(self.stragglers)) != 2 or not (0 <= self.stragglers[0] <= 1 and self.stragglers[1] >= 1):
            raise ModelError(
                "scale: stragglers must be a probability and a factor of 1 or more, as (0.02, 5); got "
                f"{self.stragglers!r}"
            )

    def slots(self, cost: JobCost, executors: int) -> Slots:
        """The slots of so many executors."""
        count = executors * self.cores
        machines = min(self.machines or executors, count)
        each = tuple(count // machines + (at < count % machines) for at in range(machines))
        cores = cost.machine_cores if self.machines else max(self.cores, cost.machine_cores)
        return Slots(each, cores, cost.dispatch_s, cost.gap_s)


def whole(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ModelError(f"scale: {name} must be a whole number of at least 1; got {value!r}")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one stage: the bytes that come into each, and to or from how many others blocks go for each."""

    stage: StageCost
    bytes: Sequence[float]
    peers: int

    def seconds(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """What each would take alone, without luck."""
        return np.array([self.stage.seconds(size, self.peers) for size in self.bytes])


def tasks_of(cost: JobCost, data: DataSize, cluster: Cluster, slots: int) -> Iterator[tuple[Tasks, ...]]:
    """The tasks of every level in turn."""
    sizes = data.cut(slots, cluster.split_bytes)
    senders = 0
    for level in cost.levels:
        stages, later = cost.at(level), cost.at(level + 1) if level >= 0 else ()
        targets = sum(_count(stage, sizes, cluster.buckets or slots) for stage in later)
        made = []
        for stage in stages:
            count = _count(stage, sizes, cluster.buckets or slots)
            inside = sizes if count == len(sizes) and stage.kind == "split" else _buckets(stage, data, cluster, count)
            made.append(Tasks(stage, inside, targets + senders))
        yield tuple(made)
        senders = sum(len(tasks.bytes) for tasks in made) if level >= 0 else 0


def _count(stage: StageCost, splits: Sequence[float], buckets: int) -> int:
    return {"split": len(splits), "whole": 1}.get(stage.kind, buckets)


def _buckets(stage: StageCost, data: DataSize, cluster: Cluster, count: int) -> list[float]:
    """The bytes of every bucket, the largest first."""
    total = stage.share * data.bytes
    if count == 1:
        return [total]
    hot = stage.hot
    if cluster.skew is not None and stage.kind == "key":
        hot = (min(cluster.skew, count) - 1) / (count - 1)
    rest = (1 - hot) * total / count
    return [hot * total + rest, *([rest] * (count - 1))]


@dataclass(frozen=True, slots=True)
class Point:
    """What is predicted of one number of executors: seconds in the mean, and from the lowest to the highest tenth.

    `causes` says what the time goes to, and `limit` which of these is the largest. `memory_bytes` is what a worker will
    have at its peak, as far as the sample tells.
    """

    executors: int
    slots: int
    tasks: int
    seconds: float
    low_s: float
    high_s: float
    efficiency: float
    causes: Mapping[str, float]
    memory_bytes: float

    @property
    def limit(self) -> str:
        return max(self.causes, key=lambda cause: self.causes[cause])


def point(
    cost: JobCost, data: DataSize, cluster: Cluster, executors: int, *, seed: int = 0, single_s: float = 0.0
) -> Point:
    """Predict the time on so many executors; `single_s` is that on one, if known."""
    slots = cluster.slots(cost, executors)
    levels = list(tasks_of(cost, data, cluster, slots.count if cluster.local else max(2, slots.count)))
    count = sum(len(tasks.bytes) for level in levels for tasks in level)
    varies = cluster.stragglers[0] > 0 or any(len(set(stage.spread)) > 1 for stage in cost.stages)
    draws = max(1, min(DRAWS if varies else 1, DRAWN_TASKS // max(1, count)))
    runs = [_draw(cost, data, cluster, slots, levels, seed + draw) for draw in range(draws)]
    totals = [sum(causes.values()) for causes in runs]
    seconds = float(np.mean(totals))
    low, high = (float(value) for value in np.quantile(totals, (0.1, 0.9)))
    names = dict.fromkeys(name for run in runs for name in run)
    causes = {name: float(np.mean([run.get(name, 0.0) for run in runs])) for name in names}
    memory = max(t.stage.peak_bytes + t.stage.state_per_byte * max(t.bytes) for level in levels for t in level)
    efficiency = (single_s or seconds * executors) / (executors * seconds)
    return Point(executors, slots.count, count, seconds, low, high, efficiency, causes, memory)


def _draw(
    cost: JobCost, data: DataSize, cluster: Cluster, slots: Slots, levels: Sequence[tuple[Tasks, ...]], seed: int
) -> dict[str, float]:
    """One run of the job on paper: what its time goes to."""
    random = np.random.default_rng(seed)
    last = sum(len(tasks.bytes) for tasks in levels[-1])
    after = cost.after_s + cost.after_per_byte_s * data.bytes + cost.after_per_task_s * (last - 1)
    causes = {"driver": cost.before_s + after + sum(cost.waits_s[: len(levels) - 1])}
    for at, level in enumerate(levels):
        for name, seconds in _level(cost, data, cluster, slots, level, random, is_first=at == 0).items():
            causes[name] = causes.get(name, 0.0) + seconds
    return causes


def _level(
    cost: JobCost,
    data: DataSize,
    cluster: Cluster,
    slots: Slots,
    level: tuple[Tasks, ...],
    random: np.random.Generator,
    *,
    is_first: bool,
) -> dict[str, float]:
    plain = np.concatenate([tasks.seconds() for tasks in level])
    usual = np.concatenate([_vary(tasks, random) for tasks in level])
    if level[0].stage.level > 0 and cluster.bandwidth is not None:
        remote = 1 - 1 / slots.count
        usual = usual + remote * np.concatenate([np.array(t.bytes) for t in level]) / cluster.bandwidth
    slow = np.where(random.random(len(usual)) < cluster.stragglers[0], cluster.stragglers[1], 1.0)
    factors = [tasks.stage.full(size, tasks.peers) for tasks in level for size in tasks.bytes]
    full = float(np.average(factors, weights=plain))
    here = Slots(slots.machines, slots.cores, slots.dispatch_s, slots.gap_s, full)
    begun = usual.copy()
    if cluster.cold and is_first:
        begun[: slots.count] += cost.start_s
    without = makespan(usual.tolist(), here)
    with_start = makespan(begun.tolist(), here) if cluster.cold and is_first else without
    end = makespan((begun * slow).tolist(), here) if slow.max() > 1 else with_start
    return _causes(data, cluster, here, level, usual, (without, with_start, end))


def _vary(tasks: Tasks, random: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The times of tasks with luck. Those larger than the measured ones vary less: more pieces even out."""
    stage, plain = tasks.stage, tasks.seconds()
    factors = random.choice(np.array(stage.spread), len(plain))
    pieces = np.maximum(1.0, np.array(tasks.bytes) / max(1.0, stage.spread_bytes))
    times: np.ndarray[tuple[int], np.dtype[np.float64]] = plain * (1 + (factors - 1) / np.sqrt(pieces))
    return times


def _causes(
    data: DataSize,
    cluster: Cluster,
    slots: Slots,
    level: tuple[Tasks, ...],
    usual: np.ndarray[tuple[int], np.dtype[np.float64]],
    steps: Sequence[float],
) -> dict[str, float]:
    """What the time of a level goes to. It is at least that of the storage."""
    without, with_start, end = steps
    ideal = min(without, float(usual.sum()) / slots.rate(len(usual)))
    fixed, blocks = _overheads(level)
    handing = max(0.0, min(without - ideal, len(usual) * slots.dispatch_s - ideal))
    named = "largest bucket" if _is_skewed(level) else "last wave of tasks"
    causes = {
        "work": ideal * (1 - fixed - blocks),
        "start of tasks": ideal * fixed,
        "blocks of the shuffle": ideal * blocks,
        "driver": handing,
        named: without - ideal - handing,
        "start of workers": max(0.0, with_start - without),
        "stragglers": max(0.0, end - with_start),
    }
    if level[0].stage.level == 0 and cluster.storage is not None:
        causes["storage"] = max(0.0, data.bytes / cluster.storage - sum(causes.values()))
    return causes


def _overheads(level: tuple[Tasks, ...]) -> tuple[float, float]:
    """The shares of the work that go to starting tasks and to single blocks."""
    total = sum(float(tasks.seconds().sum()) for tasks in level) or 1.0
    fixed = sum(tasks.stage.fixed_s * len(tasks.bytes) for tasks in level)
    blocks = sum(tasks.stage.per_peer_s * max(0, tasks.peers - 1) * len(tasks.bytes) for tasks in level)
    return fixed / total, blocks / total


def _is_skewed(level: tuple[Tasks, ...]) -> bool:
    keyed = [tasks for tasks in level if tasks.stage.kind in ("key", "whole")]
    return any(max(t.bytes) > 1.2 * float(np.mean(t.bytes)) or t.stage.kind == "whole" for t in keyed)
