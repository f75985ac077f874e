"""Watch a running job: how far its stages are, and the first error that a task reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.spark.driver.reason import job_error
from penstock.spark.wire import Failed, Message, TaskCounts
from penstock.spark.worker.remote import Report
from penstock.spark.worker.task_failure import first_failure

if TYPE_CHECKING:
    from penstock.report.progress import Progress
    from penstock.spark.driver.batch import Actions

EVERY_S = 0.1
PATIENCE_S = 10.0
"""How long a failed job may go on for the tasks that come before the one that failed: the first error is told."""


class Monitor:
    """Runs an action of Spark in this thread while another one looks after it."""

    def __init__(self, actions: Actions, on_progress: Callable[..., None] | None) -> None:
        self.actions, self.on_progress = actions, on_progress
        self.context = actions.spark.sparkContext
        self.reports = self.context.accumulator([], _listed())
        self.done = threading.Event()
        self.failure: PenstockError | None = None
        self.known_since: float | None = None
        self.begun: dict[int, float] = {}
        self.decoded: list[TaskCounts | Failed] = []
        self.lock = threading.Lock()

    @property
    def reported(self) -> list[TaskCounts | Failed]:
        """What tasks have reported so far."""
        with self.lock:
            for kind, head in self.reports.value[len(self.decoded) :]:
                self.decoded.append(Message(0, kind, head).decode())
            return list(self.decoded)

    def __enter__(self) -> Monitor:
        self.context.setJobGroup(self.actions.group, "penstock", interruptOnCancel=True)
        self.thread = threading.Thread(target=self._look, name="penstock-monitor", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.thread.join()
        if self.on_progress is not None:
            self.on_progress(self.progress(self.reported))
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            self.context.setLocalProperty(name, None)  # type: ignore[arg-type]

    def watch(self, action: Callable[[Report], Any]) -> Any:
        """The result of an action. A failure that a task reported is raised instead of what Spark makes of it."""
        reports = self.reports
        try:
            return action(lambda report: reports.add([report]))
        except BaseException as error:
            if _is_interrupted(error):
                self.context.cancelJobGroup(self.actions.group)
                raise KeyboardInterrupt from None
            if not isinstance(error, Exception):
                raise
            raise self._failure() or job_error(error, self.actions.plan.tree.nodes) from None

    def _failure(self) -> PenstockError | None:
        """The failure for which the job was cancelled, or else the first that was reported."""
        if self.failure is None:
            failed = [each for each in self.reported if isinstance(each, Failed)]
            self.failure = self.actions.user_error(first_failure(failed)) if failed else None
        return self.failure

    def _look(self) -> None:
        while not self.done.wait(EVERY_S):
            reported = self.reported
            if self.failure is None and self._is_decided(reported):
                self._failure()
                self.context.cancelJobGroup(self.actions.group)
            if self.on_progress is not None:
                self.on_progress(self.progress(reported))

    def _is_decided(self, reported: list[TaskCounts | Failed]) -> bool:
        """Whether a task has failed, and none is left that might tell of something earlier in the stream."""
        failed = [each for each in reported if isinstance(each, Failed)]
        if not failed:
            return False
        if self.known_since is None:
            self.known_since = time.monotonic()
        return time.monotonic() - self.known_since > PATIENCE_S or self._before(first_failure(failed)) <= {
            (each.stage, each.sender) for each in reported
        }

    def _before(self, failed: Failed) -> set[tuple[int, int]]:
        """The tasks, as (stage, sender), that may fail by something before this: earlier splits, or all buckets."""
        stages = self.actions.plan.cut.stages
        if stages[failed.stage].level == 0:
            return {(0, sender) for sender in range(failed.sender)}
        beside = [s.number for s in stages[: failed.stage + 1] if s.level == stages[failed.stage].level]
        layout = self.actions.layout
        assert layout is not None
        return {(number, bucket) for number in beside for bucket in range(len(layout.targets[number]))}

    def progress(self, reported: list[TaskCounts | Failed]) -> Progress:
        """How far every stage is."""
        from penstock.report.progress import Progress, StageProgress

        layout, now = self.actions.layout, time.perf_counter()
        assert layout is not None
        counts = [each for each in reported if isinstance(each, TaskCounts)]
        stages = []
        for stage in self.actions.plan.cut.stages:
            done = {each.sender: each for each in counts if each.stage == stage.number}
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
