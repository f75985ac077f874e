"""Tables for people: the first rows of a result, and what a run on Spark counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from penstock.engine.statistics import NodeStatistics
    from penstock.spark.statistics import JobStatistics, StageStatistics

ROWS_SHOWN = 5


def _plain(gap: int = 3) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")


def rows(table: pa.Table, count: int) -> Table:
    """The first rows of a result of so many."""
    shown = _plain()
    for field in table.schema:
        shown.add_column(field.name, justify="right" if pa.types.is_primitive(field.type) else "left")
    for row in table.slice(0, ROWS_SHOWN).to_pylist():
        shown.add_row(*(_text(value) for value in row.values()))
    if count > ROWS_SHOWN:
        shown.add_row(*("…" for _ in table.schema), style="dim")
    return shown


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


HEAD = ("in", "out", "tasks", "skew", "full", "seconds", "MB")


def job(statistics: JobStatistics) -> Table:
    """What a job counted: a row for each stage, over all its tasks, and under it one for each of its nodes.

    Items in and out; the largest task over the mean one; the occupancy of ensembles; work in seconds, all tasks
    together; the most memory that a worker took.
    """
    lines: list[tuple[str, ...]] = []
    for stage in statistics.stages:
        lines.append((stage.name, *_stage(stage)))
        lines += [(f"  {node.name}", *_node(node)) for node in stage.nodes]
    shown = _plain(gap=2)
    shown.add_column("stage, node", no_wrap=True, overflow="ellipsis")
    for at, name in enumerate(HEAD, 1):
        # The names give way where the screen is narrow, and never the numbers.
        widest = max(len(name), *(len(line[at]) for line in lines)) if lines else len(name)
        shown.add_column(name, justify="right", no_wrap=True, min_width=widest)
    for line in lines:
        shown.add_row(*map(Text, line), style="" if line[0].startswith(" ") else "bold")
    return shown


def _stage(stage: StageStatistics) -> tuple[str, ...]:
    counts = (f"{stage.items:,}", f"{stage.rows:,}", f"{stage.tasks:,}")
    return *counts, f"{stage.skew:.2f}", "", f"{stage.seconds:.2f}", f"{stage.peak_bytes / 1e6:,.0f}"


def _node(node: NodeStatistics) -> tuple[str, ...]:
    return f"{node.items:,}", f"{node.outputs:,}", "", "", f"{node.occupancy:.1%}", f"{node.seconds:.2f}", ""
