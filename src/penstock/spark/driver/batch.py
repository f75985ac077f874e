"""A graph as a batch job on Spark: the driver's side.

The splits of the source become the rows of a DataFrame, every stage one `mapInArrow` over it, and every level of
exchanges one shuffle of messages. What comes back is small: results to collect, or the names of files that the tasks
have written, and what they counted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.graph import nodes as n
from penstock.graph.letters import Letter, first_of_each
from penstock.graph.signal_indices import in_order, values_of
from penstock.graph.split import Split
from penstock.plan.beginnings import beginnings
from penstock.plan.moving import moved_to, without_items
from penstock.spark.driver.batch_plan import BatchPlan
from penstock.spark.driver.batch_source import (
    MESSAGES,
    BatchSource,
    PlacedLater,
    RowsAs,
    SplitSource,
    open_source,
    whole_number,
)
from penstock.spark.driver.bucket_layout import BucketLayout, lay_out
from penstock.spark.driver.job_program import plan_program
from penstock.spark.driver.monitor import Monitor
from penstock.spark.driver.reason import refuse_unpackable
from penstock.spark.driver.results import JobOutput, gather, table
from penstock.spark.driver.session import block_session, session
from penstock.spark.driver.task_cores import Asked, TaskCores, core_counts, machine_of, task_cores, tasks_at_a_time
from penstock.spark.files.dead_letters import FileLocator
from penstock.spark.files.region_splits import align_splits
from penstock.spark.wire import Beginning, Failed, Message, Survey, decode, messages
from penstock.spark.worker.first_pass import Placement, Sought, place_counted, place_surveyed
from penstock.spark.worker.program import Program, ResultWriter
from penstock.spark.worker.remote import Report, beginning_of, over_blocks, pack
from penstock.spark.worker.result_writers import CollectWriter
from penstock.spark.worker.task_failure import raise_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Results = Callable[[int, int], ResultWriter]
Action = Callable[[Report], Any]


@dataclass(frozen=True)
class Actions:
    """Runs actions of Spark for a plan over its source, as one group of jobs, and watches them."""

    plan: BatchPlan
    spark: SparkSession
    group: str
    source: BatchSource
    bases: Mapping[int, int]
    """By split, the index of its first item where tasks number their items from there."""
    layout: BucketLayout | None = None
    """None before the job itself, in a first pass."""

    def arrived(self, action: Action, on_progress: Callable[..., None] | None = None) -> list[Message]:
        """The messages that an action gives. An error of a task is raised here, as soon as it is known."""
        with Monitor(self, on_progress) as monitor:
            rows = monitor.watch(action)
        found = list(messages(rows.combine_chunks().to_batches() if rows.num_rows else []))
        raise_first(decode(found, Failed), self.user_error)
        return found

    def user_error(self, failed: Failed) -> PenstockError:
        """The error of a task as the user gets it, with the piece of the source that it lies in."""
        return self.source.user_error(failed, self.bases)


@dataclass(frozen=True)
class BatchJob:
    """A plan with all that its tasks need to know on a session of Spark. It can be run once."""

    actions: Actions
    layout: BucketLayout
    tasks_at_a_time: int
    task_cores: Mapping[int, TaskCores]
    program: Program
    placed_later: PlacedLater | None
    """Where the signals are placed by tasks of the job itself."""

    @property
    def plan(self) -> BatchPlan:
        return self.actions.plan

    @property
    def source(self) -> BatchSource:
        return self.actions.source

    def rows(self, report: Report | None = None, last: RowsAs = MESSAGES) -> Any:
        """All that the tasks give, as messages; or, with `last`, what it makes of those that the last tasks give."""
        program = self._packed_program()
        levels = len(self.layout.partitions)
        first = MESSAGES if levels else last
        if self.placed_later is not None:
            rows = self.source.first_stage_placed(program, self.placed_later, first, is_last=not levels)
        else:
            rows = self.source.first_stage(program, report, first, is_last=not levels)
        for level, partitions in enumerate(self.layout.partitions, 1):
            rows_as = last if level == levels else MESSAGES
            rows = rows_as.of(rows.repartitionById(partitions, "target"), over_blocks(program, report))
        return rows

    def _packed_program(self) -> bytes:
        """The program, packed for its way to the tasks."""
        try:
            return pack(self.program)
        except Exception as error:
            refuse_unpackable(self.plan.tree.nodes, error, pack)
            raise

    def run(self, on_progress: Callable[..., None] | None = None) -> JobOutput:
        """Run the job. An error of a task is raised here, as soon as it is known."""
        try:
            return gather(self.actions.arrived(lambda report: self.rows(report).toArrow(), on_progress))
        finally:
            self.source.close()

    def tables(self, on_progress: Callable[..., None] | None = None) -> tuple[tuple[pa.Table, ...], JobOutput]:
        """All results, whole, and what was counted."""
        output = self.run(on_progress)
        ends = {end.leaf: end for stage in self.plan.cut.stages for end in stage.outputs if end.leaf is not None}
        tables = tuple(
            table(leaf, output.results.get(at, []), ends[at].has_places) for at, leaf in enumerate(self.plan.leaves)
        )
        return tables, output

    def letters(self, output: JobOutput) -> list[Letter]:
        """The letters of all items that were skipped, with their indices in the source and where they came from."""
        read = {split: count for each in output.counts for split, count in each.read.items()}
        bases = dict(zip(sorted(read), accumulate((read[split] for split in sorted(read)), initial=0), strict=False))
        files = FileLocator(dict(enumerate(self.source.splits)))
        letters = []
        for each in output.skipped:
            if each.letter.index is None:
                letters.append(each.letter)
                continue
            index = sum(read.values()) if each.split is None else bases.get(each.split, 0) + each.offset
            place = {} if each.letter.file is not None else files.of(each.split, each.offset)
            letters.append(replace(each.letter, index=index, **place))
        return first_of_each(letters)


def prepare_batch(
    plan: BatchPlan,
    spark: SparkSession | None = None,
    *,
    results: Results = CollectWriter,
    is_lazy: bool = False,
    buckets: int | None = None,
    split_bytes: int | None = None,
    take: Callable[[Sequence[Split]], Sequence[Split]] = tuple,
    asked: Asked | None = None,
    options: Mapping[str, Any] | None = None,
) -> BatchJob:
    """The job of a plan on a session. First passes over the source run here, where the plan needs them.

    With `is_lazy` none runs: tasks of the job place the signals and align their splits themselves. `take` says
    which of the splits are read.
    """
    asked = asked or Asked()
    spark = block_session(session() if spark is None else spark)
    machine = machine_of(spark.sparkContext)
    cores = tasks_at_a_time(spark.sparkContext, machine)
    source = open_source(plan, spark, cores, split_bytes)
    if isinstance(source, SplitSource):
        source = replace(source, splits=tuple(take(source.splits)))
    actions = Actions(plan, spark, f"penstock-{uuid.uuid4().hex}", source, {})
    if isinstance(source, SplitSource) and plan.regions is not None and len(source.splits) > 1:
        beginning = _beginning(plan, plan.regions)
        source = replace(source, beginning=beginning) if is_lazy else _align(actions, source, beginning)
        actions = replace(actions, source=source)
    later = PlacedLater(pack(plan.control), _sought(plan)) if is_lazy and _needs_pass(actions) else None
    placement = Placement() if later is not None else _place(actions)
    of_frame = source.partitions if not isinstance(source, SplitSource) else None
    layout = lay_out(plan.cut, len(actions.source.splits), whole_number("run", "buckets", buckets) or cores, of_frame)
    on = task_cores(plan.cut, layout, machine, asked=asked.cores, is_frame=plan.is_frame)
    program = plan_program(
        plan.cut,
        layout,
        results,
        options or {},
        placement.signals,
        placement.bases,
        core_counts(on),
        is_measured=asked.is_measured,
    )
    return BatchJob(replace(actions, bases=program.bases, layout=layout), layout, cores, on, program, later)


# First passes


def _beginning(plan: BatchPlan, regions: n.Regions) -> bytes:
    """What tasks must know to find where regions begin, packed."""
    send = moved_to(beginnings(regions), without_items(plan.tree.source))
    return pack((send, () if regions.start is not None else regions.by))


def _align(actions: Actions, source: SplitSource, beginning: bytes) -> SplitSource:
    """The splits, moved to where regions begin. A first pass of tasks looks where that is."""
    found = decode(actions.arrived(lambda report: source.over(beginning_of(beginning)).toArrow()), Beginning)
    return replace(source, splits=tuple(align_splits(source.splits, {each.split: each.items for each in found})))


def _place(actions: Actions) -> Placement:
    """Place the signals from outside; where splits cannot tell how many items they have, by a first pass."""
    plan, source = actions.plan, actions.source
    if not _needs_pass(actions):
        counted = source.counts
        return Placement() if counted is None else place_counted(in_order(plan.control), counted, source.skipped)
    surveys = decode(actions.arrived(lambda report: source.survey(_sought(plan)).toArrow()), Survey)
    return place_surveyed(plan.control, surveys, source.skipped)


def _needs_pass(actions: Actions) -> bool:
    """Whether a first pass over the items has to find where the signals stand."""
    return bool(actions.plan.control) and (actions.source.counts is None or bool(actions.plan.control_fields))


def _sought(plan: BatchPlan) -> Sought:
    return {name: values_of(plan.control, name, plan.tree.source) for name in plan.control_fields}
