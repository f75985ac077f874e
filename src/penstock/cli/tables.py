"""Tables for people: rows of a result, what a run on Spark counted, and how a stream is doing."""

from __future__ import annotations

import statistics as middle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from penstock.report.progress import speed_text

if TYPE_CHECKING:
    from penstock.engine.statistics import NodeStatistics
    from penstock.spark.driver.job_statistics import JobStatistics, StageStatistics
    from penstock.spark.streaming.stream_progress import StreamProgress

ROWS_SHOWN = 5


def _plain(gap: int = 3) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")


def rows(table: pa.Table, count: int) -> Table:
    """The first rows of a result of so many."""
    shown = _plain()
    for field in table.schema:
        shown.add_column(field.name, justify="right" if pa.types.is_primitive(field.type) else "left")
    for row in table.slice(0, ROWS_SHOWN).to_pylist():
        shown.add_row(*(Text(_text(value)) for value in row.values()))
    if count > ROWS_SHOWN:
        shown.add_row(*("…" for _ in table.schema), style="dim")
    return shown


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


HEAD = ("in", "out", "tasks", "skew", "full", "seconds", "MB")
GAP, NAME_WIDTH = 2, 20


def job(statistics: JobStatistics, width: int) -> Table:
    """What a job counted: a row for each stage, over all its tasks, and under it one for each of its nodes.

    Items in and out; the largest task over the mean one; how full ensembles were; work in seconds, all tasks together;
    the most memory that a worker took. Names give way where the screen is narrow, and never the numbers.
    """
    lines: list[tuple[str, ...]] = [("stage, node", *HEAD)]
    for stage in statistics.stages:
        lines.append((stage.name, *_stage(stage)))
        lines += [(f"  {node.name}", *_node(node)) for node in stage.nodes]
    widest = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = max(NAME_WIDTH, width - sum(widest[1:]) - GAP * len(HEAD))
    shown = _plain(GAP)
    for name in lines[0]:
        shown.add_column(name, justify="left" if name == lines[0][0] else "right", no_wrap=True)
    for name, *numbers in lines[1:]:
        cut = name if len(name) <= room else f"{name[: room - 1]}…"
        shown.add_row(*map(Text, (cut, *numbers)), style="" if name.startswith(" ") else "bold")
    return shown


def _stage(stage: StageStatistics) -> tuple[str, ...]:
    counts = (f"{stage.items:,}", f"{stage.rows:,}", f"{stage.tasks:,}")
    return *counts, f"{stage.skew:.2f}", "", f"{stage.seconds:.2f}", f"{stage.peak_bytes / 1e6:,.0f}"


def _node(node: NodeStatistics) -> tuple[str, ...]:
    return f"{node.items:,}", f"{node.outputs:,}", "", "", f"{node.occupancy:.1%}", f"{node.seconds:.2f}", ""


def _numbers(*names: str) -> Table:
    shown = _plain(GAP)
    for name in names:
        shown.add_column(name, justify="right", no_wrap=True)
    return shown


def batches(listed: Sequence[StreamProgress]) -> Table:
    """Micro-batches, a row each: items, how fast, pages that were touched, and where the seconds went."""
    shown = _numbers("batch", "items", "items/s", "pages", "seconds", *(listed[-1].phases if listed else ()))
    for batch in listed:
        speed = speed_text(batch.items_per_s, "items/s").removesuffix("items/s").strip()
        times = (f"{seconds:.2f}" for seconds in (batch.seconds, *batch.phases.values()))
        shown.add_row(f"{batch.batch}", f"{batch.items:,}", speed, f"{batch.pages_touched:,}", *times)
    return shown


def batch_times(listed: Sequence[StreamProgress], first: StreamProgress | None) -> Table:
    """How many seconds micro-batches took, and each phase of them: the first one, the others, and the longest."""
    others = [batch for batch in listed if batch is not first] or list(listed)
    longest = max(others, key=lambda batch: batch.seconds)
    shown = _plain(GAP)
    for name in ("seconds of", "first", "median", "longest"):
        shown.add_column(name, justify="left" if name == "seconds of" else "right", no_wrap=True)
    for name in ("a batch", *longest.phases):
        spent = [_phase_seconds(batch, name) for batch in (first or longest, longest)]
        half = middle.median(_phase_seconds(batch, name) for batch in others)
        style = "bold" if name == "a batch" else ""
        shown.add_row(name, f"{spent[0]:.2f}", f"{half:.2f}", f"{spent[1]:.2f}", style=style)
    return shown


def _phase_seconds(batch: StreamProgress, phase: str) -> float:
    return batch.phases.get(phase, batch.seconds)
