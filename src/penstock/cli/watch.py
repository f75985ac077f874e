"""A live display of a running stream: a table of its last micro-batches on a terminal, a line for each elsewhere."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Protocol

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.progress_bars import LiveDisplay
from penstock.report.progress import files_text, speed_text
from penstock.spark.streaming.stream_progress import StreamProgress

SHOWN = 8
KEPT = 1000
POLL_S = 0.25
SHARE = 10
"""Of the time, at most one part in so many goes into looking."""


class Watched(Protocol):
    """What is asked of a stream that runs: see `StreamHandle`."""

    @property
    def status(self) -> str: ...

    def await_termination(self, timeout_s: float | None = None) -> bool: ...

    def progress(self) -> StreamProgress | None: ...

    def recent(self, after: int = -1) -> Sequence[StreamProgress]: ...

    def stop(self) -> None: ...


class LastRows:
    """A sink that keeps the last few rows, to show them."""

    def __init__(self) -> None:
        self.rows: pa.Table | None = None

    def __call__(self, table: pa.Table, batch: int) -> None:
        if table.num_rows:
            self.rows = table.slice(max(0, table.num_rows - tables.ROWS_SHOWN))


class Tally:
    """The micro-batches since the start: the first, the last thousand, and what all of them did."""

    def __init__(self) -> None:
        self.first: StreamProgress | None = None
        self.kept: deque[StreamProgress] = deque(maxlen=KEPT)
        self.batches = self.items = self.rows = self.skipped = 0
        self.seconds = 0.0

    @property
    def last(self) -> StreamProgress | None:
        return self.kept[-1] if self.kept else None

    def add(self, progress: StreamProgress) -> None:
        self.first = self.first or progress
        self.kept.append(progress)
        self.batches += 1
        self.items += progress.items
        self.rows += progress.rows
        self.skipped += progress.skipped
        self.seconds += progress.seconds

    def __str__(self) -> str:
        speed = speed_text(self.items / self.seconds if self.seconds else 0.0, "items/s")
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        return f"{batches}, {self.items:,} items, {speed}, {self.rows:,} rows{skipped}"


class StreamDisplay(LiveDisplay):
    """Shows a stream until it ends. On a terminal, what it has drawn is gone then."""

    def __init__(self, console: Console, title: str, last_rows: LastRows | None = None) -> None:
        super().__init__(console)
        self.title, self.last_rows = title, last_rows
        self.tally = Tally()

    def look(self, stream: Watched) -> None:
        """See what is new, and show it."""
        last, now = self.tally.last, stream.progress()
        if now is not None and (last is None or now.batch > last.batch):
            is_next = last is not None and now.batch == last.batch + 1
            for progress in [now] if is_next else stream.recent(-1 if last is None else last.batch):
                self._add(progress)
        if self.live is not None:
            self.live.update(self.picture(stream.status, now))

    def _add(self, progress: StreamProgress) -> None:
        self.tally.add(progress)
        if self.live is None:
            self.console.print(batch_text(progress), soft_wrap=True, markup=False)

    def picture(self, status: str, now: StreamProgress | None) -> Group:
        """What a terminal shows: the stream, what it has done, and its last micro-batches."""
        head = Text.assemble((self.title, "bold"), f"  {status}", ("  Ctrl-C stops it", "dim"))
        if now is None:
            return Group(head, Text("the first batch takes some seconds", "dim"))
        waiting = "" if now.waiting is None else f", {files_text(now.waiting)}"
        facts = Text(f"{self.tally}{waiting}\n{state_text(now)}\n")
        parts: list[RenderableType] = [head, facts, tables.batches(list(self.tally.kept)[-SHOWN:])]
        if self.last_rows is not None and self.last_rows.rows is not None:
            parts += ["", tables.rows(self.last_rows.rows, self.last_rows.rows.num_rows)]
        return Group(*parts)


def batch_text(progress: StreamProgress) -> str:
    """A micro-batch, in words.

    >>> phases = {"look": 0.02, "plan": 0.1, "run": 0.8, "commit": 0.05, "other": 0.03}
    >>> print(batch_text(StreamProgress(7, 50_000, 50_000.0, 9, 400_000, 3, 1000, 40, 38, 37, 650_000, 1.0, phases)))
    batch 7: 50,000 items, 50 k items/s, 9 rows, 3 files waiting; 1,000 keys, 650 kB of state, 38 of 40 pages touched;
    1.00 s: look 0.02, plan 0.10, run 0.80, commit 0.05, other 0.03
    """
    counts = [f"{progress.items:,} items", speed_text(progress.items_per_s, "items/s"), f"{progress.rows:,} rows"]
    if progress.late:
        counts.append(f"{progress.late:,} late")
    if progress.waiting is not None:
        counts.append(files_text(progress.waiting))
    pages = f"{progress.pages_touched:,} of {progress.pages:,} pages touched"
    state = f"{progress.keys:,} keys, {speed_text(progress.state_bytes, 'B')} of state, {pages}; "
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in progress.phases.items())
    told = f"{', '.join(counts)}; {state if progress.pages else ''}{progress.seconds:.2f} s: {phases}"
    return f"batch {progress.batch}: {told}"


def state_text(progress: StreamProgress) -> str:
    """What is remembered, in words."""
    size = speed_text(progress.state_bytes, "B")
    if not progress.pages:
        return f"{size} of state"
    return f"{progress.keys:,} keys, {size} of state in {progress.pages:,} pages"


def watch(stream: Watched, display: StreamDisplay) -> None:
    """Show a stream until it has ended or failed, or until an interrupt, which stops it."""
    with _interrupt_event() as stop:
        pause = POLL_S
        while not stream.await_termination(pause) and not stop.is_set():
            began = time.monotonic()
            display.look(stream)
            pause = max(POLL_S, SHARE * (time.monotonic() - began))
        if stop.is_set():
            stream.stop()
    display.look(stream)


@contextlib.contextmanager
def _interrupt_event() -> Iterator[threading.Event]:
    """Is set by an interrupt, or when the process is asked to end. Another one acts as it would have without."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
