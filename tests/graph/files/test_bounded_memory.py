"""A file is never in memory as a whole, whatever its size and however it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.graph.files.data import items_of, write, write_parquet

import penstock as ps
from penstock.graph.files import csv

MEGABYTE = 1 << 20
LINE = "1234567,abcdefg\n"


def one_large_row_group(folder: Path) -> ps.Stream:
    write_parquet(folder / "a.parquet", {"v": np.arange(5_000_000)}, row_group_size=10_000_000, use_dictionary=False)
    return ps.read_parquet(folder)


def long_lists(folder: Path) -> ps.Stream:
    values = pa.array(np.arange(5_000_000, dtype=np.int32) % 1000)
    lists = pa.ListArray.from_arrays(np.arange(0, 5_000_001, 10_000, dtype=np.int32), values)
    write_parquet(folder / "a.parquet", {"v": lists})
    return ps.read_parquet(folder)


def lines(folder: Path) -> ps.Stream:
    return ps.read_text(write(folder, a__txt=LINE * (40 * MEGABYTE // len(LINE))))


def rows(folder: Path) -> ps.Stream:
    return ps.read_csv(write(folder, a__csv="n,s\n" + LINE * (40 * MEGABYTE // len(LINE))))


def rows_with_newlines(folder: Path) -> ps.Stream:
    return ps.read_csv(write(folder, a__csv="n,s\n" + LINE * (40 * MEGABYTE // len(LINE))), newlines_in_values=True)


def objects(folder: Path) -> ps.Stream:
    return ps.read_json(write(folder, a__json='{"v": 12345678}\n' * (40 * MEGABYTE // 16)))


@pytest.mark.parametrize("make", [one_large_row_group, long_lists, lines, rows, rows_with_newlines, objects])
def test_memory_is_bounded(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "ROW_BYTES", 256 << 10)  # of which Arrow reads some ahead
    items = items_of(make(tmp_path))
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for batch in items.batches(65536):
        most, count = max(most, pa.total_allocated_bytes() - before), count + batch.num_rows
    assert count > 0
    assert most < 24 * MEGABYTE
