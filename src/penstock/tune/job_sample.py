"""Measure a job on a sample of its source: what the model of clusters is made from.

Each run of the sample has a role, see `job_profile.RunTime`. What a task took, and when, is what Spark's own store of
metrics says, as the driver saw it; what came in is what the task counted.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError, JobError
from penstock.graph import nodes as n
from penstock.graph.split import Split
from penstock.graph.tree import Tree
from penstock.graph.watermarks import with_watermarks
from penstock.plan.stages import Cut, Stage
from penstock.spark.dataframe import FrameItems
from penstock.spark.driver.batch import BatchJob, Results, prepare_batch
from penstock.spark.driver.batch_plan import BatchPlan, plan_batch
from penstock.spark.driver.batch_source import TASKS_A_CORE, splits_of
from penstock.spark.driver.results import JobOutput
from penstock.spark.driver.session import session
from penstock.spark.driver.spark_settings import is_local
from penstock.spark.driver.task_cores import Asked, machine_of, tasks_at_a_time
from penstock.spark.driver.usable import usable
from penstock.spark.files.format import format_of
from penstock.spark.files.result_folder import ResultFolder
from penstock.spark.wire import TaskCounts
from penstock.spark.worker.result_writers import CollectWriter, PartResults
from penstock.tune.job_profile import FIRST_PASS, JobProfile, RunTime, SampleRole, StageTime, TaskTime

SAMPLE_BYTES = 64 << 20
REPEATS = 3
LITTLE = 64
"""A little split has the sample's size over this, or is the smallest that the source gives."""
MANY = 64
"""Buckets, to see what a block costs."""
EMPTY_TASKS = 200
WARM: SampleRole = "warm"
WARMING, MARK = 2, "PENSTOCK_PROFILE"
SINKS = ("collect", "parquet", "csv", "json")


@dataclass(frozen=True, slots=True)
class SampleShape:
    """How a run of the sample is cut: into so many splits of about so many bytes, or of the sample so many bytes."""

    role: SampleRole
    split_bytes: int
    buckets: int = 1
    splits: int | None = 1
    sample_bytes: int = 0

    def first(self, splits: Sequence[Split]) -> Sequence[Split]:
        """The splits that are read: the first so many, or the first that have so many bytes."""
        if self.splits is not None:
            return splits[: self.splits]
        sizes = accumulate((split.bytes for split in splits), initial=0)
        return [split for split, before in zip(splits, sizes, strict=False) if before < max(1, self.sample_bytes)]


def job_profile(
    leaf: n.GraphNode,
    spark: Any,
    *,
    sink: str = "collect",
    folder: Any = None,
    sample: int = SAMPLE_BYTES,
    repeats: int = REPEATS,
    **options: Any,
) -> JobProfile:
    """Run a sample of a stream several times, and tell what that took.

    What it writes goes to a folder in `folder`, which all executors must see, or in that for temporary files.
    """
    plan, graph = measurable_plan(leaf, sink)
    for name, value in (("sample", sample), ("repeats", repeats)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise GraphError(f"scale: {name} must be a whole number of at least 1; got {value!r}")
    spark = usable(session() if spark is None else spark)
    context = spark.sparkContext
    at_a_time = tasks_at_a_time(context, machine_of(context))
    whole = sum(own_sizes(leaf, [1], None)[1])
    if not whole:
        raise GraphError("scale: the source must have items to measure; got none; give a stream that has some")
    with _own_workers(context), tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
        sampler = _Sampler(leaf, spark, sink, Path(place), options)
        runs = [sampler.time_run(shape) for shape in shapes(plan.cut, sample, whole, at_a_time, repeats)]
        dispatch_s = min(_dispatch_s(spark) for _ in range(2))
    machines, cores = _machines(context)
    kept = tuple(run for run in runs if run.role != WARM)
    return JobProfile(graph, sink, at_a_time, machines, cores, dispatch_s, kept)


def measurable_plan(leaf: n.GraphNode, sink: str) -> tuple[BatchPlan, tuple[str, ...]]:
    """The plan of a stream and their names, or a refusal where it cannot be measured."""
    if sink not in SINKS:
        raise GraphError(f"scale: sink must be one of {', '.join(map(repr, SINKS))}; got {sink!r}")
    if isinstance(leaf.source.items, FrameItems):
        raise GraphError(
            "scale: the source must be files or items, of which a sample can be taken; got a DataFrame of Spark; write "
            "it to files, and read these with read_parquet"
        )
    plan = _plan(leaf)
    return plan, tuple(_stage_name(stage) for stage in plan.cut.stages)


def _stage_name(stage: Stage) -> str:
    """A stage with its nodes, but for the source, which may be another for the same graph."""
    nodes = Tree(stage.leaves).nodes
    labels = [node.label for node in nodes if not isinstance(node, (n.Source, *n.STAGE_KINDS))]
    return f"{stage.name}: {', '.join(labels) or 'nothing but handing on'}"


def shapes(cut: Cut, sample: int, whole: int, slots: int, repeats: int) -> Iterator[SampleShape]:
    """The runs of a sample, in the order in which they are made.

    Each shape runs a few times before it is measured, those for all slots first: new workers compile, and touch
    memory that nobody has touched. Then the shapes take turns, so that a disturbance strikes all alike.
    """
    most = min(sample, whole)
    little, each, large = (
        max(1, most // LITTLE),
        max(1, most // (TASKS_A_CORE * slots)),
        min(sample, -(-whole // slots)),
    )
    turn = [SampleShape("side by side", each, max(8, 2 * slots), None, most), SampleShape("full", large, slots, slots)]
    turn += [SampleShape("little", little), SampleShape("alone", most)]
    turn += [SampleShape("many", little, MANY)] if cut.exchanges else []
    yield SampleShape("cold", little)
    for shape in turn:
        yield from [replace(shape, role=WARM)] * WARMING
    for _ in range(repeats):
        yield from turn


def own_sizes(leaf: n.GraphNode, slots: Sequence[int], split_bytes: int | None) -> dict[int, tuple[int, ...]]:
    """The sizes of the splits of a stream's own source, for each number of slots."""
    plan = _plan(leaf)
    return {count: tuple(split.bytes for split in splits_of(plan, count, split_bytes)) for count in sorted(set(slots))}


def _plan(leaf: n.GraphNode, *, is_guarded: bool = False) -> BatchPlan:
    tree = Tree(with_watermarks((leaf,))[0])
    return plan_batch(tree, (), is_ordered=False, is_collected=True, is_guarded=is_guarded)


class _Sampler:
    """Runs samples of one stream."""

    def __init__(self, leaf: n.GraphNode, spark: Any, sink: str, place: Path, options: dict[str, Any]) -> None:
        self.leaf, self.spark, self.sink, self.place, self.options = leaf, spark, sink, place, options
        self.plan = _plan(leaf, is_guarded=options.get("on_error") == "skip")

    def time_run(self, shape: SampleShape) -> RunTime:
        started = time.time()
        job, gathered = self._collect(shape) if self.sink == "collect" else self._write(shape)
        ended = time.time()
        shutil.rmtree(self.place / "out", ignore_errors=True)
        return run_time(shape.role, job, gathered, started, ended)

    def _collect(self, shape: SampleShape) -> tuple[BatchJob, JobOutput]:
        job = self._job(shape, CollectWriter)
        return job, job.tables()[1]

    def _write(self, shape: SampleShape) -> tuple[BatchJob, JobOutput]:
        schema = pa.schema(list(self.leaf.shape.fields.items()))
        with ResultFolder(str(self.place / "out"), format_of(self.sink, schema, {}), "overwrite") as output:
            job = self._job(shape, PartResults(output.staging))
            results = job.run()
            output.commit(results.parts())
        return job, results

    def _job(self, shape: SampleShape, results: Results) -> BatchJob:
        return prepare_batch(
            self.plan,
            self.spark,
            results=results,
            buckets=shape.buckets,
            split_bytes=shape.split_bytes,
            take=shape.first,
            asked=Asked(1),
            options=self.options,
        )


@contextlib.contextmanager
def _own_workers(context: Any) -> Iterator[None]:
    """Python workers that nobody has used before: Spark keeps those apart whose environments differ."""
    context.environment[MARK] = uuid.uuid4().hex
    try:
        yield
    finally:
        del context.environment[MARK]


# What Spark has seen


@dataclass(frozen=True, slots=True)
class SeenTask:
    """A task as the driver saw it, in seconds since the epoch."""

    index: int
    begin: float
    end: float


def run_time(role: SampleRole, job: BatchJob, gathered: JobOutput, started: float, ended: float) -> RunTime:
    """Put together what Spark has seen of a job and what its tasks counted."""
    stages = seen_tasks(job.actions.spark.sparkContext, job.actions.group)
    levels = job.plan.cut.levels
    if len(stages) < levels:
        raise JobError(
            f"scale: Spark must tell of {levels} stages of tasks; it tells of {len(stages)}; it may keep too few of "
            "them: enlarge spark.ui.retainedStages and spark.ui.retainedTasks"
        )
    passes, proper = stages[: len(stages) - levels], stages[len(stages) - levels :]
    told = [_first_pass(job, at, tasks) for at, tasks in enumerate(passes)]
    for level, tasks in enumerate(proper):
        told += _stages(job, level, {task.index: task for task in tasks}, gathered.counts)
    begins, ends = ([pick(edge(t) for t in tasks) for tasks in stages] for pick, edge in ((min, _begin), (max, _end)))
    waits = tuple(max(0.0, begin - end) for begin, end in zip(begins[1:], ends, strict=False))
    gaps = [gap for tasks in stages for gap in _gaps(tasks, job.tasks_at_a_time)]
    before, after = max(0.0, begins[0] - started), max(0.0, ended - ends[-1])
    return RunTime(role, ended - started, before, after, waits, mean(gaps) if gaps else 0.0, tuple(told))


def _begin(task: SeenTask) -> float:
    return task.begin


def _end(task: SeenTask) -> float:
    return task.end


def seen_tasks(context: Any, group: str) -> list[list[SeenTask]]:
    """The tasks of every stage that ran for a group of jobs, in the order of the stages."""
    spark = context._jsc.sc()
    spark.listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in sorted(tracker.getJobIdsForGroup(group))]
    numbers = sorted({stage for info in jobs if info is not None for stage in info.stageIds})
    stages = [_tasks(spark.statusStore(), number) for number in numbers]
    return sorted((tasks for tasks in stages if tasks), key=lambda tasks: min(map(_begin, tasks)))


def _tasks(store: Any, stage: int) -> list[SeenTask]:
    listed = store.taskList(stage, 0, 1 << 20)
    tasks = []
    for task in (listed.apply(at) for at in range(listed.size())):
        if task.status() == "SUCCESS" and task.duration().isDefined():
            begin = task.launchTime().getTime() / 1e3
            tasks.append(SeenTask(int(task.index()), begin, begin + task.duration().get() / 1e3))
    return tasks


def _gaps(tasks: Sequence[SeenTask], slots: int) -> Iterator[float]:
    """How long a slot was free before each task but the first ones."""
    ends: list[float] = []
    for task in sorted(tasks, key=_begin):
        if len(ends) >= slots:
            yield max(0.0, task.begin - heapq.heappop(ends))
        heapq.heappush(ends, task.end)


def _first_pass(job: BatchJob, at: int, tasks: Sequence[SeenTask]) -> StageTime:
    """Tasks that looked at the splits before all stages. What they read is about what the splits have."""
    sizes = [split.bytes for split in job.source.splits]
    each = sum(sizes) // max(1, len(tasks))
    times = tuple(TaskTime(task.end - task.begin, task.end - task.begin, each, 0) for task in tasks)
    return StageTime(f"first pass {at + 1}", FIRST_PASS, "split", times)


def _stages(
    job: BatchJob, level: int, tasks: Mapping[int, SeenTask], counted: Sequence[TaskCounts]
) -> Iterator[StageTime]:
    """The stages of a level; all of them share the tasks of one stage of Spark."""
    for stage in job.plan.cut.stages:
        if stage.level != level:
            continue
        targets = job.layout.targets.get(stage.number)
        peers = sum(len(job.layout.targets[o.stage]) for o in stage.outputs if o.stage is not None)
        times = []
        for each in (each for each in counted if each.stage == stage.number):
            task = tasks.get(each.sender if targets is None else targets[each.sender])
            seconds = each.seconds if task is None else task.end - task.begin
            times.append(TaskTime(seconds, each.seconds, each.bytes_in, each.items, peers, each.peak_bytes))
        kind = "split" if stage.reads is None and not job.plan.cut.is_whole else "whole"
        yield StageTime(stage.name, level, stage.reads.kind if stage.reads is not None else kind, tuple(times))


# Where it runs


def _machines(context: Any) -> tuple[int, int]:
    """On how many machines the executors are, and how many cores each has, as far as can be told from here."""
    listed = context._jsc.sc().statusStore().executorList(True)
    executors = [listed.apply(at) for at in range(listed.size())]
    cores: dict[str, int] = {}
    for executor in executors:
        if executor.totalCores() > 0:
            host = str(executor.hostPort()).rpartition(":")[0]
            cores[host] = cores.get(host, 0) + int(executor.totalCores())
    here = os.cpu_count() or 1
    if is_local(str(context.master)) or set(cores) <= {"127.0.0.1", "localhost", os.uname().nodename}:
        return 1, here
    return len(cores), max(cores.values())


def _dispatch_s(spark: Any) -> float:
    """What a task costs that does nothing, where they follow each other as fast as they can."""
    context = spark.sparkContext
    group = f"penstock-{uuid.uuid4().hex}"
    context.setJobGroup(group, "penstock")
    spark.range(0, EMPTY_TASKS, 1, EMPTY_TASKS).write.format("noop").mode("overwrite").save()
    context.setLocalProperty("spark.jobGroup.id", None)
    tasks = [task for stage in seen_tasks(context, group) for task in stage]
    return (max(map(_end, tasks)) - min(map(_begin, tasks))) / max(1, len(tasks)) if tasks else 0.0
