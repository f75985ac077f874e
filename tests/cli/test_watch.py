"""The display of a running stream, over one that plays a script."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.cli import tables
from penstock.cli.watch import LastRows, StreamDisplay, batch_text, watch
from penstock.errors import JobError
from penstock.spark.streaming.stream_progress import StreamProgress


def batch(number: int, seconds: float = 1.0, waiting: int | None = 3) -> StreamProgress:
    phases = {"look": 0.02, "plan": 0.1, "run": seconds - 0.2, "commit": 0.05, "other": 0.03}
    total = 50_000 * (number + 1)
    speed = 50_000 / seconds
    return StreamProgress(number, 50_000, speed, 120, total, waiting, 1000, 40, 12, 11, 650_000, seconds, phases)


class Script:
    """A stream that has done another micro-batch, or several, each time one waits for it."""

    def __init__(self, *steps: int, failure: Exception | None = None, interrupt_at: int | None = None) -> None:
        self.steps, self.failure, self.interrupt_at = list(steps), failure, interrupt_at
        self.done: list[StreamProgress] = []
        self.is_stopped = False

    @property
    def status(self) -> str:
        return "stopped" if self.is_stopped or not self.steps else "running"

    def await_termination(self, timeout_s: float | None = None) -> bool:
        if not self.steps:
            if self.failure is not None:
                raise self.failure
            return True
        self.done += [batch(len(self.done) + at) for at in range(self.steps.pop(0))]
        if self.interrupt_at is not None and len(self.done) >= self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    def progress(self) -> StreamProgress | None:
        return self.done[-1] if self.done else None

    def recent(self, after: int = -1) -> Sequence[StreamProgress]:
        return [progress for progress in self.done if progress.batch > after]

    def stop(self) -> None:
        self.is_stopped = True


def shown(stream: Script, is_terminal: bool = False, last_rows: LastRows | None = None) -> str:
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100, color_system=None)
    with StreamDisplay(console, "spikes", last_rows) as display:
        watch(stream, display)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_plain_line_for_each_batch_however_many_come_at_once() -> None:
    lines = shown(Script(0, 1, 0, 3, 1, 0)).splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"batch {number}" for number in range(5)]
    assert lines[0] == (
        "batch 0: 50,000 items, 50 k items/s, 120 rows, 3 files waiting; 1,000 keys, 650 kB of state, 12 of 40 pages "
        "touched; 1.00 s: look 0.02, plan 0.10, run 0.80, commit 0.05, other 0.03"
    )


def test_what_is_not_known_is_not_told() -> None:
    told = batch_text(replace(batch(3), waiting=None, keys=0, pages=0, pages_touched=0, state_bytes=0))
    assert told.startswith("batch 3: 50,000 items, 50 k items/s, 120 rows; 1.00 s: look 0.02")


def test_a_stream_that_does_nothing_says_nothing() -> None:
    assert shown(Script()) == shown(Script(0, 0)) == ""


def test_an_interrupt_stops_the_stream() -> None:
    stream = Script(1, 1, 1, 1, interrupt_at=2)
    before = signal.getsignal(signal.SIGINT)
    assert len(shown(stream).splitlines()) == 2
    assert stream.is_stopped and len(stream.steps) == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_failure_is_raised() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(JobError, match="lost"):
        shown(Script(1, failure=JobError("lost")), is_terminal=True)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_terminal_shows_the_stream_and_its_last_batches() -> None:
    rows = LastRows()
    rows(pa.table({"device": list(range(9)), "value": [0.5] * 9}), 0)
    rows(pa.table({"device": pa.array([], pa.int64()), "value": pa.array([], pa.float64())}), 1)
    text = shown(Script(12), is_terminal=True, last_rows=rows)
    assert "spikes  stopped" in text
    assert "12 batches, 600,000 items, 50 k items/s, 1,440 rows, 3 files waiting" in text
    assert "1,000 keys, 650 kB of state in 40 pages" in text
    console = Console(file=io.StringIO(), width=100)
    display = StreamDisplay(console, "spikes", rows)
    display.look(Script())
    console.print(display.picture("running", None))
    assert "the first batch" in console.file.getvalue()  # type: ignore[attr-defined]
    assert rows.rows is not None and rows.rows.column("device").to_pylist() == [4, 5, 6, 7, 8]


def printed(table: object) -> list[list[str]]:
    console = Console(file=io.StringIO(), width=100)
    console.print(table)
    return [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_tables_of_batches() -> None:
    batches = [batch(0, 9.0), batch(1, 1.0), batch(2, 3.0), batch(3, 2.0)]
    head, *rows = printed(tables.batches(batches))
    assert head == ["batch", "items", "items/s", "pages", "seconds", "look", "plan", "run", "commit", "other"]
    assert rows[1] == ["1", "50,000", "50", "k", "12", "1.00", "0.02", "0.10", "0.80", "0.05", "0.03"]
    head, whole, *_, run, commit, _ = printed(tables.batch_times(batches, batches[0]))
    assert whole == ["a", "batch", "9.00", "2.00", "3.00"]
    assert run == ["run", "8.80", "1.80", "2.80"] and commit == ["commit", "0.05", "0.05", "0.05"]
    assert printed(tables.batch_times(batches[:1], batches[0]))[1] == ["a", "batch", "9.00", "9.00", "9.00"]
