"""Splits of data in memory and of datasets, and how splits are put together."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graph.files.data import items_of, rows_of, write_parquet

import penstock as ps
from penstock.errors import InternalError
from penstock.graph.source import UNCUT
from penstock.graph.split import gather_batches


@given(st.integers(0, 50), st.integers(1, 10_000), st.integers(1, 20))
def test_slices_of_a_table(rows: int, about_bytes: int, at_most: int) -> None:
    stream = ps.from_numpy({"v": np.arange(rows), "w": np.arange(rows) / 2})
    expected = [{"v": v, "w": v / 2} for v in range(rows)]
    assert rows_of(stream, about_bytes, at_most) == rows_of(stream, at_most=at_most) == expected
    assert rows_of(stream, about_bytes, columns={"w"}) == [{"w": row["w"]} for row in expected]
    assert sum(split.rows for split in items_of(stream).splits(about_bytes)) == rows


def test_the_pickle_of_a_slice_holds_its_rows_only() -> None:
    stream = ps.from_arrow(pa.table({"s": ["x" * 100] * 10_000, "n": pa.array(["a"] * 10_000).dictionary_encode()}))
    splits = items_of(stream).splits(10_000)
    assert len(splits) > 50
    assert len(pickle.dumps(splits[3])) < 30_000
    assert splits[1].label == f"source 'arrow', rows {splits[0].rows} to {splits[0].rows + splits[1].rows}"
    assert pickle.loads(pickle.dumps(splits[1])).label == splits[1].label


def test_rows_without_bytes() -> None:
    stream = ps.from_arrow(pa.table({"v": pa.array([[]] * 3, pa.list_(pa.int64(), 0))}))
    assert rows_of(stream) == rows_of(stream, 1) == rows_of(stream, UNCUT) == [{"v": []}] * 3


def test_nested_items_in_slices() -> None:
    items = [{"p": {"x": n}, "q": [{"t": n}] * n} for n in range(5)]
    stream = ps.from_items(items)
    expected = [{"p.x": n, "q.t": [n] * n} for n in range(5)]
    assert rows_of(stream, 1, at_most=2) == expected
    assert rows_of(stream, 1, columns={"q.t"}) == [{"q.t": row["q.t"]} for row in expected]


def test_datasets(tmp_path: Path) -> None:
    for day in (1, 2):
        write_parquet(tmp_path / f"day={day}" / "p.parquet", {"v": range(3)})
    dataset = pd.dataset(tmp_path, partitioning="hive")
    stream = ps.from_arrow(dataset)
    expected = [{"v": v, "day": day} for day in (1, 2) for v in range(3)]
    assert rows_of(stream) == rows_of(stream, 1, at_most=2) == expected
    assert len(items_of(stream).splits(1)) == 2
    filtered = ps.from_arrow(dataset.filter(pc.field("v") > 1))
    assert rows_of(filtered) == rows_of(filtered, 1) == [{"v": 2, "day": 1}, {"v": 2, "day": 2}]
    within = ps.from_arrow(pd.dataset(pa.table({"v": [1, 2]})))
    assert rows_of(within) == rows_of(within, 1) == [{"v": 1}, {"v": 2}]


@given(st.lists(st.integers(0, 6000), max_size=10), st.integers(1, 10_000))
def test_small_batches_are_put_together(sizes: list[int], at_most: int) -> None:
    column = pa.array(range(sum(sizes)), pa.int64())
    starts = np.cumsum([0, *sizes])
    batches = [pa.record_batch({"v": column[a:b]}) for a, b in itertools.pairwise(starts) if b - a <= at_most]
    made = list(gather_batches(batches, at_most))
    assert [v for batch in made for v in batch["v"].to_pylist()] == [v for b in batches for v in b["v"].to_pylist()]
    assert all(0 < batch.num_rows <= at_most for batch in made)
    for one, other in itertools.pairwise(made):
        assert one.num_rows + other.num_rows > min(at_most, 4096)


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(InternalError, match="a split has the columns 'v'; was asked for 'w'"):
        list(items_of(ps.from_items([{"v": 1}])).batches(1, {"w"}))
