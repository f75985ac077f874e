"""A stream whose Java process is killed twice, in this process: without a restart, then with one.

`python -m tests.crash.lost FOLDER`. It ends well where the handle tells of it as it should.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.graphs import Threshold, write_readings

import penstock as ps
import penstock.spark


class Count(ps.State):
    n: int


class Most(ps.State):
    level: float = 1e9


def counted(state: Any) -> int:
    state.n += 1
    return state.n  # type: ignore[no-any-return]


def is_below(value: float, state: Any) -> bool:
    return value < state.level  # type: ignore[no-any-return]


def build(folder: Path) -> ps.Stream:
    readings = (
        ps.read_parquet(folder / "in").filter(is_below, state=Most).on(Threshold, level=lambda signal: signal.level)
    )
    return readings.key_by("device").map(n=counted, state=Count)


def put(folder: Path, number: int) -> None:
    write_readings(folder / f"_{number}", number)
    (folder / f"_{number}").rename(folder / "in" / f"{number}.parquet")


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def kill_java() -> None:
    from pyspark.core.context import SparkContext

    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.kill()
    process.wait()


def main(folder: Path) -> None:
    (folder / "in").mkdir()
    put(folder, 0)
    handle = started(folder)
    until(lambda: handle.progress() is not None)
    kill_java()
    try:
        handle.await_termination()
        raise SystemExit("it must fail")
    except ps.JobError as error:
        assert str(error).startswith("job: the Java process of Spark must live"), error
        assert "\n" not in str(error)
    assert handle.status == "failed"
    handle.stop()  # harmless
    penstock.spark.session(cores=2, memory="512m")  # a new one, because that of before is lost
    handle = started(folder, restart=True)
    put(folder, 1)
    until(lambda: handle.progress() is not None and handle.progress().total_items == 800)
    kill_java()
    put(folder, 2)
    until(lambda: handle.progress().total_items == 1200)
    assert (handle.restarts, handle.status in ("running", "waiting"), handle.exception) == (1, True, None)
    assert handle.send(Threshold(1.0)).index == 1200
    assert [progress.batch for progress in handle.recent()] == sorted({progress.batch for progress in handle.recent()})
    handle.stop()
    assert (handle.status, handle.exception, handle.await_termination()) == ("stopped", None, True)


def started(folder: Path, **options: Any) -> Any:
    return build(folder).start(folder / "out", checkpoint=folder / "ck", buckets=2, **options)


if __name__ == "__main__":
    penstock.spark.session(cores=2, memory="512m")
    main(Path(sys.argv[1]))
