"""A stream that runs: look at it, wait for it, send it signals, stop it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError, JobError, PenstockError, quoted
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.spark.reason import job_error
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
        f"start: trigger must be None (as fast as it can), a number of seconds or a timedelta, or 'available' (whatever "
        f"is there, and then stop); got {given!r}"
    )


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How a stream is doing: its last micro-batch, and what there is in all.

    `seconds` is how long the batch took, `phases` where that went, in milliseconds as Spark and we count them. `waiting`
    is how many files are known and not taken yet.
    """

    batch: int
    items: int
    items_per_s: float
    rows: int
    total_items: int
    waiting: int
    keys: int
    pages: int
    pages_touched: int
    pages_written: int
    state_bytes: int
    seconds: float
    phases: Mapping[str, float]


class StreamHandle:
    """A stream that was started."""

    def __init__(self, query: StreamQuery, running: Any) -> None:
        self.query, self.running = query, running

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
        found = self.running.exception()
        if found is None:
            self.query.checkpoint.close()
            return None
        self.query.checkpoint.close()
        return self.query.failure or job_error(found, self.query.tree.nodes)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until it has stopped, at most so long; whether it has. Where it has failed, its error is raised."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.running.isActive:
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            if left <= 0:
                return False
            self._wait(left)
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
                f"send: must be a signal that a node handles, {quoted(self.query.signals) or 'of which there is none'}; "
                f"got {signal!r}"
            )
        if not self.running.isActive:
            raise JobError("send: the stream must be running; it is not; start it again")
        sent = self.query.checkpoint.write_signal(type(signal).__name__, values_of(signal))
        return self.query.checkpoint.wait_placed(sent, timeout_s)

    def progress(self) -> StreamProgress | None:
        """How it is doing, of the last micro-batch that is done; None before the first."""
        told = self.running.lastProgress
        number = self.query.checkpoint.last_batch()
        if number is None or told is None:
            return None
        record = self.query.checkpoint.batch(number) or {}
        return _progress(number, record, told if isinstance(told, dict) else json.loads(told.json))


def _progress(number: int, record: Mapping[str, Any], told: Mapping[str, Any]) -> StreamProgress:
    seconds = told.get("durationMs", {}).get("triggerExecution", 0) / 1000
    items = int(record.get("items", 0))
    phases = {name: float(value) for name, value in told.get("durationMs", {}).items()}
    phases |= {name.replace("_s", ""): 1000 * record[name] for name in ("run_s", "commit_s") if name in record}
    waiting = [source.get("metrics", {}) or {} for source in told.get("sources", [])]
    stores = told.get("stateOperators", [])
    return StreamProgress(
        number,
        items,
        items / seconds if seconds else 0.0,
        int(record.get("rows", 0)),
        int(record.get("items_before", 0)) + items,
        sum(int(each.get("numFilesOutstanding", 0)) for each in waiting),
        int(record.get("keys", 0)),
        int(record.get("pages", 0)),
        int(record.get("touched", 0)),
        int(record.get("written", 0)),
        sum(int(store.get("memoryUsedBytes", 0)) for store in stores),
        seconds,
        phases,
    )
