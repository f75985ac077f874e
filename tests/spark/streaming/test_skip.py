"""One bad item does not end a stream: not at its start, not at the next; and its letter is written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.errors import plain
from tests.spark.test_skip import write

import penstock as ps
from penstock.spark.streaming.stream_sinks import FileSink


def started(case: plain.Case, folder: Path, spark: SparkSession, **options: Any) -> Any:
    stream = case.build(ps.read_parquet(folder / "in"))
    options = {"trigger": "available", "files_per_batch": 2, "buckets": 2, "ordered": True} | options
    handle = stream.start(folder / "out", checkpoint=folder / "ck", spark=spark, **options)
    handle.await_termination()
    return handle


def letters(folder: Path) -> plain.Letters:
    """The letters of all files, by the index in the whole: the files' names are the indices of their first items."""
    found = [row for part in sorted((folder / "dead").glob("*.parquet")) for row in pq.read_table(part).to_pylist()]
    names = [((row["function"] or row["node"]).split(" (")[0], int(Path(row["file"]).stem)) for row in found]
    return plain.Counter(
        {(first + row["index"], name): row["count"] for row, (name, first) in zip(found, names, strict=True)}
    )


def rows(folder: Path) -> list[plain.Row]:
    parts = sorted((folder / "out").glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


@pytest.mark.parametrize("case", [case for case in plain.CASES if case.name == "emit"], ids=lambda c: c.name)
def test_a_stream_goes_on_over_bad_items_and_restarts_with_every_letter_once(
    spark: SparkSession, tmp_path: Path, case: plain.Case
) -> None:
    found = plain.items(8, 80)
    wanted, told = plain.expected(case, found)
    write(tmp_path / "in", found, 0, 20)
    with pytest.raises(ps.FunctionError):
        started(case, tmp_path, spark)
    handle = started(case, tmp_path, spark, dead_letter=tmp_path / "dead")
    assert handle.progress().skipped == letters(tmp_path).total() > 0
    for first in (20, 40, 60):
        write(tmp_path / "in", found, first, 20)
    with (
        mock.patch.object(FileSink, "_finish", side_effect=ps.OutputError("the disk is gone")),
        pytest.raises(ps.OutputError),
    ):
        started(case, tmp_path, spark, dead_letter=tmp_path / "dead")
    started(case, tmp_path, spark, dead_letter=tmp_path / "dead")
    assert rows(tmp_path) == wanted
    assert letters(tmp_path) == told


def test_what_spark_writes_itself_cannot_tell_what_was_skipped(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", plain.items(8, 2), 0, 2)
    stream = ps.read_parquet(tmp_path / "in").map(w=lambda v: 1 // v)
    with pytest.raises(ps.GraphError, match="on_error='skip' needs a sink that counts what was skipped"):
        stream.start(ps.spark_sink("noop"), checkpoint=tmp_path / "ck", spark=spark, on_error="skip")


def test_a_micro_batch_that_failed_leaves_no_state_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the first state that is committed for a micro-batch, also where the micro-batch comes again."""
    case = next(case for case in plain.CASES if case.name == "state")
    found = [item | {"v": 3 if at == 0 else 1} for at, item in enumerate(plain.items(8, 12))]
    write(tmp_path / "in", found, 0, 6)
    with pytest.raises(ps.FunctionError, match="running raised ValueError: three"):
        started(case, tmp_path, spark)
    started(case, tmp_path, spark, on_error="skip")
    write(tmp_path / "in", found, 6, 6)
    started(case, tmp_path, spark, on_error="skip")
    assert rows(tmp_path) == plain.expected(case, found)[0]
