"""Items that fail are skipped on Spark as in one thread, over several splits and buckets, with their letters."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.errors import plain

import penstock as ps

SHUFFLED = [case for case in plain.CASES if case.name in ("state", "flat_map", "end", "emit", "elements", "join")]


def write(folder: Path, found: list[plain.Row], first: int, count: int) -> None:
    """Some of the items as a file, dated by its first item: a running stream reads them in that order."""
    rows = found[first : first + count]
    table = pa.table({field.name: pa.array([row[field.name] for row in rows], field.type) for field in plain.SCHEMA})
    folder.mkdir(exist_ok=True)
    path = folder / f"{first:04}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + first, 1_700_000_000 + first))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, found = tmp_path_factory.mktemp("items"), plain.items(5, 90)
    for first in (0, 30, 60):
        write(made, found, first, 30)
    return made


@pytest.mark.parametrize("case", SHUFFLED, ids=lambda case: case.name)
def test_letters_have_the_indices_of_the_source_over_splits_and_buckets(
    spark: SparkSession, folder: Path, case: plain.Case
) -> None:
    rows, letters = plain.expected(case, plain.items(5, 90))
    stream = case.build(ps.read_parquet(folder))
    run = stream.prepare(spark, on_error="skip", ordered=True, split_bytes=1, buckets=3)
    assert run.collect().to_pylist() == rows
    told = run.dead_letters()
    assert plain.told(told) == letters
    assert run.statistics().skipped == told.num_rows > 0
    (last,) = told.slice(told.num_rows - 1).to_pylist()
    assert last["file"] == str(folder / f"{last['index'] // 30 * 30:04}.parquet")
    assert last["position"] == f"item {last['index'] % 30} of row group 0"


def test_letters_of_a_written_result_are_in_a_folder_of_their_own(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    case = SHUFFLED[0]
    rows, letters = plain.expected(case, plain.items(5, 90))
    stream = case.build(ps.read_parquet(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ps.SkippedWarning)
        written = stream.write_parquet(tmp_path / "out", spark, dead_letter=tmp_path / "dead", split_bytes=1)
    assert written.rows == len(rows)
    assert plain.told(pq.read_table(tmp_path / "dead")) == letters
    with pytest.raises(ps.FunctionError, match="running raised ValueError"):
        stream.collect(spark)
    with pytest.raises(ps.GraphError, match="to_spark: a DataFrame has no place for what was skipped"):
        stream.to_spark(spark, on_error="skip")
