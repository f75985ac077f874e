"""A stream that runs: look at it, wait for it, send it signals, stop it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError, GraphError, JobError, PenstockError, quoted
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.spark.driver.reason import job_error
from penstock.spark.streaming.query import StreamQuery
from penstock.spark.streaming.restart import Restarts, restarts_of
from penstock.spark.streaming.running_query import RunningQuery
from penstock.spark.streaming.sent_signals import SignalPosition, values_of
from penstock.spark.streaming.stream_progress import StreamProgress, has_run, progress_of
from penstock.spark.streaming.supervisor import Begin, Supervisor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = 1000
"""Of how many micro-batches the handle remembers what Spark has told."""


def start(
    leaf: n.GraphNode,
    sink: Any,
    checkpoint: Any,
    trigger: Any = None,
    spark: SparkSession | None = None,
    *,
    restart: bool = False,
    **options: Any,
) -> StreamHandle:
    """Start a stream; see `Stream.start`."""
    when, restarts = trigger_of(trigger), restarts_of(restart)

    def begin(spark: SparkSession | None) -> tuple[StreamQuery, RunningQuery]:
        query = StreamQuery(leaf, sink, checkpoint, spark, **options)
        return query, RunningQuery(query.start(when))

    handle = StreamHandle(*begin(spark))
    if restarts is not None:
        handle.keep_up(begin, restarts)
    return handle


def trigger_of(given: Any) -> Mapping[str, Any]:
    """The trigger in Spark's words.

    >>> trigger_of(None), trigger_of("available"), trigger_of(2.5)
    ({}, {'availableNow': True}, {'processingTime': '2500 milliseconds'})
    """
    if given is None:
        return {}
    if given == "available":
        return {"availableNow": True}
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < 1e9:
        return {"processingTime": f"{round(1000 * seconds)} milliseconds"}
    raise GraphError(
        f"start: trigger must be None (as fast as it can), a number of seconds or a timedelta, or 'available' "
        f"(whatever is there, and then stop); got {given!r}"
    )


class StreamHandle:
    """A stream that was started. With `restart=True`, it is the same over all queries that run for it in turn."""

    def __init__(self, query: StreamQuery, running: RunningQuery) -> None:
        self.query, self.running = query, running
        self.restarts = 0
        """How often it was started again by itself."""
        self.told: deque[Mapping[str, Any]] = deque(maxlen=KEPT)
        """What Spark has told of micro-batches, each once, as far as it was asked."""
        self.failure: PenstockError | None = None
        """What the last restart has failed with."""
        self.is_stopped = threading.Event()
        self.supervisor: Supervisor | None = None

    def keep_up(self, begin: Begin, restarts: Restarts, **clocks: Any) -> None:
        """Start it again from now on, after failures that may pass."""
        self.supervisor = Supervisor(self, begin, restarts, **clocks)

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or will again."""
        return self.supervisor.is_at_work if self.supervisor is not None else self.running.isActive

    @property
    def status(self) -> str:
        """`running` while it works on a micro-batch, `waiting` for new data, `restarting`, `stopped`, or `failed`."""
        if self.running.isActive:
            return "running" if self.running.is_busy else "waiting"
        if self.is_alive:
            return "restarting"
        return "stopped" if self.exception is None else "failed"

    @property
    def exception(self) -> PenstockError | None:
        """What it failed with, if it has."""
        return None if self.is_alive else self.failed_with()

    def failed_with(self) -> PenstockError | None:
        """What the query that ran last has failed with, if it has. It does not run."""
        self.query.checkpoint.close()
        if self.failure is not None:
            return self.failure
        if self.is_stopped.is_set() and self.query.failure is None:
            return None  # what goes wrong in a micro-batch that is cut short is no failure
        found = self.query.failure or self.running.exception()
        return None if found is None else job_error(found, self.query.tree.nodes)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until it has stopped, at most so long; whether it has. Where it has failed, its error is raised."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.is_alive:
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            if left <= 0:
                return False
            self._wait(max(left, 0.01))
            self._look_for_passed()
        failure = self.exception
        if failure is not None:
            raise failure
        return True

    def _wait(self, seconds: float) -> None:
        self.running.wait(seconds) if self.supervisor is None else self.supervisor.wait(seconds)

    def _look_for_passed(self, *, at_once: bool = False) -> None:
        """Have the stream fail where Spark passes over a file. It may do so for good, and have no micro-batch."""
        if self.query.passed is None or not self.running.isActive:
            return
        try:
            self.query.passed.refuse() if at_once else self.query.passed.refuse_now_and_then()
        except DataError as error:
            self.query.failure = error
            self.running.stop()

    def stop(self) -> None:
        """Stop it. What has begun of a micro-batch is done again by the next start."""
        if self.running.isActive:
            self.is_stopped.set()
        if self.supervisor is not None:
            self.supervisor.stop()
        self.running.stop()
        self.query.checkpoint.close()

    def go_on_with(self, query: StreamQuery, running: RunningQuery) -> None:
        """Be the handle of another query from now on, which goes on where the one before has ended."""
        self.query, self.running, self.failure = query, running, None
        self.restarts += 1

    def send(self, signal: Signal, timeout_s: float = 60.0) -> SignalPosition:
        """Place a signal between two items of the stream, for all nodes; where that is.

        It stands before the first item of the micro-batch that takes it up, and stays there, whatever happens.
        """
        if type(signal).__name__ not in self.query.signals or not isinstance(signal, Signal):
            raise GraphError(
                f"send: must be a signal that a node handles; got {signal!r}, and there are "
                f"{quoted(self.query.signals) or 'none'}"
            )
        if not self.is_alive:
            raise JobError("send: the stream must be running; it is not; start it again")
        sent = self.query.checkpoint.write_signal(type(signal).__name__, values_of(signal))
        return self.query.checkpoint.wait_placed(sent, timeout_s)

    def progress(self) -> StreamProgress | None:
        """How it is doing, of the last micro-batch that is done; None before the first since it was started."""
        self._look_for_passed(at_once=True)
        found = self._recent()
        return self._progress(found[-1], self._waiting()) if found else None

    def recent(self, after: int = -1) -> list[StreamProgress]:
        """How it has been doing: the same of each micro-batch since it was started, but no more than the last 1,000.

        Only those with a greater number than `after`. All tell of the files that wait now.
        """
        waiting = self._waiting()
        return [self._progress(told, waiting) for told in self._recent() if told["batchId"] > after]

    def _recent(self) -> Sequence[Mapping[str, Any]]:
        """What Spark tells of micro-batches: what it told before, and what is new."""
        last = self.running.lastProgress
        known = self.told[-1]["batchId"] if self.told else -1
        # Of a look that found nothing, the number is that of the micro-batch to come.
        if last is not None and last["batchId"] > known + (not has_run(last)):
            is_next = has_run(last) and last["batchId"] == known + 1
            for told in [last] if is_next else self.running.recentProgress:
                if has_run(told) and told["batchId"] > known:
                    self.told.append(told)
        return self.told

    def _progress(self, told: Mapping[str, Any], waiting: int | None) -> StreamProgress:
        return progress_of(told, self.query.checkpoint.batch(int(told["batchId"])) or {}, waiting)

    def _waiting(self) -> int | None:
        return None if self.query.passed is None else self.query.passed.waiting.count()
