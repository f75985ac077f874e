"""A stream that is stopped in the middle of micro-batches, in this process: `python -m tests.crash.stopped FOLDER LOG`.

A task that comes to a gate waits there, and the stream is stopped meanwhile. LOG is `quiet`, or `loud` for the log that
Spark has by itself. It ends well where every stop was one, and no item was lost.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.crash.graphs import BEHIND, FIRST, Average, write_readings

import penstock as ps
import penstock.spark

STOPS = 2 * (FIRST, BEHIND)


class Gate:
    """Hands on a column; where its pipe is there, not before somebody has opened and closed that for writing."""

    def __init__(self, folder: Path, place: str) -> None:
        self.pipe = str(folder / f"gate-{place}")

    def __call__(self, column: Any) -> Any:
        if os.path.exists(self.pipe):
            with open(self.pipe, "rb") as pipe:
                pipe.read()
        return column


def count(state: Any) -> int:
    state.count += 1
    return state.count  # type: ignore[no-any-return]


def build(folder: Path) -> ps.Stream:
    first, behind = Gate(folder, FIRST), Gate(folder, BEHIND)
    readings = ps.read_parquet(folder / "in").map_columns(lambda value, at=first: at(value), to={"value": float})
    counts = readings.key_by("device").map(count=count, state=Average)
    return counts.map_columns(lambda count, at=behind: at(count), to={"count": int})


def put(folder: Path, number: int) -> None:
    write_readings(folder / f"_{number}", number)
    (folder / f"_{number}").rename(folder / "in" / f"{number}.parquet")


def stop_at(folder: Path, place: str) -> None:
    """Start the stream, and stop it when a task is at a gate."""
    gate = Gate(folder, place)
    os.mkfifo(gate.pipe)
    handle = build(folder).start(folder / "out", checkpoint=folder / "ck", buckets=2)
    with open(gate.pipe, "wb"):  # opens when the task opens the other end
        os.unlink(gate.pipe)
        handle.stop()
    assert (handle.status, handle.exception, handle.await_termination()) == ("stopped", None, True)


def main(folder: Path) -> None:
    (folder / "in").mkdir()
    for number, place in enumerate(STOPS):
        put(folder, number)
        stop_at(folder, place)
    build(folder).start(folder / "out", checkpoint=folder / "ck", trigger="available").await_termination()
    written = ps.read_parquet(folder / "out").collect(spark=False)
    wanted = build(folder).collect(spark=False)
    assert sorted(written.to_pylist(), key=str) == sorted(wanted.to_pylist(), key=str)


if __name__ == "__main__":
    penstock.spark.session(cores=2, memory="512m", quiet=sys.argv[2] == "quiet")
    main(Path(sys.argv[1]))
