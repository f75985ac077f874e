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
from penstock.spark.dataframe import FrameWriter
from penstock.spark.driver.arrow_batches import arrow_batches
from penstock.spark.driver.batch import BatchJob, Results, prepare_batch
from penstock.spark.driver.batch_plan import BatchPlan, plan_batch
from penstock.spark.driver.batch_source import splits_of, whole_number
from penstock.spark.driver.bucket_layout import lay_out
from penstock.spark.driver.job_statistics import JobStatistics, job_statistics
from penstock.spark.driver.results import JobOutput, gather
from penstock.spark.driver.session import active
from penstock.spark.driver.task_cores import TaskCores, asked_of, core_notes, machine_of, task_cores, tasks_at_a_time
from penstock.spark.driver.usable import usable
from penstock.spark.wire import Message
from penstock.spark.worker.result_writers import CollectWriter

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
        is_collected: bool = True,
        buckets: int | None = None,
        split_bytes: int | None = None,
        on_progress: Callable[..., None] | None = None,
        letters_to: Callable[[pa.Table], None] | None = None,
        **options: Any,
    ) -> None:
        leaves, made = with_watermarks(leaves)
        options |= {name: translate_option(value, made) for name, value in options.items()}
        self.letters_to, self.letters = letters_to, table_of(())
        self.spark, self.is_ordered = spark if spark is None else usable(spark), ordered
        self.leaves, self.asked, self.options = asked_of(leaves, options)
        self.buckets, self.split_bytes = buckets, split_bytes
        self.on_progress = on_progress
        tree = Tree(self.leaves)
        self.plan = self._plan(tree, check_signals(tree, control), is_collected=is_collected)
        self.task_cores: Mapping[int, TaskCores] | None = None
        self.output: JobOutput | None = None
        self.seconds = 0.0

    def _plan(self, tree: Tree, control: Sequence[At], *, is_collected: bool) -> BatchPlan:
        is_guarded = Options.of(self.options).on_error == "skip"
        return plan_batch(tree, control, is_ordered=self.is_ordered, is_collected=is_collected, is_guarded=is_guarded)

    def job(self, *, results: Results = CollectWriter, is_lazy: bool = False) -> BatchJob:
        """The job, on the session. First passes over the source run here."""
        job = prepare_batch(
            self.plan,
            self.spark,
            results=results,
            is_lazy=is_lazy,
            buckets=self.buckets,
            split_bytes=self.split_bytes,
            asked=self.asked,
            options=self.options,
        )
        self.task_cores = job.task_cores
        return job

    @property
    def results(self) -> tuple[n.GraphNode, ...]:
        return self.leaves

    @property
    def has_started(self) -> bool:
        return self.output is not None

    def batches(self) -> Iterator[tuple[pa.RecordBatch]]:
        """The result batch by batch, as one partition after another comes to the driver."""
        if self.output is not None:
            raise GraphError("run: a run can be run once; prepare another")
        started, others = time.perf_counter(), list[Message]()
        self._plan_apart()
        job = self.job(results=FrameWriter)
        for batch in arrow_batches(job, others):
            yield (batch,)
        self._finish(job, gather(others), started)

    def _plan_apart(self) -> None:
        """Have an exchange put the rows in order, where they are to be: the driver does not see them together."""
        if self.is_ordered:
            self.plan = self._plan(self.plan.tree, self.plan.control, is_collected=False)

    def tables(self) -> tuple[pa.Table, ...]:
        """All results, whole."""
        job = self.job()
        tables = self.run(lambda: job.tables(self.on_progress), job)
        return tables  # type: ignore[no-any-return]

    @property
    def skipped(self) -> int:
        """How many letters there are."""
        return int(self.letters.num_rows)

    def dead_letters(self) -> pa.Table:
        """The items that were skipped with `on_error="skip"`: one row for each, in the order of the source."""
        return self.letters

    def run(self, action: Callable[[], tuple[Any, JobOutput]], job: BatchJob) -> Any:
        """Run a job, and keep what was counted, and the letters."""
        if self.output is not None:
            raise GraphError("run: a run can be run once; prepare another")
        started = time.perf_counter()
        result, output = action()
        self._finish(job, output, started)
        return result

    def _finish(self, job: BatchJob, output: JobOutput, started: float) -> None:
        self.output, self.letters = output, table_of(job.letters(output))
        if self.letters_to is not None:
            self.letters_to(self.letters)
        self.seconds = time.perf_counter() - started
        warn_late(self.plan.tree, sum(each.statistics.late for each in output.counts))

    def frame(self) -> Any:
        """The first result as a DataFrame."""
        from penstock.spark.dataframe import frame

        self._plan_apart()
        return frame(self)

    def explain(self) -> str:
        """The stages with the reason of each and the cores of its tasks, and the graph with its loops on one core.

        Cores are those of the session that was given or is active; without one, nothing is said of them.
        """
        from penstock.engine.run import Run

        stages = self.plan.cut.explain(core_notes(self.plan.cut, self._cores()))
        return f"{stages}\n\n{Run(self.leaves, self.plan.control, **self.options).explain()}"

    def _cores(self) -> Mapping[int, TaskCores]:
        if self.task_cores is not None:
            return self.task_cores
        spark = self.spark or active()
        if spark is None or not hasattr(spark, "_jsparkSession"):
            return {}
        return self._expected_cores(spark)

    def _expected_cores(self, spark: SparkSession) -> dict[int, TaskCores]:
        """On how many cores the tasks of a job would run, without one: splits are counted before they are moved."""
        plan, machine = self.plan, machine_of(spark.sparkContext)
        cores = tasks_at_a_time(spark.sparkContext, machine)
        splits = 1 if plan.is_frame else len(splits_of(plan, cores, self.split_bytes))
        layout = lay_out(plan.cut, splits, whole_number("run", "buckets", self.buckets) or cores)
        return task_cores(plan.cut, layout, machine, asked=self.asked.cores, is_frame=plan.is_frame)

    def statistics(self) -> JobStatistics:
        """What was counted, in all tasks together."""
        counts = () if self.output is None else self.output.counts
        return job_statistics(self.plan.cut, counts, self.seconds, self.skipped)
