"""What goes wrong around a running stream: an error of ours, or the recovery that is promised; nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.streaming.test_streams import (
    Average,
    Threshold,
    fill,
    mean,
    put,
    ran,
    readings,
    right,
    rows,
    with_limit,
)

import penstock as ps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def averages(folder: Path) -> ps.Stream:
    return ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average)


def written(folder: Path) -> list[str]:
    return rows(ps.read_parquet(folder / "out").collect(spark=False))


# Files


def test_a_truncated_file(folder: Path, spark: Any) -> None:
    fill(folder, range(3))
    stream, bad = averages(folder), folder / "in" / "f001.parquet"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:-100])
    os.utime(bad, (1_700_000_001, 1_700_000_001))
    with pytest.raises(ps.DataError, match=r"f001\.parquet.*must be a whole Parquet file"):
        ran(stream, folder / "out", folder, spark)
    bad.write_bytes(whole)  # mended, the stream goes on with it
    ran(stream, folder / "out", folder, spark)
    assert written(folder) == rows(right(averages(folder)))


def test_a_file_that_is_replaced_while_it_waits(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    stream = averages(folder)
    ran(stream, folder / "out", folder, spark)
    put(readings(1000, 10), folder / "in" / "f002.parquet", 2)
    put(readings(2000, 30), folder / "in" / "f002.parquet", 3)
    ran(stream, folder / "out", folder, spark)
    assert written(folder) == rows(right(averages(folder)))


def test_a_file_that_is_removed_while_it_waits(folder: Path, spark: Any) -> None:
    fill(folder, range(3))
    stream = averages(folder)
    held = (folder / "in" / "f002.parquet").read_bytes()

    def remove(table: pa.Table, batch: int) -> None:
        (folder / "in" / "f002.parquet").unlink(missing_ok=True)

    handle = stream.start(remove, checkpoint=folder / "ck", spark=spark, trigger="available", files_per_batch=1)
    with pytest.raises(ps.PenstockError, match=r"f002\.parquet.*(it is gone|does not exist)"):
        handle.await_termination(120)
    (folder / "in" / "f002.parquet").write_bytes(held)
    seen: list[pa.Table] = []
    ran(stream, lambda table, batch: seen.append(table), folder, spark)
    assert sum(table.num_rows for table in seen) == 40


@pytest.mark.parametrize("files_per_batch", [1, None])
def test_a_file_of_zero_bytes_is_a_file_without_items(folder: Path, spark: Any, files_per_batch: int | None) -> None:
    fill(folder, range(2))
    empty = folder / "in" / "f001.parquet"
    put(readings(40, 40), folder / "in" / "f002.parquet", 2)
    empty.write_bytes(b"")
    os.utime(empty, (1_700_000_001, 1_700_000_001))
    stream = averages(folder)
    handle = ran(stream, folder / "out", folder, spark, files_per_batch=files_per_batch)
    assert handle.progress().total_items == 80
    assert written(folder) == rows(right(stream))


def test_a_file_with_other_columns(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    stream = averages(folder)
    put(readings(0, 5).rename_columns(["at", "device", "worth"]), folder / "in" / "f001.parquet", 1)
    with pytest.raises(ps.DataError, match=r"f001\.parquet.*must have the field 'value'"):
        ran(stream, folder / "out", folder, spark)


# Checkpoints


def test_the_checkpoint_of_another_graph(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    ran(averages(folder), folder / "out", folder, spark)
    other = ps.read_parquet(folder / "in").key_by("at").map(mean=mean, state=Average)
    with pytest.raises(
        ps.CheckpointError, match=r"must be the checkpoint of this graph; .*by key 'device', is by key 'at'"
    ):
        ran(other, folder / "out", folder, spark)


def test_a_state_with_other_fields(folder: Path, spark: Any) -> None:
    class Average(ps.State):
        n: int
        total: int

    fill(folder, range(1))
    ran(averages(folder), folder / "out", folder, spark)

    def changed(value, state):
        state.n += 1
        return state.n

    other = ps.read_parquet(folder / "in").key_by("device").map(mean=changed, state=Average)
    with pytest.raises(ps.CheckpointError, match=r"'total' was float64, is int64"):
        ran(other, folder / "out", folder, spark)


def test_a_state_that_reads_its_older_version(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    ran(averages(folder), folder / "out", folder, spark)

    class Average(ps.State):
        count: int
        total: float

        @classmethod
        def upgrade(cls, old):
            return {"count": old.n, "total": old.total}

    def mean(value, state):
        state.count += 1
        state.total += value
        return state.total / state.count

    fill(folder, range(2, 4))
    newer = ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average)
    ran(newer, folder / "out", folder, spark)
    assert written(folder) == rows(right(newer))


def test_a_checkpoint_that_cannot_be_written(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    (folder / "ck").write_text("a file")
    with pytest.raises(ps.PenstockError, match="ck"):
        ran(averages(folder), folder / "out", folder, spark)


def test_two_queries_on_one_checkpoint(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    handle = averages(folder).start(folder / "out", checkpoint=folder / "ck", spark=spark)
    try:
        with pytest.raises(ps.CheckpointError, match="process"):
            averages(folder).start(folder / "out", checkpoint=folder / "ck", spark=spark)
        program = (
            "import sys, penstock as ps\n"
            "from penstock.spark.streaming.checkpoint import Checkpoint\n"
            "from penstock.spark.streaming.description import describe\n"
            "stream = ps.read_parquet(sys.argv[1])\n"
            "Checkpoint(sys.argv[2]).open(describe([stream.node], buckets=1, sink=''))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(folder / "in"), str(folder / "ck")], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "CheckpointError" in done.stderr
    finally:
        handle.stop()
    ran(averages(folder), folder / "out", folder, spark)  # it is free again


# Sinks


def test_a_sink_that_fails_twice_and_then_works(folder: Path, spark: Any) -> None:
    fill(folder, range(3))
    stream = averages(folder)
    taken: dict[int, pa.Table] = {}
    failures = [1, 1]

    def sink(table: pa.Table, batch: int) -> None:
        if batch == 1 and failures:
            failures.pop()
            raise ConnectionError("no such host")
        taken[batch] = table

    for _ in range(2):
        with pytest.raises(ps.OutputError, match=r"must take batch 1; it raised ConnectionError: no such host"):
            ran(stream, sink, folder, spark)
    ran(stream, sink, folder, spark)
    assert sorted(taken) == [0, 1, 2]
    assert rows(pa.concat_tables(taken.values())) == rows(right(stream))


def test_a_sink_that_is_none(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    with pytest.raises(ps.GraphError, match="the sink must be a folder, a function"):
        ran(averages(folder), 7, folder, spark)
    with pytest.raises(ps.GraphError, match="must take a table and the number of its batch"):
        ran(averages(folder), lambda table: None, folder, spark)


# Signals, functions, and what a stream cannot be


def test_a_signal_of_an_unknown_type(folder: Path, spark: Any) -> None:
    class Other(ps.Signal):
        level: float

    fill(folder, range(1))
    handle = with_limit(ps.read_parquet(folder / "in")).start(folder / "out", checkpoint=folder / "ck", spark=spark)
    try:
        with pytest.raises(ps.GraphError, match="must be a signal that a node handles"):
            handle.send(Other(1.0))
        assert handle.send(Threshold(1.0)).batch >= 0
    finally:
        handle.stop()
    with pytest.raises(ps.JobError, match="the stream must be running"):
        handle.send(Threshold(1.0))


def test_a_function_that_raises(folder: Path, spark: Any) -> None:
    fill(folder, range(2))

    def inverse(at):
        return 1 // (at - 57)

    stream = ps.read_parquet(folder / "in").map(inverse=inverse)
    with pytest.raises(ps.FunctionError, match=r"item 17 of .*f001\.parquet"):
        ran(stream, folder / "out", folder, spark)


def test_what_only_an_end_would_give(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    with pytest.raises(ps.GraphError, match="a running stream does not end"):
        ran(ps.read_parquet(folder / "in").key_by("device").aggregate(n=ps.count()), folder / "out", folder, spark)


def test_a_source_that_does_not_grow(folder: Path, spark: Any) -> None:
    with pytest.raises(ps.GraphError, match="must be a source that grows"):
        ran(ps.from_items([{"v": 1}]), folder / "out", folder, spark)
