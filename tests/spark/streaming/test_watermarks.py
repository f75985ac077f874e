"""Windows of time and late items on Spark itself: a batch over buckets, and a stream that is stopped and restarted."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracle.draw import FIELDS, build
from tests.oracle.model import run
from tests.oracle.steps import Filter, Graph, KeyBy, Window

import penstock as ps

GRAPH = Graph(FIELDS, (Filter("v", 5, 0), KeyBy(("k", "g")), Window("t", 6, 4, 3, "v", ("k", "g"))))


def items() -> list[dict[str, int]]:
    chance = random.Random(3)
    return [
        {"k": chance.randint(0, 9), "g": at % 2, "t": at // 4 + chance.randint(-6, 6), "v": chance.randint(0, 30)}
        for at in range(400)
    ]


def write(folder: Path, rows: list[dict[str, int]], number: int) -> None:
    path = folder / f"{number:03}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


def test_a_batch_with_splits_and_buckets(spark: Any, tmp_path: Path) -> None:
    given, folder = items(), tmp_path / "in"
    folder.mkdir()
    for number, at in enumerate(range(0, len(given), 90)):
        write(folder, given[at : at + 90], number)
    built, outcome = build(GRAPH, ps.read_parquet(folder)), run(GRAPH, given)
    (late,) = built.late.values()
    found = ps.run(built.result, late, spark=spark, buckets=3, split_bytes=1)
    assert [in_order(table.to_pylist()) for table in found] == [in_order(outcome.rows), in_order(outcome.late[2])]
    with pytest.warns(ps.LateWarning):
        planned = built.result.prepare(spark=spark, buckets=3, split_bytes=1, ordered=True)
        assert planned.collect().to_pylist() == outcome.rows
    assert planned.statistics().late == len(outcome.late[2]) > 0


def test_a_stream_that_is_started_again(spark: Any, tmp_path: Path) -> None:
    given, folder, tables, counted = items(), tmp_path / "in", [], 0
    folder.mkdir()
    for turn, cut in enumerate((0, 150, 270, 400)):
        before = (0, 150, 270, 400)[max(0, turn - 1)]
        for number, at in enumerate(range(before, cut, 70)):
            write(folder, given[at : min(at + 70, cut)], 10 * turn + number)
        if turn == 0:
            continue
        stream = build(GRAPH, ps.read_parquet(folder)).result
        options = {"checkpoint": tmp_path / "ck", "trigger": "available", "spark": spark, "buckets": 2}
        handle = stream.start(lambda table, batch: tables.append(table), files_per_batch=1, **options)
        handle.await_termination()
        counted += sum(each.late for each in handle.recent())
    outcome = run(GRAPH, given, is_open=True)
    assert in_order([row for table in tables for row in table.to_pylist()]) == in_order(outcome.rows)
    assert counted == len(outcome.late[2])
