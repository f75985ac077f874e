"""Streams that write into one folder, each with a checkpoint of its own: none touches what is another's."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import penstock as ps
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.description import describe
from penstock.spark.streaming.stream_sinks import FileSink
from penstock.spark.wire import TaskResult, decode, messages


class Killed(BaseException):
    """Stands for the end of a process."""


class Stream:
    """A stream that writes to `out`, as far as the driver and its sink are concerned. `open` is a new process of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.leaf = ps.from_items([{"v": 1}]).node

    def open(self) -> FileSink:
        checkpoint = Checkpoint(self.folder / self.name)
        with checkpoint:
            checkpoint.open(describe([self.leaf], buckets=1, sink="") | {"id": self.name * 4})
        sink = FileSink(self.folder / "out", self.leaf, "parquet", {})
        sink.open(checkpoint, self.name * 4)
        return sink


def task(sink: FileSink, values: list[int]) -> list[TaskResult]:
    """A task that writes a part, and reports it."""
    writer = sink.results()(0, 0)
    list(writer.send(pa.record_batch({"v": values})))
    return list(decode(messages(writer.finish()), TaskResult))


def written(folder: Path) -> list[int]:
    return sorted(row["v"] for row in ps.read_parquet(folder / "out").collect(spark=False).to_pylist())


def test_a_second_stream_into_the_folder_leaves_the_staged_parts_of_a_dead_one(tmp_path: Path) -> None:
    first, second = Stream(tmp_path, "one"), Stream(tmp_path, "two")
    sink = first.open()
    sink.begin()
    parts = task(sink, [1, 2])
    with mock.patch.object(FileSink, "_finish", side_effect=Killed), pytest.raises(Killed):
        sink.commit(0, parts)  # its intent is written down, and nothing is moved
    other = second.open()
    other.begin()
    other.commit(0, task(other, [10]))
    assert written(tmp_path) == [10]
    sink = first.open()
    sink.begin()
    assert written(tmp_path) == [1, 2, 10]
    sink.commit(1, task(sink, [3]))
    assert written(tmp_path) == [1, 2, 3, 10]


def test_a_start_clears_away_only_what_tasks_of_its_own_stream_have_left(tmp_path: Path) -> None:
    first, second = Stream(tmp_path, "one"), Stream(tmp_path, "two")
    running, other = first.open(), second.open()
    running.begin()
    other.begin()
    parts, left = task(running, [1]), task(other, [99])
    again = second.open()
    again.begin()
    (part,) = left[0].parts
    assert not Path(other.staged, part.name).exists()
    running.commit(0, parts)
    assert written(tmp_path) == [1]


def test_a_copy_of_a_checkpoint_that_writes_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    sink = Stream(tmp_path, "one").open()
    sink.begin()
    sink.commit(0, task(sink, [1]))
    copy = Stream(tmp_path, "two").open()
    copy.open(copy.checkpoint, sink.identity)
    copy.begin()
    with pytest.raises(ps.OutputError, match="with a copy of the checkpoint"):
        copy.commit(0, task(copy, [2]))
    assert written(tmp_path) == [1]
