"""How often tasks and micro-batches compile: not at all once a loop is kept, whatever names a script has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock as ps


class Total(ps.State):
    s: int


def running(v: int, state: Total) -> int:
    state.s += v
    return state.s


s = object()
"""A global with the name of the state's field, as a script may well have."""


def write(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": [0, 1, 2, 0], "v": [1, 2, 3, 4]}), folder / f"{number}.parquet")


def watcher(log: Path) -> Callable[[Any], Any]:
    """A function over columns that, in each worker, notes every later compilation in a file."""
    path = str(log)

    def watch(v: Any) -> Any:
        import builtins

        from numba.core import event

        class Note(event.Listener):  # type: ignore[misc]
            def on_start(self, happened: Any) -> None:
                with open(path, "a") as notes:
                    notes.write(f"{os.getpid()} {happened.data['dispatcher']}\n")

            def on_end(self, happened: Any) -> None: ...

        if path not in getattr(builtins, "penstock_watched", ()):
            builtins.penstock_watched = (*getattr(builtins, "penstock_watched", ()), path)  # type: ignore[attr-defined]
            event.register("numba:compile", Note())
        return v

    return watch


def watched(folder: Path, log: Path) -> ps.Stream:
    log.touch()
    items = ps.read_parquet(folder).key_by("k").map_columns(watcher(log), to={"u": int})
    return items.map(total=running, state=Total)


def test_tasks_of_a_second_job_compile_nothing(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "in", 0)
    stream = watched(tmp_path / "in", tmp_path / "log")
    totals = stream.collect(spark, ordered=True)["total"].to_pylist()
    (tmp_path / "log").write_text("")
    assert stream.collect(spark, ordered=True)["total"].to_pylist() == totals
    assert (tmp_path / "log").read_text() == ""


def test_later_micro_batches_compile_nothing(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "in", 0)
    stream = watched(tmp_path / "in", tmp_path / "log")
    for files in (range(1), range(1, 4)):
        (tmp_path / "log").write_text("")
        for number in files:
            write(tmp_path / "in", number)
        stream.start(
            tmp_path / "out", checkpoint=tmp_path / "ck", trigger="available", files_per_batch=1, spark=spark
        ).await_termination(120)
    assert (tmp_path / "log").read_text() == ""
    assert pq.read_table(tmp_path / "out").num_rows == 16
