"""Keys where streams meet, on a real Spark, against the model of plain lists."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.property.plain import Values
from tests.property.plain_graphs import Drawing, from_seed
from tests.property.test_plain_model import check

import penstock as ps

SEEDS = 60
GRAPHS = 12
PARTS = 2


def graphs() -> list[int]:
    """Seeds of graphs in which streams of one key meet: mostly one that was given at several places."""
    seen = {seed: from_seed(seed).seen for seed in range(SEEDS)}
    several = [seed for seed in seen if "one key of several key_by" in seen[seed]][: GRAPHS * 2 // 3]
    others = [seed for seed in seen if "one key_by on all sides" in seen[seed] and seed not in several]
    return [*several, *others][:GRAPHS]


def in_files(folder: Path, items: list[Values]) -> ps.Stream:
    """The items in three files of row groups of two."""
    folder.mkdir()
    table = pa.Table.from_pylist(items)
    for at in range(3):
        start, stop = (len(items) * each // 3 for each in (at, at + 1))
        pq.write_table(table.slice(start, stop - start), folder / f"part-{at}.parquet", row_group_size=2)
    return ps.read_parquet(str(folder))


@pytest.mark.parametrize("part", range(PARTS))
def test_spark_gives_what_plain_lists_give(part: int, spark: Any, tmp_path: Path) -> None:
    for seed in graphs()[part::PARTS]:
        drawing = from_seed(seed, partial(in_files, tmp_path / str(seed)))
        check(drawing, partial(run_on, spark, 1 + seed % 3), f"seed {seed}, Spark")


def run_on(spark: Any, buckets: int, drawing: Drawing) -> Any:
    options = {"ordered": True, "compile": False, "buckets": buckets, "split_bytes": 1}
    return ps.run(*drawing.results, spark=spark, control=drawing.control, **options)
