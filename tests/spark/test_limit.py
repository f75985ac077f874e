"""The first items of a stream, and one row for all of it, in stages: as on Spark, but one stage after another."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.graph.test_limit import GRAPHS, items
from tests.property.graphs import Case
from tests.spark import simulated
from tests.spark.streaming.running import item, running, source

import penstock as ps
from penstock.graph import nodes, reference


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", range(3))
def test_stages_give_what_the_reference_gives(name: str, seed: int) -> None:
    case = _case(GRAPHS[name](items()).node)
    (wanted,) = reference.run(case.leaves).tables
    _, found = simulated.run(case, random.Random(seed), is_ordered=True)
    assert repr(found.tables[0].to_pylist()) == repr(wanted.to_pylist())


@pytest.mark.parametrize("name", GRAPHS)
def test_the_first_rows_are_among_those_of_each_task(name: str) -> None:
    stream = GRAPHS[name](items())
    (wanted,) = reference.run((stream.node,)).tables
    _, found = simulated.run(_case(nodes.limit(stream.node, 2, is_by_task=True)), random.Random(1), is_ordered=True)
    assert repr(found.tables[0].slice(0, 2).to_pylist()) == repr(wanted.slice(0, 2).to_pylist())


def _case(leaf: Any) -> Case:
    case = object.__new__(Case)
    for name, value in {"leaves": (leaf,), "control": ()}.items():
        object.__setattr__(case, name, value)
    return case


def test_a_running_stream_gives_so_many_and_then_nothing() -> None:
    stream = running(source().filter(lambda v: v > 0).limit(3).select("t"))
    assert stream.items([item("a", 1), item("a", 2)]) == [{"t": 1}, {"t": 2}]
    assert stream.items([item("a", 3), item("a", 4)], [item("a", 5)]) == [{"t": 3}]
    assert stream.items([item("a", 6)]) == []


def test_a_running_stream_has_no_aggregate_of_all() -> None:
    with pytest.raises(ps.GraphError, match=r"gives its rows when the stream ends.*key_by before it and put a window"):
        running(source().aggregate(n=ps.count()))


SHOWN = "+--+\n| v|\n+--+\n|99|\n+--+\nonly the first 1 rows\n+-+\n|v|\n+-+\n|1|\n+-+\n"


def test_on_spark(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"k": [at % 5 for at in range(900)], "v": list(range(900))})
    for at in range(3):
        pq.write_table(table.slice(300 * at, 300), tmp_path / f"part-{at}.parquet", row_group_size=50)
    stream, how = ps.read_parquet(tmp_path), {"compile": False, "split_bytes": 500, "buckets": 3}
    rare = stream.filter(lambda v: v % 100 == 99)
    assert rare.limit(4).collect(spark, **how)["v"].to_pylist() == [99, 199, 299, 399]
    counts = stream.key_by("k").aggregate(n=ps.count())
    assert counts.head(2, spark, **how).to_pylist() == [{"k": 0, "n": 180}, {"k": 1, "n": 180}]
    assert stream.aggregate(n=ps.count(), v=ps.sum("v")).collect(spark, **how).to_pylist() == [{"n": 900, "v": 404550}]
    rare.select("v").show(1, spark, **how)
    assert next(rare.batches(spark, ordered=True, **how)).to_pydict()["v"][0] == 99
    assert pa.Table.from_batches(counts.batches(spark, ordered=True, **how)).equals(counts.collect(spark=False))
    frame = ps.from_spark(spark.createDataFrame([(1,)], "v int"))
    frame.show(1, spark, compile=False)
    assert capsys.readouterr().out == SHOWN
    with pytest.raises(ps.GraphError, match="order_by"):
        frame.head(1, spark)
