"""A run on Spark: what `prepare` gives for streams that run there. Nothing starts before a result is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine.options import Options
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.letters import table_of
from penstock.graph.prepared_run import PreparedRun
from penstock.graph.tree import At, Tree, check_signals
from penstock.graph.watermarks import translate_option, warn_late, with_watermarks
from penstock.spark.dataframe import DataWriter
from penstock.spark.driver.arrow_batches import arrow_batches
from penstock.spark.driver.batch import BatchJob, expected_cores, planned_cut
from penstock.spark.driver.job_statistics import JobStatistics, job_statistics
from penstock.spark.driver.results import Gathered, gathered
from penstock.spark.driver.session import active
from penstock.spark.driver.task_cores import TaskCores, asked_of, notes
from penstock.spark.driver.usable import usable
from penstock.spark.worker.block import Block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRun(PreparedRun):
    """One run of some results of a graph on Spark, with its options. It can be run once."""

    where = "on Spark"

    def __init__(
        self,
        leaves: tuple[n.GraphNode, ...],
        control: Sequence[At] = (),
        spark: SparkSession | None = None,
        *,
        ordered: bool = False,
        buckets: int | None = None,
        split_bytes: int | None = None,
        on_progress: Callable[..., None] | None = None,
        letters_to: Callable[[pa.Table], None] | None = None,
        **options: Any,
    ) -> None:
        leaves, made = with_watermarks(leaves)
        options |= {name: translate_option(value, made) for name, value in options.items()}
        is_guarded = Options.of(options).on_error == "skip"
        self.letters_to, self.letters = letters_to, table_of(())
        self.spark, self.is_ordered = spark if spark is None else usable(spark), ordered
        self.leaves, self.asked, self.options = asked_of(leaves, options)
        self.control = check_signals(Tree(leaves), control)
        self.sizes: dict[str, Any] = {"buckets": buckets, "split_bytes": split_bytes}
        self.on_progress = on_progress
        how = {"is_ordered": ordered, "is_collected": True, "is_guarded": is_guarded}
        self.cut = planned_cut(self.leaves, self.control, **how)
        self.task_cores: Mapping[int, TaskCores] | None = None
        self.counted: Gathered | None = None
        self.seconds = 0.0

    def job(self, *, is_collected: bool, **results: Any) -> BatchJob:
        """The job, planned for the session."""
        made = BatchJob(
            self.leaves,
            self.control,
            self.spark,
            is_ordered=self.is_ordered,
            is_collected=is_collected,
            asked=self.asked,
            **results,
            **self.sizes,
            **self.options,
        )
        self.cut, self.task_cores = made.cut, made.task_cores
        return made

    @property
    def results(self) -> tuple[n.GraphNode, ...]:
        return self.leaves

    @property
    def has_started(self) -> bool:
        return self.counted is not None

    def batches(self) -> Iterator[tuple[pa.RecordBatch]]:
        """The result batch by batch, as one partition after another comes to the driver."""
        if self.counted is not None:
            raise GraphError("run: a run can be run once; prepare another")
        started, blocks = time.perf_counter(), list[Block]()
        job = self.job(is_collected=False, results=DataWriter)
        for batch in arrow_batches(job, blocks):
            yield (batch,)
        self._finish(job, gathered(blocks), started)

    def tables(self) -> tuple[pa.Table, ...]:
        """All results, whole."""
        job = self.job(is_collected=True)
        tables = self.run(lambda: job.tables(self.on_progress), job)
        return tables  # type: ignore[no-any-return]

    @property
    def skipped(self) -> int:
        """How many letters there are."""
        return int(self.letters.num_rows)

    def dead_letters(self) -> pa.Table:
        """The items that were skipped with `on_error="skip"`: one row for each, in the order of the source."""
        return self.letters

    def run(self, action: Callable[[], tuple[Any, Gathered]], job: BatchJob) -> Any:
        """Run a job, and keep what was counted, and the letters."""
        if self.counted is not None:
            raise GraphError("run: a run can be run once; prepare another")
        started = time.perf_counter()
        result, counted = action()
        self._finish(job, counted, started)
        return result

    def _finish(self, job: BatchJob, counted: Gathered, started: float) -> None:
        self.counted, self.letters = counted, table_of(job.letters(counted))
        if self.letters_to is not None:
            self.letters_to(self.letters)
        self.seconds = time.perf_counter() - started
        warn_late(Tree(self.leaves), sum(each.statistics.late for each in counted.counted))

    def frame(self) -> Any:
        """The first result as a DataFrame."""
        from penstock.spark.dataframe import frame

        return frame(self)

    def explain(self) -> str:
        """The stages with the reason of each and the cores of its tasks, and the graph with its loops on one core.

        Cores are those of the session that was given or is active; without one, nothing is said of them.
        """
        from penstock.engine.run import Run

        stages = self.cut.explain(notes(self.cut, self._cores()))
        return f"{stages}\n\n{Run(self.leaves, self.control, **self.options).explain()}"

    def _cores(self) -> Mapping[int, TaskCores]:
        if self.task_cores is not None:
            return self.task_cores
        spark = self.spark or active()
        if spark is None or not hasattr(spark, "_jsparkSession"):
            return {}
        return expected_cores(self.leaves, self.control, self.cut, spark, asked=self.asked.cores, **self.sizes)

    def statistics(self) -> JobStatistics:
        """What was counted, in all tasks together."""
        counted = () if self.counted is None else self.counted.counted
        return job_statistics(self.cut, counted, self.seconds, self.skipped)
