"""Spark's handle of a query, whatever happens to the JVM that it lives in: a lost one is a query that has failed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from penstock.spark.driver.reason import is_lost, lost_java


class RunningQuery:
    """A query that was started. Once the JVM is lost, it has ended, and that is its exception."""

    def __init__(self, query: Any) -> None:
        self.query = query
        self.lost: Exception | None = None

    @property
    def isActive(self) -> bool:
        return bool(self._asked("isActive", False))

    @property
    def is_busy(self) -> bool:
        """Whether a micro-batch is under way."""
        return bool((self._asked("status", None) or {}).get("isTriggerActive", False))

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._asked("lastProgress", None)
        return found

    @property
    def recentProgress(self) -> list[Mapping[str, Any]]:
        return list(self._asked("recentProgress", []))

    def exception(self) -> Exception | None:
        """What it has failed with, if it has."""
        found = None if self.lost else self._asked("exception", None)
        return self.lost or (found() if callable(found) else found)

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long. What it fails with is told by `exception`."""
        from pyspark.errors import StreamingQueryException

        with contextlib.suppress(StreamingQueryException):
            self._guarded(lambda: self.query.awaitTermination(seconds))

    def stop(self) -> None:
        """Stop it. What goes wrong in a micro-batch that is cut short is no failure."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            self._guarded(self.query.stop)
        except Py4JJavaError:
            if self.isActive:
                raise

    def _asked(self, name: str, otherwise: Any) -> Any:
        return self._guarded(lambda: getattr(self.query, name), otherwise)

    def _guarded(self, call: Any, otherwise: Any = None) -> Any:
        if self.lost is not None:
            return otherwise
        try:
            return call()
        except Exception as error:
            if not is_lost(error):
                raise
            self.lost = lost_java()
            return otherwise
