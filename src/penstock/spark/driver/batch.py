"""A graph as a batch job on Spark: the driver's side.

The splits of the source become the rows of a DataFrame, every stage one `mapInArrow` over it, and every level of
exchanges one shuffle of block rows. What comes back is small: results to collect, or the names of files that the tasks
have written, and what they counted.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import GraphError, PenstockError
from penstock.graph import nodes as n
from penstock.graph.files.pushdown import bounds_of
from penstock.graph.letters import Letter, first_of_each
from penstock.graph.needs import needs
from penstock.graph.signal_indices import fields_of
from penstock.graph.split import Bound, NoItems, Split
from penstock.graph.tree import At, Tree, check_signals
from penstock.graph.watermarks import with_watermarks
from penstock.plan.beginnings import alignable, beginnings, begins_with
from penstock.plan.cut import cut
from penstock.plan.moving import moved_to, without_items
from penstock.plan.stages import Cut
from penstock.spark.dataframe import FrameItems, refuse_unordered
from penstock.spark.driver import results as job
from penstock.spark.driver.monitor import Monitor, Report
from penstock.spark.driver.reason import refuse_held
from penstock.spark.driver.session import block_session, session
from penstock.spark.driver.survey import PLACED, Placement, Sought, needs_pass, placement, sought_by
from penstock.spark.driver.survey import gathered as surveyed_by
from penstock.spark.driver.task_cores import Asked, TaskCores, counts, machine_of, task_cores, tasks_at_a_time
from penstock.spark.files.dead_letters import Located
from penstock.spark.files.region_splits import aligned, located
from penstock.spark.worker.block import ROWS, Block, blocks
from penstock.spark.worker.remote import (
    SplitTask,
    Task,
    as_it_is,
    beginning_of,
    carried,
    numbered,
    over_all,
    over_blocks,
    over_nothing,
    over_partition,
    over_placed,
    over_placed_partition,
    over_split,
    packed,
    place_all,
    survey_frame,
    survey_of,
    then,
)
from penstock.spark.worker.task import ResultWriter
from penstock.spark.worker.task_failure import Failed, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 64 << 20
"""How much of the source one task reads, unless there is so little that some cores would have nothing to do."""
TASKS_A_CORE = 4


class BatchJob:
    """Some results of a graph, planned for a Spark session. It can be run once."""

    def __init__(
        self,
        leaves: Sequence[n.GraphNode],
        control: Sequence[At] = (),
        spark: SparkSession | None = None,
        *,
        results: Callable[[int, int], ResultWriter] = job.CollectWriter,
        is_ordered: bool = False,
        is_collected: bool = False,
        is_lazy: bool = False,
        buckets: int | None = None,
        split_bytes: int | None = None,
        asked: Asked | None = None,
        **options: Any,
    ) -> None:
        leaves = with_watermarks(leaves)[0]
        self.tree, self.leaves = Tree(leaves), leaves
        self.control = check_signals(self.tree, control)
        self.spark = block_session(session() if spark is None else spark)
        self.machine = machine_of(self.spark.sparkContext)
        self.group = f"penstock-{uuid.uuid4().hex}"
        self.is_guarded = options.get("on_error") == "skip"
        how = {"is_ordered": is_ordered, "is_collected": is_collected, "is_guarded": self.is_guarded}
        self.cut: Cut = planned_cut(self.leaves, self.control, **how)
        self.aligns = alignable(self.tree) if not (self.cut.is_whole or self.is_guarded) else None
        self.columns = needs(self.tree)[self.tree.source]
        items = self.tree.source.items
        self.frame = self._in_order(items) if isinstance(items, FrameItems) else None
        self.splits = self._splits(split_bytes) if self.frame is None else []
        self.placement = Placement()
        self.bases: Mapping[int, int] = {}
        """By split, the index of its first item where tasks number their items from there."""
        if self.aligns is not None and len(self.splits) > 1:
            self.splits = self._aligned(self.aligns)
        self.is_placed_later = is_lazy and needs_pass(self)
        """Whether the signals are placed by tasks of the job itself, because nothing may run before it."""
        self.placement = Placement() if self.is_placed_later else placement(self)
        of_frame = self.partitions if self.frame is not None else None
        self.layout = job.laid_out(self.cut, len(self.splits), _whole("buckets", buckets) or self.cores, of_frame)
        asked = asked or Asked()
        self.task_cores = task_cores(
            self.cut, self.layout, self.machine, asked=asked.cores, is_frame=self.frame is not None
        )
        self.program = job.program_of(
            self.cut,
            self.layout,
            results,
            options,
            self.placement.signals,
            self.placement.bases,
            counts(self.task_cores),
            is_measured=asked.is_measured,
        )
        self.bases = self.program.bases

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""
        return tasks_at_a_time(self.spark.sparkContext, self.machine)

    @property
    def partitions(self) -> int:
        """Over how many partitions a DataFrame is put in order."""
        return 2 * self.cores

    def _in_order(self, items: FrameItems) -> Any:
        """The DataFrame that is the source. It is kept where it will be read twice, so that both see the same order."""
        found = items.in_order(self.columns | set(fields_of(self.control)), self.partitions)
        return found.persist() if self.control else found

    def _splits(self, split_bytes: int | None) -> Sequence[Split]:
        return splits_of(self.tree, self.control, self.aligns, self.cores, split_bytes, is_guarded=self.is_guarded)

    def _aligned(self, regions: n.Regions) -> Sequence[Split]:
        """The splits, moved to where regions begin. A first pass of tasks looks where that is."""
        send = moved_to(beginnings(regions), without_items(self.tree.source))
        task = beginning_of(packed((send, () if regions.start is not None else regions.by)))
        rows = self.over_splits([packed(split) for split in self.splits], task)
        return aligned(self.splits, surveyed_by(self._arrived(lambda report: rows.toArrow())))

    @property
    def counts(self) -> dict[int, int] | None:
        """How many items each split has, where all know it."""
        found = {number: split.rows for number, split in enumerate(self.splits)}
        known = {number: count for number, count in found.items() if count is not None}
        return known if self.frame is None and len(known) == len(found) else None

    @property
    def skipped(self) -> dict[int, int]:
        """How many items were left out right before each split."""
        return {number: split.skipped_before for number, split in enumerate(self.splits)}

    def survey(self, sought: Sought) -> dict[int, Any]:
        """What a first pass over all items sees: how many there are in each split, and values of fields."""
        rows = self._survey_rows(sought)
        return surveyed_by(self._arrived(lambda report: rows.toArrow()))

    def _survey_rows(self, sought: Sought) -> Any:
        if self.frame is not None:
            return self.frame.mapInArrow(survey_frame(sought), ROWS)
        return self.over_splits([packed(split) for split in self.splits], survey_of(sought))

    def _with_placement(self, rows: Any) -> Any:
        """Each row with one more column, the places of signals: found by a first pass that is part of the plan."""
        from pyspark.sql.functions import broadcast

        seen = self._survey_rows(sought_by(self)).repartition(1)
        task = place_all(packed(self.control), self.skipped, is_frame=self.frame is not None)
        return rows.crossJoin(broadcast(seen.mapInArrow(task, PLACED)))

    # On Spark

    def rows(self, report: Report | None = None, last: tuple[Any, Task] | None = None) -> Any:
        """All that the tasks give, as block rows; or, with `last`, what it makes of those that the last tasks give."""
        held = self._held()
        schema, convert = last or (ROWS, as_it_is)
        levels = len(self.layout.partitions)
        first = (ROWS, as_it_is) if levels else (schema, convert)
        found: Any
        if self.is_placed_later:
            found = self._placed_later(held, first)
        elif self.frame is not None:
            found = self._over_frame(held, report, first)
        elif self.cut.is_whole:
            splits = [packed(split) for split in self.splits]
            found = self.spark.range(0, 1, 1, 1).mapInArrow(then(over_all(held, splits, report), first[1]), first[0])
        else:
            splits = [packed(split) for split in self.splits]
            found = self.over_splits(splits, over_split(held, report), first)
        for level, partitions in enumerate(self.layout.partitions, 1):
            given, made = (schema, convert) if level == levels else (ROWS, as_it_is)
            task = then(over_blocks(held, report), made)
            found = found.repartitionById(partitions, "target").mapInArrow(task, given)
        return found

    def _held(self) -> bytes:
        """The program, packed for its way to the tasks."""
        try:
            return packed(self.program)
        except Exception as error:
            refuse_held(self.tree.nodes, error, packed)
            raise

    def _placed_later(self, held: bytes, last: tuple[Any, Task]) -> Any:
        """The first tasks, which take the places of signals from their rows."""
        schema, convert = last
        if self.frame is not None:
            found = self._with_placement(self.frame).mapInArrow(then(over_placed_partition(held), convert), schema)
            if not self.layout.partitions:
                return found
            return found.unionAll(self.spark.range(0, 1, 1, 1).mapInArrow(over_nothing(held), ROWS))
        count, splits = 1 if self.cut.is_whole else len(self.splits), [packed(split) for split in self.splits]
        task = over_placed(held, splits, is_whole=self.cut.is_whole)
        return self._with_placement(self.spark.range(0, count, 1, count)).mapInArrow(then(task, convert), schema)

    def _over_frame(self, held: bytes, report: Report | None, last: tuple[Any, Task]) -> Any:
        """A task for each partition of the DataFrame that is the source, and one for a split without items."""
        assert self.frame is not None
        schema, convert = last
        found = self.frame.mapInArrow(then(over_partition(held, report), convert), schema)
        if not self.layout.partitions:
            return found
        return found.unionAll(self.spark.range(0, 1, 1, 1).mapInArrow(over_nothing(held), ROWS))

    def over_splits(
        self,
        splits: Sequence[bytes],
        run: SplitTask,
        last: tuple[Any, Task] | None = None,
    ) -> DataFrame:
        """A task for each split, with what `run` gives for it. Small splits travel with the task, others as rows."""
        schema, convert = last or (ROWS, as_it_is)
        count = len(splits)
        if sum(map(len, splits)) <= _SMALL:
            return self.spark.range(0, count, 1, count).mapInArrow(then(numbered(run, splits), convert), schema)
        table = pa.table({"number": pa.array(range(count), pa.int64()), "split": pa.array(splits, pa.binary())})
        return self.spark.createDataFrame(table).mapInArrow(then(carried(run), convert), schema)

    def run(self, on_progress: Callable[..., None] | None = None) -> job.Gathered:
        """Run the job. An error of a task is raised here, as soon as it is known."""
        try:
            return job.gathered(self._arrived(lambda report: self.rows(report).toArrow(), on_progress))
        finally:
            if self.frame is not None and self.control:
                self.frame.unpersist()

    def _arrived(self, action: Callable[[Report], Any], on_progress: Callable[..., None] | None = None) -> list[Block]:
        with Monitor(self, on_progress) as monitor:
            arrived = monitor.watch(action)
        batches = arrived.combine_chunks().to_batches() if arrived.num_rows else []
        found = [block for batch in batches for block in blocks(batch)]
        job.raise_first(found, self.told)
        return found

    def told(self, failed: Failed) -> PenstockError:
        """The error of a task as the user gets it, with the piece of the source that it lies in."""
        if failed.split is None:
            return failed.error
        if self.frame is not None:
            return told(failed, f"partition {failed.split} of the DataFrame", failed.offset, is_index=False)
        split, offset = self.splits[failed.split], failed.offset
        label = split.label
        if offset is not None:
            with contextlib.suppress(PenstockError):  # it need not be there any more
                label, offset = located(split, offset)
        known = self.cut.is_whole or failed.split == 0 or failed.split in self.bases
        return told(failed, label, offset, is_index=failed.offset is not None and known)

    def letters(self, found: job.Gathered) -> list[Letter]:
        """The letters of all items that were skipped, with their indices in the source and where they came from."""
        read = {split: count for each in found.counted for split, count in each.read.items()}
        bases = dict(zip(sorted(read), accumulate((read[split] for split in sorted(read)), initial=0), strict=False))
        total = sum(read.values())
        places = [(each.split, each.offset) for each in found.skipped]
        located = Located({} if self.frame is not None else dict(enumerate(self.splits)))
        made = []
        for (split, offset), each in zip(places, found.skipped, strict=True):
            if each.letter.index is None:
                made.append(each.letter)
                continue
            index = total if split is None else bases.get(split, 0) + offset
            place = {} if each.letter.file is not None else located.of(split, offset)
            made.append(replace(each.letter, index=index, **place))
        return first_of_each(made)

    def tables(self, on_progress: Callable[..., None] | None = None) -> tuple[tuple[pa.Table, ...], job.Gathered]:
        """All results, whole, and what was counted."""
        found = self.run(on_progress)
        outputs = {o.leaf: o for stage in self.cut.stages for o in stage.outputs if o.leaf is not None}
        tables = tuple(
            job.table(leaf, found.results.get(at, []), outputs[at].has_places) for at, leaf in enumerate(self.leaves)
        )
        return tables, found


_SMALL = 1 << 20


def splits_of(
    tree: Tree,
    control: Sequence[At],
    aligns: n.Regions | None,
    cores: int,
    split_bytes: int | None,
    *,
    is_guarded: bool = False,
) -> Sequence[Split]:
    """The splits of a source: about so large, and enough of them for all cores."""
    items, columns = tree.source.items, needs(tree)[tree.source]
    bounds = () if control or aligns is not None or is_guarded else _bounds(tree)
    wanted = _whole("split_bytes", split_bytes)
    if wanted is None:
        total = sum(split.bytes for split in items.splits(SPLIT_BYTES))
        wanted = max(1, min(SPLIT_BYTES, total // (TASKS_A_CORE * cores) + 1))
    return list(items.splits(wanted, bounds, columns)) or [NoItems()]


def _bounds(tree: Tree) -> tuple[Bound, ...]:
    """What items must fulfil to pass the first node, where that is a filter of plain columns."""
    following = tree.children[tree.source]
    first = following[0] if len(following) == 1 and tree.source not in tree.leaves else None
    if not isinstance(first, n.Filter) or first.state is not None:
        return ()
    return bounds_of(first.predicate)


def expected_cores(
    leaves: tuple[n.GraphNode, ...],
    control: Sequence[At],
    made: Cut,
    spark: SparkSession,
    *,
    asked: int | None,
    buckets: int | None,
    split_bytes: int | None,
) -> dict[int, TaskCores]:
    """On how many cores the tasks of a job would run, without one: splits are counted before they are moved."""
    tree, machine = Tree(leaves), machine_of(spark.sparkContext)
    at_a_time = tasks_at_a_time(spark.sparkContext, machine)
    is_frame = isinstance(tree.source.items, FrameItems)
    aligns = alignable(tree) if not made.is_whole else None
    splits = 1 if is_frame else len(splits_of(tree, control, aligns, at_a_time, split_bytes))
    layout = job.laid_out(made, splits, _whole("buckets", buckets) or at_a_time)
    return task_cores(made, layout, machine, asked=asked, is_frame=is_frame)


def planned_cut(
    leaves: Sequence[n.GraphNode],
    control: Sequence[At],
    *,
    is_ordered: bool,
    is_collected: bool,
    is_guarded: bool = False,
) -> Cut:
    """The stages of some results. What is collected in order is put in order by the driver."""
    items = leaves[0].source.items
    is_frame = isinstance(items, FrameItems)
    order = items.order_by if isinstance(items, FrameItems) else ()
    tree = Tree(tuple(leaves))
    # Where regions begin is looked for in a pass of its own, in which no item may fail.
    found = None if is_guarded else alignable(tree)
    if is_frame:
        by_order = [
            node for node in tree.nodes if isinstance(node, n.Regions) and order and begins_with(node, order[0])
        ]
    made = cut(
        leaves,
        [type(given.signal) for given in control],
        places=is_ordered and is_collected,
        is_ordered=is_ordered and not is_collected,
        aligned=by_order if is_frame else [found] if found is not None else [],
        is_gathered_at_source=not is_frame,
        meets_by_place=True,
        is_guarded=is_guarded,
    )
    if is_frame and not order:
        refuse_unordered(leaves[0].source, made, control, is_ordered)
    return made


def _whole(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GraphError(f"run: {name} must be a whole number of at least 1; got {value!r}")
    return value
