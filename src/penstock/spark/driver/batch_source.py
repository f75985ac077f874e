"""The source of a batch as rows of Spark: splits that tasks read, or the partitions of a DataFrame."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import GraphError, PenstockError
from penstock.graph.split import NoItems, Split
from penstock.spark.dataframe import FrameItems
from penstock.spark.driver.batch_plan import BatchPlan
from penstock.spark.files.region_splits import locate
from penstock.spark.wire import ROWS, Failed
from penstock.spark.worker.first_pass import Sought
from penstock.spark.worker.remote import (
    PLACED,
    AlignedLater,
    PackedSplits,
    Report,
    SplitTask,
    Task,
    as_it_is,
    over_all,
    over_carried,
    over_nothing,
    over_numbers,
    over_partition,
    over_placed,
    over_placed_partition,
    over_split,
    pack,
    place_all,
    survey_frame,
    survey_of,
    then,
)
from penstock.spark.worker.task_failure import user_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 64 << 20
"""How much of the source one task reads, unless there is so little that some cores would have nothing to do."""
TASKS_A_CORE = 4
SMALL_BYTES = 1 << 20
"""Up to so many bytes of splits travel with every task, larger ones as rows."""


@dataclass(frozen=True)
class RowsAs:
    """What the rows of tasks become: their columns in Spark, and what makes them of messages."""

    schema: Any = ROWS
    convert: Task = as_it_is

    def of(self, rows: Any, task: Task) -> DataFrame:
        """The rows that a task gives for rows of Spark."""
        made: DataFrame = rows.mapInArrow(then(task, self.convert), self.schema)
        return made


MESSAGES = RowsAs()


@dataclass(frozen=True)
class SplitSource:
    """Splits, each read by a task, or all of them by one where the plan `is_whole`.

    With `beginning`, tasks move the splits to where regions begin (`AlignedLater`).
    """

    spark: SparkSession
    splits: tuple[Split, ...]
    is_whole: bool
    beginning: bytes | None = None

    @property
    def counts(self) -> dict[int, int] | None:
        """How many items each split has, where all know it."""
        known = {number: split.rows for number, split in enumerate(self.splits) if split.rows is not None}
        return known if self.beginning is None and len(known) == len(self.splits) else None

    @property
    def skipped(self) -> dict[int, int]:
        """How many items were left out right before each split."""
        return {number: split.skipped_before for number, split in enumerate(self.splits)}

    @property
    def packed(self) -> PackedSplits:
        splits = [pack(split) for split in self.splits]
        return PackedSplits(splits) if self.beginning is None else AlignedLater(splits, self.beginning)

    def over(self, run: SplitTask, rows_as: RowsAs = MESSAGES) -> DataFrame:
        """A task for each split, with what `run` gives for it. Small splits travel with the task, others as rows."""
        packed = self.packed
        splits = packed.splits
        if self.beginning is not None or sum(map(len, splits)) <= SMALL_BYTES:
            return rows_as.of(self._numbers(len(splits)), over_numbers(run, packed))
        numbers = pa.array(range(len(splits)), pa.int64())
        table = pa.table({"number": numbers, "split": pa.array(splits, pa.binary())})
        return rows_as.of(self.spark.createDataFrame(table), over_carried(run))

    def survey(self, sought: Sought) -> DataFrame:
        """The rows of a first pass that counts items and looks for values."""
        return self.over(survey_of(sought))

    def first_stage(self, program: bytes, report: Report | None, rows_as: RowsAs, *, is_last: bool) -> DataFrame:
        """The rows of the first stage."""
        if self.is_whole:
            return rows_as.of(self._numbers(1), over_all(program, self.packed.splits, report))
        return self.over(over_split(program, report), rows_as)

    def first_stage_placed(self, program: bytes, placed: PlacedLater, rows_as: RowsAs, *, is_last: bool) -> DataFrame:
        """The rows of the first stage, whose tasks take the places of signals from their rows."""
        numbers = self._numbers(1 if self.is_whole else len(self.splits))
        task = over_placed(program, placed.control, self.packed, is_whole=self.is_whole)
        return rows_as.of(placed.beside(numbers, self), task)

    def _numbers(self, count: int) -> DataFrame:
        return self.spark.range(0, count, 1, count)

    def user_error(self, failed: Failed, bases: Mapping[int, int]) -> PenstockError:
        """The error of a task as the user gets it, with the piece of the source that it lies in.

        `bases` has the splits whose tasks number their items from an index in the source.
        """
        if failed.split is None:
            return failed.error
        split, offset = self.splits[failed.split], failed.offset
        label = split.label
        if offset is not None:
            with contextlib.suppress(PenstockError):  # it need not be there any more
                label, offset = locate(split, offset)
        is_known = self.is_whole or failed.split == 0 or failed.split in bases
        return user_error(failed, label, offset, is_index=failed.offset is not None and is_known)

    def close(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class FrameSource:
    """A DataFrame in partitions that follow each other in its order. `is_kept` until `close`, to be read twice."""

    spark: SparkSession
    frame: DataFrame
    partitions: int
    is_kept: bool
    splits: tuple[Split, ...] = ()
    counts: None = None

    @property
    def skipped(self) -> dict[int, int]:
        return {}

    def survey(self, sought: Sought) -> DataFrame:
        """The rows of a first pass that counts items and looks for values."""
        return MESSAGES.of(self.frame, survey_frame(sought))

    def first_stage(self, program: bytes, report: Report | None, rows_as: RowsAs, *, is_last: bool) -> DataFrame:
        """The rows of the first stage: of each partition, and of a split without items where stages follow."""
        return self._and_nothing(rows_as.of(self.frame, over_partition(program, report)), program, is_last=is_last)

    def first_stage_placed(self, program: bytes, placed: PlacedLater, rows_as: RowsAs, *, is_last: bool) -> DataFrame:
        """The rows of the first stage, whose tasks take the places of signals from their rows."""
        task = over_placed_partition(program, placed.control)
        return self._and_nothing(rows_as.of(placed.beside(self.frame, self), task), program, is_last=is_last)

    def _and_nothing(self, rows: DataFrame, program: bytes, *, is_last: bool) -> DataFrame:
        if is_last:
            return rows
        return rows.unionAll(MESSAGES.of(self.spark.range(0, 1, 1, 1), over_nothing(program)))

    def user_error(self, failed: Failed, bases: Mapping[int, int]) -> PenstockError:
        """The error of a task as the user gets it, with the partition that it lies in."""
        if failed.split is None:
            return failed.error
        return user_error(failed, f"partition {failed.split} of the DataFrame", failed.offset, is_index=False)

    def close(self) -> None:
        if self.is_kept:
            self.frame.unpersist()


BatchSource = SplitSource | FrameSource


@dataclass(frozen=True)
class PlacedLater:
    """The places of signals as a column of Spark: a first pass that is a part of the job, because none may run before.

    `control` are the signals, packed.
    """

    control: bytes
    sought: Sought

    def beside(self, rows: Any, source: BatchSource) -> DataFrame:
        """Rows with that column."""
        from pyspark.sql.functions import broadcast

        seen = source.survey(self.sought).repartition(1)
        task = place_all(self.control, source.skipped, is_frame=isinstance(source, FrameSource))
        made: DataFrame = rows.crossJoin(broadcast(seen.mapInArrow(task, PLACED)))
        return made


def open_source(plan: BatchPlan, spark: SparkSession, cores: int, split_bytes: int | None) -> BatchSource:
    """The source of a batch. A DataFrame is kept where it will be read twice, so that both see the same order."""
    items = plan.tree.source.items
    if not isinstance(items, FrameItems):
        return SplitSource(spark, splits_of(plan, cores, split_bytes), plan.cut.is_whole)
    partitions = 2 * cores
    frame = items.in_order(plan.columns | set(plan.control_fields), partitions)
    is_kept = bool(plan.control)
    return FrameSource(spark, frame.persist() if is_kept else frame, partitions, is_kept)


def splits_of(plan: BatchPlan, cores: int, split_bytes: int | None) -> tuple[Split, ...]:
    """The splits of a source: about so large, and enough of them for all cores."""
    items = plan.tree.source.items
    about_bytes = whole_number("run", "split_bytes", split_bytes)
    if about_bytes is None:
        total = sum(split.bytes for split in items.splits(SPLIT_BYTES))
        about_bytes = max(1, min(SPLIT_BYTES, total // (TASKS_A_CORE * cores) + 1))
    return tuple(items.splits(about_bytes, plan.bounds, plan.columns)) or (NoItems(),)


def whole_number(operator: str, name: str, value: Any) -> int | None:
    """An option that is a whole number, where it is given."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GraphError(f"{operator}: {name} must be a whole number of at least 1; got {value!r}")
    return value
