"""Streams: immutable handles, sources of all kinds, schemas, nulls."""

from __future__ import annotations

import datetime
import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import penstock as ps


def everywhere(stream: ps.Stream) -> list[dict[str, object]]:
    from penstock.graph import reference

    (table,) = reference.run([stream.node]).tables
    for compile in (False, True):
        for batch_items in (1, None):
            assert stream.collect(compile=compile, batch_items=batch_items) == table
    return table.to_pylist()  # type: ignore[no-any-return]


def test_streams_are_immutable_and_can_be_run_again() -> None:
    items = ps.from_items([{"v": 1}, {"v": 2}])
    doubled = items.map(v=lambda v: 2 * v)
    assert items.schema.names == ["v"]
    assert doubled.collect() == doubled.collect()
    assert items.collect().to_pydict() == {"v": [1, 2]}
    with pytest.raises(AttributeError):
        items.node = doubled.node  # type: ignore[misc]


def test_map_sees_the_item_as_it_arrived() -> None:
    swapped = ps.from_items([{"a": 1, "b": 2}]).map(a=lambda b: b, b=lambda a: a)
    assert everywhere(swapped) == [{"a": 2, "b": 1}]


def test_structs_have_dotted_names_and_lists_of_structs_are_opened_together() -> None:
    rows = [{"at": {"x": 1, "y": 2.5}, "points": [{"a": 1, "b": "p"}, {"a": 2, "b": "q"}]}]
    source = ps.from_items(rows)
    assert source.schema.names == ["at.x", "at.y", "points.a", "points.b"]
    opened = source.enumerate("points", as_="p", index="i").map(
        z=lambda at_x, p_a, p_b, i: 100 * at_x + 10 * p_a + len(p_b) + i
    )
    assert everywhere(opened.select("z", "p.b")) == [{"z": 111, "p.b": "p"}, {"z": 122, "p.b": "q"}]


def test_numpy_sources() -> None:
    structured = np.array([(1, [1.0, 2.0]), (2, [3.0, 4.0])], dtype=[("k", "i4"), ("v", "f8", (2,))])
    assert everywhere(ps.from_numpy(structured).map(s=lambda v: v[0] + v[1]).select("k", "s")) == [
        {"k": 1, "s": 3.0},
        {"k": 2, "s": 7.0},
    ]
    days = ps.from_numpy({"day": np.array(["2026-01-02", "2026-01-03"], "datetime64[s]")})
    assert everywhere(days.map(n=lambda day: day // 86400).select("n")) == [{"n": 20455}, {"n": 20456}]
    masked = ps.from_numpy({"v": np.ma.masked_array([1, 2, 3], [False, True, False])})
    assert everywhere(masked.drop_nulls()) == [{"v": 1}, {"v": 3}]


def test_types_come_out_as_they_went_in() -> None:
    table = pa.table(
        {
            "i8": pa.array([1], pa.int8()),
            "u64": pa.array([2**62], pa.uint64()),
            "f32": pa.array([0.1], pa.float32()),
            "flag": pa.array([True]),
            "text": pa.array(["é"], pa.large_string()),
            "raw": pa.array([b"\xff"], pa.binary()),
            "when": pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("ms", "UTC")),
            "day": pa.array([datetime.date(2026, 1, 1)], pa.date32()),
            "list": pa.array([[1, 2]], pa.list_(pa.int16())),
            "nested": pa.array([[["a"], []]], pa.list_(pa.list_(pa.string()))),
            "pair": pa.array([[1.5, 2.5]], pa.list_(pa.float32(), 2)),
        }
    )
    assert ps.from_arrow(table).filter(lambda i8: i8 > 0).collect().equals(table)
    assert ps.from_arrow(table).collect().equals(table)
    encoded = pa.table({"name": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert ps.from_arrow(encoded).collect().to_pydict() == {"name": ["a", "b", "a"]}


def test_nulls_are_dropped_or_filled_and_indices_stay() -> None:
    class Seen(ps.State):
        level: int

    class Level(ps.Signal):
        level: int

    source = ps.from_items([{"v": v, "w": [v, None]} for v in (0, None, 2, 3)], schema={"v": int, "w": list[int]})
    assert everywhere(source.drop_nulls("v").fill_null(w=9).map(s=lambda w: w[1]).select("v", "s"))[1] == {
        "v": 2,
        "s": 9,
    }
    kept = (
        source.drop_nulls("v").map(x=lambda state: state.level, state=Seen).on(Level, level=lambda signal: signal.level)
    )
    table = kept.select("v", "x").collect(control=[ps.at(2, Level(7))])
    assert table.to_pydict() == {"v": [0, 2, 3], "x": [0, 7, 7]}


def test_a_null_in_a_column_that_nobody_uses_is_no_fault() -> None:
    source = ps.from_items([{"v": 1, "w": None}], schema={"v": int, "w": int})
    assert everywhere(source.select("v")) == [{"v": 1}]


def test_empty_input_everywhere() -> None:
    empty = ps.from_items([], schema={"k": str, "v": list[float]})
    opened = empty.enumerate("v", as_="x")
    for stream in (empty, opened, opened.aggregate(n=ps.count()), empty.regions(by="k").aggregate(n=ps.count())):
        assert everywhere(stream) == []
        assert stream.collect().schema == stream.schema


def test_a_dataset_is_read_batch_by_batch_and_results_can_be_too(tmp_path: Path) -> None:
    """More data than is ever held: every batch handed out may be dropped before the next one is made."""
    for part in range(8):
        pq.write_table(pa.table({"v": np.arange(part * 50_000, (part + 1) * 50_000)}), tmp_path / f"{part}.parquet")
    source = ps.from_arrow(ds.dataset(tmp_path))
    doubled = source.filter(lambda v: v % 2 == 0).map(v=lambda v: 2 * v)
    del source
    gc.collect()
    held, total = pa.total_allocated_bytes(), 0
    for batch in doubled.batches(batch_items=10_000):
        total += pa.compute.sum(batch.column("v")).as_py()
    assert total == sum(2 * v for v in range(0, 400_000, 2))
    assert pa.total_allocated_bytes() - held < 50_000_000


def test_one_stream_twice_and_an_inner_node_as_a_result() -> None:
    items = ps.from_items([{"v": 1}, {"v": -1}])
    up = items.filter(lambda v: v > 0)
    first, again, inner, more = ps.run(up, up, items, up.map(w=lambda v: v + 1))
    assert first == again and inner.num_rows == 2 and more.to_pydict() == {"v": [1], "w": [2]}
