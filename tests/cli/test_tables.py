from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.cli import tables
from penstock.engine.statistics import NodeStatistics
from penstock.spark.driver.job_statistics import JobStatistics, StageStatistics


def text(table: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


NODE = NodeStatistics("map 'a rather long name' … filter", 10, 10, 5, 1000, 0.5, 0, 900, {}, 1.25)
JOB = JobStatistics(
    3.0,
    (
        StageStatistics("stage 1 (source)", 4, 1000, 900, 1 << 20, 2.0, 1.5, 250_000_000, (NODE,)),
        StageStatistics("stage 2 (key)", 2, 900, 7, 1 << 10, 1.0, 1.0, 150_000_000, ()),
    ),
)


def test_a_job_has_a_row_a_stage_and_a_row_a_node() -> None:
    assert [line.rstrip() for line in text(tables.job(JOB, 120), 120)] == [
        "stage, node                             in  out  tasks  skew   full  seconds   MB",
        "stage 1 (source)                     1,000  900      4  1.50            2.00  250",
        "  map 'a rather long name' … filter  1,000  900               50.0%     1.25",
        "stage 2 (key)                          900    7      2  1.00            1.00  150",
    ]


@pytest.mark.parametrize("width", [66, 80])
def test_where_it_is_narrow_names_give_way(width: int) -> None:
    head, _, node, _ = text(tables.job(JOB, width), width)
    assert head.split()[-1] == "MB" and "…" in node and "50.0%     1.25" in node
    assert all(len(line) <= width for line in (head, node))


def test_a_job_without_stages() -> None:
    assert len(text(tables.job(JobStatistics(0.0, ()), 80), 80)) == 1


def test_rows_end_with_dots_where_there_are_more() -> None:
    table = pa.table({"name": ["[red]a", "b"], "x": [0.1 + 0.2, 1.0]})
    assert text(tables.rows(table, 2), 80)[1].split() == ["[red]a", "0.30000000000000004"]
    assert "…" in text(tables.rows(table, 9), 80)[-1]
