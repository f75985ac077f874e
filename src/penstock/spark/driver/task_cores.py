"""On how many cores each stage of a batch runs in a task, as the driver plans it, and what it says about that.

Spark reserves `spark.task.cpus` cores for every task, and hands out no more tasks than these leave room for. What a
task takes beyond them is taken from cores that this job leaves idle: a level of it has fewer tasks than there are
cores, and the next level begins when all of them are through. Spark does not know of it. It counts those cores as free,
and gives them to tasks of another job of the session where there is one; then both have less. Who runs jobs side by
side sets `spark.task.cpus`, which Spark does know of, or runs with `cores=1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.tree import Tree
from penstock.plan.passes.assign_cores import places, with_places
from penstock.plan.stages import Cut, Stage

if TYPE_CHECKING:
    from pyspark.core.context import SparkContext

    from penstock.spark.driver.bucket_layout import BucketLayout

ANY = 1 << 30
"""More cores than there are anywhere: a graph may name any, and is fitted to those that a task has."""


@dataclass(frozen=True)
class SessionCores:
    """What a session has: cores in all, those of its smallest executor, and how many Spark reserves for a task.

    A task runs in one executor, so it never has more than that has.
    """

    total: int
    largest_task: int
    reserved: int


def machine_of(context: SparkContext) -> SessionCores:
    """What a Spark has now. Where no executor is there yet, its settings tell what will be."""
    get: Any = context.getConf().get
    jvm: Any = context
    reserved = int(get("spark.task.cpus", "1"))
    found = jvm._jsc.sc().statusStore().executorList(True)
    cores = [int(found.apply(at).totalCores()) for at in range(found.size())]
    here = [count for count in cores if count > 0]  # the driver of a cluster has none
    if here:
        return SessionCores(sum(here), min(here), reserved)
    total = max(1, int(context.defaultParallelism))
    return SessionCores(total, min(total, int(get("spark.executor.cores", "1"))), reserved)


def tasks_at_a_time(context: SparkContext, machine: SessionCores) -> int:
    """How many tasks Spark runs side by side, or is told to make."""
    return max(1, int(context.defaultParallelism) // machine.reserved)


@dataclass(frozen=True)
class TaskCores:
    """On how many cores the tasks of a stage run, and why."""

    count: int
    reason: str

    def __str__(self) -> str:
        return f"{count_text(self.count, 'core')} a task: {self.reason}"


def task_cores(
    cut: Cut, layout: BucketLayout, machine: SessionCores, *, asked: int | None = None, is_frame: bool = False
) -> dict[int, TaskCores]:
    """The cores of the tasks of each stage: as asked for, else as reserved, else those that would be idle."""
    if asked is not None:
        return {stage.number: TaskCores(asked, f"cores={asked}") for stage in cut.stages}
    return {stage.number: _cores_of(stage, cut, layout, machine, is_frame=is_frame) for stage in cut.stages}


def _cores_of(stage: Stage, cut: Cut, layout: BucketLayout, machine: SessionCores, *, is_frame: bool) -> TaskCores:
    """All stages of a level run at a time, so the cores are shared by all their tasks."""
    reserved = TaskCores(machine.reserved, f"spark.task.cpus={machine.reserved}")
    if is_frame and stage.level == 0:
        unknown = TaskCores(1, "how many partitions a DataFrame has, only Spark knows")
        return reserved if machine.reserved > 1 else unknown
    tasks = layout.partitions[stage.level - 1] if stage.level else layout.splits
    idle = min(machine.total // tasks, machine.largest_task)
    if machine.reserved > 1 and idle <= machine.reserved:
        return reserved
    return TaskCores(max(1, idle), f"{_tasks(stage, cut, tasks)} on {count_text(machine.total, 'core')}")


def _tasks(stage: Stage, cut: Cut, tasks: int) -> str:
    if sum(each.level == stage.level for each in cut.stages) > 1:
        return count_text(tasks, "task")
    if stage.reads is None:
        return "1 task" if cut.is_whole else count_text(tasks, "split")
    return count_text(tasks, {"key": "bucket", "order": "part", "whole": "task"}[stage.reads.kind])


def count_text(count: int, what: str) -> str:
    """So many of something, as people write it.

    >>> count_text(1, "core"), count_text(1200, "split")
    ('1 core', '1,200 splits')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def core_notes(cut: Cut, cores: Mapping[int, TaskCores]) -> dict[int, tuple[str, ...]]:
    """What `explain` says of each stage: its cores, and what becomes there of wishes that name others."""
    found = {}
    for stage in cut.stages:
        if stage.number in cores:
            told = cores[stage.number]
            found[stage.number] = (str(told), *_wish_notes(stage, told.count))
    return found


def _wish_notes(stage: Stage, cores: int) -> Iterator[str]:
    nodes = Tree(stage.leaves).nodes
    wishes = [node for node in nodes if node.core is not None or node.copies]
    if cores == 1 and wishes:
        yield "mapping= and flexible= change nothing on 1 core"
    elif cores > 1 and not wishes and any(not isinstance(node, (n.Source, *n.STAGE_KINDS)) for node in nodes):
        yield "each shares out its nodes by what its first items cost, where there is enough to gain"
    for node in wishes if cores > 1 else ():
        if node.core is not None and node.core >= cores:
            yield f"{node.label}: core {node.core} is core {node.core % cores} here"
        if node.copies > cores - 1:
            yield f"{node.label}: {cores - 1} of its {node.copies} copies here"


# What the options of a run ask for


@dataclass(frozen=True)
class Asked:
    """What a run on Spark asks for: cores of a task, and whether tasks measure their items however few there are."""

    cores: int | None = None
    is_measured: bool = False


def asked_of(
    leaves: tuple[n.GraphNode, ...], options: Mapping[str, Any]
) -> tuple[tuple[n.GraphNode, ...], Asked, dict[str, Any]]:
    """The graph with the wishes of `mapping=` and `flexible=` in its nodes, what is asked for, and the other options.

    A graph runs in stages here, so that a profile or the statistics of the whole fit none of them.
    """
    left = dict(options)
    cores, mapping, flexible = (left.pop(name, None) for name in ("cores", "mapping", "flexible"))
    if mapping is not None and not isinstance(mapping, Mapping):
        raise GraphError(
            f"run: on Spark, mapping= must be a dict from streams to numbers of cores, because a graph runs there in "
            f"stages; got a {type(mapping).__name__}; leave it out, and every task measures its first items"
        )
    asked = Asked(cores, flexible == "auto")
    by_hand = flexible if isinstance(flexible, Mapping) else None
    if mapping or by_hand:
        leaves = with_places(leaves, places(leaves, ANY, mapping, by_hand))
    return leaves, asked, left


def core_counts(cores: Mapping[int, TaskCores]) -> dict[int, int]:
    """The cores of the tasks of each stage, without the reasons: what tasks need to know."""
    return {number: each.count for number, each in cores.items()}
