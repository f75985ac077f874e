"""Watch a running job: how far its stages are, and the first error that a task reports."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.driver.reason import job_error
from penstock.spark.worker.task import COUNTED, Counted
from penstock.spark.worker.task_failure import FAILED, Failed, first

if TYPE_CHECKING:
    from penstock.report.progress import Progress
    from penstock.spark.driver.batch import BatchJob

Report = Callable[[Counted | Failed], None]
"""Tells the driver something while the job is running. What tasks report may come twice, when one is run again."""
EVERY_S = 0.1
PATIENCE_S = 10.0
"""How long a failed job may go on for the tasks that come before the one that failed: the first error is told."""


def reporting(rows: Iterator[pa.RecordBatch], report: Report | None) -> Iterator[pa.RecordBatch]:
    """The rows of a task, while what it counted and what failed is reported too."""
    for row in rows:
        if report is not None and row.column(1)[0].as_py() in (COUNTED, FAILED):
            report(pickle.loads(row.column(5)[0].as_py()))
        yield row


class Monitor:
    """Runs an action of Spark in this thread while another one looks after it."""

    def __init__(self, job: BatchJob, on_progress: Callable[..., None] | None) -> None:
        self.job, self.on_progress = job, on_progress
        self.context = job.spark.sparkContext
        self.reports = self.context.accumulator([], _listed())
        self.done = threading.Event()
        self.failure: PenstockError | None = None
        self.known_since: float | None = None
        self.begun: dict[int, float] = {}

    def __enter__(self) -> Monitor:
        self.context.setJobGroup(self.job.group, "penstock", interruptOnCancel=True)
        self.thread = threading.Thread(target=self._look, name="penstock-monitor", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.thread.join()
        if self.on_progress is not None:
            self.on_progress(self.progress(list(self.reports.value)))
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            self.context.setLocalProperty(name, None)  # type: ignore[arg-type]

    def watch(self, action: Callable[[Report], Any]) -> Any:
        """The result of an action. A failure that a task reported is raised instead of what Spark makes of it."""
        reports = self.reports
        try:
            return action(lambda found: reports.add([found]))
        except BaseException as error:
            if _is_interrupted(error):
                self.context.cancelJobGroup(self.job.group)
                raise KeyboardInterrupt from None
            if not isinstance(error, Exception):
                raise
            raise self._failure() or job_error(error, self.job.tree.nodes) from None

    def _failure(self) -> PenstockError | None:
        """The failure for which the job was cancelled, or else the first that was reported."""
        if self.failure is None:
            failed = [each for each in self.reports.value if isinstance(each, Failed)]
            self.failure = self.job.told(first(failed)) if failed else None
        return self.failure

    def _look(self) -> None:
        while not self.done.wait(EVERY_S):
            found = list(self.reports.value)
            if self.failure is None and self._is_decided(found):
                self._failure()
                self.context.cancelJobGroup(self.job.group)
            if self.on_progress is not None:
                self.on_progress(self.progress(found))

    def _is_decided(self, found: list[Counted | Failed]) -> bool:
        """Whether a task has failed, and none is left that might tell of something earlier in the stream."""
        failed = [each for each in found if isinstance(each, Failed)]
        if not failed:
            return False
        if self.known_since is None:
            self.known_since = time.monotonic()
        return time.monotonic() - self.known_since > PATIENCE_S or self._before(first(failed)) <= {
            (each.stage, each.sender) for each in found
        }

    def _before(self, failed: Failed) -> set[tuple[int, int]]:
        """The tasks, as (stage, sender), that may fail by something before this: earlier splits, or all buckets."""
        stages = self.job.cut.stages
        if stages[failed.stage].level == 0:
            return {(0, sender) for sender in range(failed.sender)}
        beside = [s.number for s in stages[: failed.stage + 1] if s.level == stages[failed.stage].level]
        return {(number, bucket) for number in beside for bucket in range(len(self.job.layout.targets[number]))}

    def progress(self, found: list[Counted | Failed]) -> Progress:
        """How far every stage is."""
        from penstock.report.progress import Progress, StageProgress

        layout, now = self.job.layout, time.perf_counter()
        stages = []
        for stage in self.job.cut.stages:
            done = {each.sender: each for each in found if isinstance(each, Counted) and each.stage == stage.number}
            if done:
                self.begun.setdefault(stage.number, now - max(each.seconds for each in done.values()))
            total = layout.splits if stage.reads is None else len(layout.targets[stage.number])
            items, size = sum(each.items for each in done.values()), sum(each.bytes_in for each in done.values())
            seconds = now - self.begun.get(stage.number, now)
            late = sum(each.statistics.late for each in done.values())
            stages.append(StageProgress(stage.name, len(done), max(total, len(done)), items, size, seconds, late))
        return Progress(tuple(stages))


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether the user has interrupted. PySpark asks Spark for a result even then, and raises what that says."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _listed() -> Any:
    from pyspark.accumulators import AccumulatorParam

    class Listed(AccumulatorParam[list[Any]]):
        """Lists that are put together."""

        def zero(self, value: list[Any]) -> list[Any]:
            return []

        def addInPlace(self, one: list[Any], other: list[Any]) -> list[Any]:
            one.extend(other)
            return one

    return Listed()
