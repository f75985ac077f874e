"""Streams that part and meet again, on a real Spark: in every kind of stage, with signals, in order, and running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.spark.streaming.test_streams import put

import penstock as ps
from penstock.graph import reference

COUNT = 900
PLAIN = {"compile": False, "split_bytes": 9_000, "buckets": 3}
"""To compile takes long, and what is compiled is tested without Spark."""


class Total(ps.State):
    sum: float


class Reset(ps.Signal):
    to: float


def running(v: float, state: Any) -> float:
    state.sum += v
    return state.sum


def totals(stream: ps.Stream) -> ps.Stream:
    return stream.map(sum=running, state=Total).on(Reset, sum=lambda signal: signal.to)


def numbers() -> pa.Table:
    random = np.random.default_rng(7)
    columns = {"t": 10 * np.arange(COUNT), "k": random.integers(0, 50, COUNT), "v": random.integers(0, 9, COUNT) / 2}
    lists = [list(range(at % 4)) for at in range(COUNT)]
    return pa.table(columns | {"name": [f"n{k % 7}" for k in columns["k"]], "l": pa.array(lists, pa.list_(pa.int64()))})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The numbers in three files of several row groups."""
    made, table = tmp_path_factory.mktemp("numbers"), numbers()
    for at in range(3):
        part = table.slice(at * COUNT // 3, COUNT // 3)
        pq.write_table(part, made / f"part-{at}.parquet", row_group_size=110)
    return made


def diamond(s: ps.Stream) -> ps.Stream:
    """Two sides that drop items, and what each has of them."""
    low = s.filter(lambda v: v < 3).map(low=lambda v: 2 * v)
    odd = s.filter(lambda k: k % 2 == 1).map(odd=lambda k: k + 1)
    return ps.align(low, odd, how="outer", fill={"low": -1.0, "odd": -1}, present=("is_low", "is_odd"))


def behind_a_key(s: ps.Stream) -> ps.Stream:
    keyed = s.key_by("k")
    return ps.align(totals(keyed), keyed.filter(lambda v: v > 1).map(most=running, state=Total))


def merged(s: ps.Stream) -> ps.Stream:
    some, others = s.key_by("name").split(lambda v: v > 2, lambda v: v < 3)
    return totals(ps.merge(some.map(v=lambda v: v + 1), others))


def of_lists(s: ps.Stream) -> ps.Stream:
    within = s.enumerate("l", as_="e")
    return ps.align(within.aggregate(n=ps.count()), within.filter(lambda e: e > 0).aggregate(most=ps.sum("e")))


def of_found_regions(s: ps.Stream) -> ps.Stream:
    found = s.regions(start=lambda v: v == 0)
    return ps.align(found.aggregate(n=ps.count()), found.filter(lambda k: k > 9).aggregate(sum=ps.sum("v")))


def of_two_stages(s: ps.Stream) -> ps.Stream:
    return ps.align(totals(s.filter(lambda v: v > 0).key_by("k")), s.map(w=lambda v: v + 1))


def of_two_keys(s: ps.Stream) -> ps.Stream:
    names = s.filter(lambda k: k > 3).key_by("name").map(named=running, state=Total)
    return ps.align(totals(s.key_by("k")), names, how="outer", fill={"named": 0.0, "sum": 0.0})


GRAPHS: dict[str, Callable[[ps.Stream], ps.Stream]] = {
    "diamond": diamond,
    "diamond before a key": lambda s: totals(diamond(s).key_by("name")),
    "behind a key": behind_a_key,
    "merge": merged,
    "lists": of_lists,
    "found regions": of_found_regions,
    "two stages": of_two_stages,
    "two keys": of_two_keys,
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_as_one_thread(graph: Callable[[ps.Stream], ps.Stream], folder: Path, spark: Any) -> None:
    wanted = reference.run((graph(ps.from_arrow(numbers())).node,)).tables[0]
    found = graph(ps.read_parquet(str(folder))).collect(spark, ordered=True, **PLAIN)
    assert found.equals(wanted.cast(found.schema))


@pytest.mark.parametrize("graph", ["behind a key", "diamond before a key", "two stages"])
def test_signals_pass_where_streams_meet(graph: str, folder: Path, spark: Any) -> None:
    """Those from outside, and those that one side has found."""

    def stream(source: ps.Stream) -> ps.Stream:
        marked = source.emit(Reset, when=lambda t: t % 990 == 0, to=lambda v: v)
        return GRAPHS[graph](ps.align(marked, source.map(x=lambda k: k)))

    control = [ps.at(600, Reset(5.0)), ps.at(400, Reset(7.0)), ps.at(COUNT, Reset(9.0)), ps.at(0, Reset(0.5))]
    wanted = reference.run((stream(ps.from_arrow(numbers())).node,), control).tables[0]
    found = stream(ps.read_parquet(str(folder))).collect(spark, ordered=True, control=control, **PLAIN)
    assert found.equals(wanted.cast(found.schema))


def test_files_in_order(folder: Path, spark: Any, tmp_path: Path) -> None:
    stream = behind_a_key(ps.read_parquet(str(folder)))
    stream.write_parquet(tmp_path / "out", spark, ordered=True, buckets=3)
    wanted = behind_a_key(ps.from_arrow(numbers())).collect()
    assert ps.read_parquet(tmp_path / "out").collect(spark=False).equals(wanted)


def test_several_results_and_a_dataframe(folder: Path, spark: Any) -> None:
    wanted = [graph(ps.from_arrow(numbers())).collect() for graph in (diamond, of_two_keys)]
    source = ps.read_parquet(str(folder))
    found = ps.run(diamond(source), of_two_keys(source), spark=spark, ordered=True, **PLAIN)
    assert [table.equals(other) for table, other in zip(found, wanted, strict=True)] == [True, True]
    frame = ps.from_spark(spark.read.parquet(str(folder)), order_by="t")
    assert of_two_keys(frame).collect(spark, ordered=True, compile=False).equals(wanted[1])


def test_a_running_stream(spark: Any, tmp_path: Path) -> None:
    """State survives between micro-batches, where streams meet in one loop, and where they meet as channels."""
    (tmp_path / "in").mkdir()
    for at in range(3):
        put(numbers().slice(at * 100, 100), tmp_path / "in" / f"f{at}.parquet", at)

    def stream(source: ps.Stream) -> ps.Stream:
        keyed = diamond(source).key_by("k")
        columns = keyed.map_columns(lambda v: pc.add(v, 1.0), to={"more": float})  # which is no part of a loop
        return totals(ps.align(totals(keyed).select("t", "k", "v", first="sum"), columns.filter(lambda v: v > 0)))

    made = stream(ps.read_parquet(tmp_path / "in"))
    options = {"files_per_batch": 1, "trigger": "available", "ordered": True, "compile": False}
    handle = made.start(tmp_path / "out", checkpoint=tmp_path / "ck", spark=spark, **options)
    assert handle.await_termination(120)
    wanted = reference.run((stream(ps.from_arrow(numbers().slice(0, 300))).node,)).tables[0]
    found = ps.read_parquet(tmp_path / "out").collect(spark=False)
    assert found.sort_by("t").equals(wanted.cast(found.schema))
