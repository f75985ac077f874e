"""Starts a stream again that has failed, in a thread of its own, until it is stopped or fails for good."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import PenstockError
from penstock.spark.driver.reason import job_error
from penstock.spark.driver.session import renew, settings_of
from penstock.spark.streaming.restart import Restarts, may_pass

if TYPE_CHECKING:
    from penstock.spark.streaming.query import StreamQuery
    from penstock.spark.streaming.running_query import RunningQuery

LOOK_S = 1.0
"""How long the thread waits for the end of a query at a time."""

Begin = Callable[[Any], "tuple[StreamQuery, RunningQuery]"]
"""Starts another query of the same stream, on a session."""


class Supervised(Protocol):
    """The handle of the stream."""

    query: StreamQuery
    running: RunningQuery
    failure: PenstockError | None

    def failed_with(self) -> PenstockError | None: ...

    def go_on_with(self, query: StreamQuery, running: RunningQuery) -> None: ...


class Supervisor:
    """Starts a stream again after each failure that may pass. `wait` waits for so long, or until it is stopped."""

    def __init__(
        self,
        handle: Supervised,
        begin: Begin,
        restarts: Restarts,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Any] | None = None,
    ) -> None:
        self.handle, self.begin, self.restarts, self.clock = handle, begin, restarts, clock
        self.stopped = threading.Event()
        self.pause = self.stopped.wait if pause is None else pause
        self.spark = handle.query.user
        self.settings = settings_of(self.spark)  # while its JVM is there to ask
        self.changing = threading.Lock()
        """Held while a query takes the place of another, so that none is left running by a stop."""
        self.thread = threading.Thread(target=self._run, name="penstock-restart", daemon=True)
        self.thread.start()

    @property
    def is_at_work(self) -> bool:
        return self.thread.is_alive()

    def wait(self, seconds: float) -> None:
        self.thread.join(seconds)

    def stop(self) -> None:
        """Start nothing any more."""
        with self.changing:
            self.stopped.set()
            self.handle.running.stop()
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def _run(self) -> None:
        while self._has_failed():
            failure = self.handle.failed_with()
            if failure is None or not may_pass(failure):
                return
            pause = self.restarts.pause_s(self.clock())
            if pause is None:
                return
            self.pause(pause)
            self._again()

    def _has_failed(self) -> bool:
        """Wait for the end of the query; whether anything is to be done about it."""
        while not self.stopped.is_set() and self.handle.failure is None and self.handle.running.isActive:
            self.handle.running.wait(LOOK_S)
        return not self.stopped.is_set()

    def _again(self) -> None:
        with self.changing:
            if self.stopped.is_set():
                return
            try:
                self.spark = renew(self.spark, self.settings)
                self.handle.go_on_with(*self.begin(self.spark))
            except Exception as error:
                with contextlib.suppress(Exception):
                    self.handle.query.checkpoint.close()
                self.handle.failure = job_error(error)
