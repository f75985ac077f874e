"""A stream that runs: look at it, wait for it, send it signals, stop it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError, JobError, PenstockError, quoted
from penstock.graph import nodes as n
from penstock.graph.files.items import FileItems
from penstock.graph.record import Signal
from penstock.spark.reason import job_error
from penstock.spark.stream.progress import StreamProgress, Waiting, has_run, progress_of
from penstock.spark.stream.query import StreamQuery
from penstock.spark.stream.signals import Place, values_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(
    leaf: n.GraphNode,
    sink: Any,
    checkpoint: Any,
    trigger: Any = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> StreamHandle:
    """Start a stream; see `Stream.start`."""
    when = trigger_of(trigger)
    query = StreamQuery(leaf, sink, checkpoint, spark, **options)
    return StreamHandle(query, query.start(when))


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
    """A stream that was started."""

    def __init__(self, query: StreamQuery, running: Any) -> None:
        self.query, self.running = query, running
        self.told: Mapping[str, Any] | None = None
        """What Spark has told last of a micro-batch."""
        self.waiting = Waiting(query.items, query.checkpoint) if isinstance(query.items, FileItems) else None

    @property
    def status(self) -> str:
        """`running` while it works on a micro-batch, `waiting` for new data, `stopped`, or `failed`."""
        if self.running.isActive:
            return "running" if self.running.status["isTriggerActive"] else "waiting"
        return "stopped" if self.exception is None else "failed"

    @property
    def exception(self) -> PenstockError | None:
        """What it failed with, if it has."""
        if self.running.isActive:
            return None
        self.query.checkpoint.close()
        found = self.running.exception()
        return None if found is None else self.query.failure or job_error(found, self.query.tree.nodes)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until it has stopped, at most so long; whether it has. Where it has failed, its error is raised."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.running.isActive:
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            if left <= 0:
                return False
            self._wait(max(left, 0.01))
        failure = self.exception
        if failure is not None:
            raise failure
        return True

    def _wait(self, seconds: float) -> None:
        from pyspark.errors import StreamingQueryException

        try:
            self.running.awaitTermination(seconds)
        except StreamingQueryException:
            """It is told by `exception`."""

    def stop(self) -> None:
        """Stop it. What has begun of a micro-batch is done again by the next start."""
        self.running.stop()
        self.query.checkpoint.close()

    def send(self, signal: Signal, timeout_s: float = 60.0) -> Place:
        """Place a signal between two items of the stream, for all nodes; where that is.

        It stands before the first item of the micro-batch that takes it up, and stays there, whatever happens.
        """
        if type(signal).__name__ not in self.query.signals or not isinstance(signal, Signal):
            raise GraphError(
                f"send: must be a signal that a node handles; got {signal!r}, and there are "
                f"{quoted(self.query.signals) or 'none'}"
            )
        if not self.running.isActive:
            raise JobError("send: the stream must be running; it is not; start it again")
        sent = self.query.checkpoint.write_signal(type(signal).__name__, values_of(signal))
        return self.query.checkpoint.wait_placed(sent, timeout_s)

    def progress(self) -> StreamProgress | None:
        """How it is doing, of the last micro-batch that is done; None before the first since it was started."""
        told = self.running.lastProgress
        if not has_run(told):
            told = self.told or next(reversed(self._recent()), None)
        self.told = told
        return None if told is None else self._progress(told, self._waiting())

    def recent(self, after: int = -1) -> list[StreamProgress]:
        """How it has been doing: the same of each micro-batch since it was started, but no more than the last 1,000.

        Only those with a greater number than `after`. All tell of the files that wait now.
        """
        waiting = self._waiting()
        return [self._progress(told, waiting) for told in self._recent() if told["batchId"] > after]

    def _recent(self) -> list[Mapping[str, Any]]:
        return [told for told in self.running.recentProgress if has_run(told)]

    def _progress(self, told: Mapping[str, Any], waiting: int | None) -> StreamProgress:
        return progress_of(told, self.query.checkpoint.batch(int(told["batchId"])) or {}, waiting)

    def _waiting(self) -> int | None:
        return None if self.waiting is None else self.waiting.count()
