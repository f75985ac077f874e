"""Start the JVM of an embedded session without its chatter."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
from collections import deque
from typing import IO, TYPE_CHECKING, Any

from penstock.errors import SessionError

if TYPE_CHECKING:
    from pyspark.conf import SparkConf


_CHATTER = ("WARNING: Using incubator modules", "Using Spark's default log4j profile")
_OF_WORKERS = (
    "Starting Streaming TransformWithStateInPandas Python worker",
    "Streaming TransformWithStateInPandas Python worker",
)
"""How lines begin that PySpark's worker for the state of a stream prints, each with an empty one behind it."""


_JAVA_TRACE = re.compile(
    r"\s+at [\w.$<>/@-]+\(|\s*\.{3} \d+ (?:more|common frames)|\s*(?:Caused by|Suppressed): |Exception in thread \""
    r"|(?:java|javax|scala|org\.apache|py4j)\.[\w.$]*(?:Error|Exception)\b"
)
"""Lines of a Java trace."""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


class JavaTrace:
    """The lines of a trace of Python, from its first one to the one that names the error."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @staticmethod
    def begins(line: str) -> bool:
        return line.startswith("Traceback (most recent call last)")

    def add(self, line: str) -> bool:
        """Take a line; whether it was the last one."""
        self.lines.append(line)
        return len(self.lines) > 1 and not line.startswith(" ")

    @property
    def is_of_spark(self) -> bool:
        """Whether PySpark itself has raised, as its workers do when a query is stopped under them."""
        files = [line for line in self.lines if line.startswith("  File ")]
        return bool(files) and "pyspark" in files[-1]


class Relay:
    """Passes on what the JVM says on its standard error, once it has started.

    What it says before that is chatter that no setting of Java or Spark turns off; its end is kept for the message in
    case that the JVM does not start. After that only what the user's functions print in a task comes this way, and what
    is left out: what a worker of PySpark's says of itself, and traces of Java and of PySpark, hundreds of lines where a
    query is stopped in the middle of a micro-batch. What has failed comes as an exception, in one sentence.

    Invariant: `empty` is how many empty lines are still to come that belong to lines left out.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self.source = source
        self.held: deque[str] = deque(maxlen=50)
        self.has_started = False
        self.empty = 0
        self.trace: JavaTrace | None = None
        self.is_behind_trace = False
        self.thread = threading.Thread(target=self._run, name="penstock-relay", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for raw in self.source:
            line = raw.decode(errors="replace")
            if not self.has_started:
                self.held.append(line.rstrip())
                continue
            with contextlib.suppress(ValueError, OSError):  # the screen is closed
                for passed in self.passed(line):
                    sys.stderr.write(passed)
                sys.stderr.flush()

    def passed(self, line: str) -> list[str]:
        """What is to be passed on when a line has come: that, nothing, or a trace that it has ended."""
        if self.trace is None and JavaTrace.begins(line):
            self.trace = JavaTrace()
        if self.trace is not None:
            if not self.trace.add(line):
                return []
            whole, self.trace = self.trace, None
            self.is_behind_trace = whole.is_of_spark
            return [] if whole.is_of_spark else whole.lines
        if self.is_behind_trace and (not line.strip() or line.startswith(_CHAINED)):
            return []
        self.is_behind_trace = False
        return [] if self._is_chatter(line) or _JAVA_TRACE.match(line) else [line]

    def _is_chatter(self, line: str) -> bool:
        if line.startswith(_OF_WORKERS):
            self.empty += 1
            return True
        is_chatter = self.empty > 0 and not line.strip()
        self.empty -= is_chatter
        return is_chatter

    def reason(self) -> str:
        """The line that says best why the JVM ended."""
        self.thread.join(timeout=5)
        lines = [line.strip() for line in self.held if line.strip() and not line.startswith(_CHATTER)]
        thrown = [line for line in lines if "Exception" in line and not line.startswith("at ")]
        return (thrown or lines or ["it said nothing"])[0]


def start(conf: SparkConf, quiet: bool) -> tuple[Any, Relay | None]:
    """The gateway to a JVM started with these settings, and the relay of its words if it is to be quiet.

    The JVM outlives a session that was stopped. It is then used again, and keeps the settings of its start.
    """
    from pyspark.core.context import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return SparkContext._gateway, None
    if not quiet:
        return launch_gateway(conf), None  # type: ignore[no-untyped-call]
    logging.getLogger().addFilter(is_worth_a_log)
    reading = _Pipe()
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": reading.writer})  # type: ignore[no-untyped-call]
    except PySparkException:
        reading.close_writer()
        raise SessionError(f"session: Java must start, and ended at once: {reading.relay.reason()}") from None
    reading.close_writer()
    return gateway, reading.relay


def is_worth_a_log(record: logging.LogRecord) -> bool:
    """Whether a line of the root logger is to be shown: not what Py4J logs with a trace and raises as well."""
    return "/py4j/" not in record.pathname.replace(os.sep, "/")


class _Pipe:
    """A pipe whose reading end is relayed; the writing end is for the JVM."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self.relay = Relay(os.fdopen(reader, "rb"))

    def close_writer(self) -> None:
        os.close(self.writer)
