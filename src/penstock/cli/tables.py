"""Tables for people: the first rows of a result, and what a run on Spark counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.table import Table

if TYPE_CHECKING:
    from penstock.engine.statistics import NodeStatistics
    from penstock.spark.statistics import JobStatistics, StageStatistics

ROWS_SHOWN = 5


def _plain() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")


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


HEAD = ("items in", "items out", "tasks", "skew", "occupancy", "seconds", "peak MB")


def job(statistics: JobStatistics) -> Table:
    """What a job counted: a row for each stage, over all its tasks, and under it one for each of its nodes."""
    shown = _plain()
    shown.add_column("stage, node", no_wrap=True)
    for name in HEAD:
        shown.add_column(name, justify="right", no_wrap=True)
    for stage in statistics.stages:
        shown.add_row(stage.name, *_stage(stage), style="bold")
        for node in stage.nodes:
            shown.add_row(f"  {node.name}", *_node(node))
    return shown


def _stage(stage: StageStatistics) -> tuple[str, ...]:
    counts = (f"{stage.items:,}", f"{stage.rows:,}", f"{stage.tasks:,}")
    return *counts, f"{stage.skew:.2f}", "", f"{stage.seconds:.2f}", f"{stage.peak_bytes / 1e6:,.0f}"


def _node(node: NodeStatistics) -> tuple[str, ...]:
    return f"{node.items:,}", f"{node.outputs:,}", "", "", f"{node.occupancy:.1%}", f"{node.seconds:.2f}", ""
