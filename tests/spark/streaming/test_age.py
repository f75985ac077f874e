"""Files that are dated far from the others: all are read, or the stream fails with the name of one that is not."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.spark.streaming.test_bad_input import averages, written
from tests.spark.streaming.test_stream_progress import log
from tests.spark.streaming.test_streams import fill, put, ran, readings, right, rows

import penstock as ps
from penstock.spark.streaming.age import LOOK_EVERY_S, Passed, age_of
from penstock.spark.streaming.checkpoint import Checkpoint

IN_2200, IN_2023 = 7_258_118_400, 1_700_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def date(path: Path, time: int) -> None:
    os.utime(path, (time, time))


def test_files_behind_one_from_the_future_are_read(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    date(folder / "in" / "f001.parquet", IN_2200)
    stream = averages(folder)
    ran(stream, folder / "out", folder, spark)
    put(readings(80, 40), folder / "in" / "f002.parquet", 2)
    ran(stream, folder / "out", folder, spark)
    assert written(folder) == rows(right(averages(folder)))


def test_a_stream_that_runs_fails_when_a_file_is_passed_over(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    date(folder / "in" / "f001.parquet", IN_2200)
    handle = averages(folder).start(folder / "out", checkpoint=folder / "ck", spark=spark)
    while handle.progress() is None or handle.progress().total_items < 80:
        assert handle.exception is None
    put(readings(80, 40), folder / "in" / "f002.parquet", 2)
    while handle.progress() is not None and handle.exception is None:
        pass
    assert handle.status == "failed"
    with pytest.raises(ps.DataError, match=r"f002\.parquet'.* is dated 2023-.*f001\.parquet' is dated 2200-01-01"):
        handle.await_termination(60)
    ran(averages(folder), folder / "out", folder, spark)  # a start allows for what is dated in the future
    assert written(folder) == rows(right(averages(folder)))


# Without Spark


def passed(folder: Path, **options: Any) -> Passed:
    items: Any = ps.read_text(folder / "in").node.source.items
    return Passed(items, Checkpoint(folder / "ck"), timedelta(days=7), now_s=lambda: IN_2023, **options)


def lines(folder: Path, name: str, time: int) -> None:
    (folder / "in" / name).write_text("x\n")
    date(folder / "in" / name, time)


def taken(folder: Path, name: str, time: int) -> None:
    log(folder / "ck", "0", f"file://{folder}/in/{name}", time=1000 * time)


def test_what_is_older_than_allowed_is_refused(folder: Path) -> None:
    lines(folder, "a.txt", IN_2023)
    passed(folder).refuse()  # nothing has been taken yet, and it will be
    taken(folder, "a.txt", IN_2023)
    lines(folder, "b.txt", IN_2023 - 6 * 86_400)
    passed(folder).refuse()
    lines(folder, "c.txt", IN_2023 - 8 * 86_400)
    with pytest.raises(ps.DataError, match=r"c\.txt'.*at most 7 days before .* or say max_file_age="):
        passed(folder).refuse()


def test_what_was_read_long_ago_may_stay(folder: Path) -> None:
    lines(folder, "a.txt", IN_2023 - 30 * 86_400)
    taken(folder, "a.txt", IN_2023 - 30 * 86_400)
    watching = passed(folder)
    log(folder / "ck", "1", f"file://{folder}/in/b.txt", time=1000 * IN_2023)
    for _ in range(3):
        watching.refuse()


def test_the_age_allows_for_what_is_ahead_of_the_clock(folder: Path) -> None:
    taken(folder, "a.txt", IN_2023 + 100)
    assert passed(folder).age_ms == (7 * 86_400 + 100) * 1000
    taken(folder, "a.txt", IN_2023 - 100)
    assert passed(folder).age_ms == 7 * 86_400 * 1000


def test_a_stream_looks_now_and_then(folder: Path) -> None:
    seconds = [0.0]
    taken(folder, "a.txt", IN_2023)
    watching = passed(folder, clock=lambda: seconds[0])
    lines(folder, "b.txt", 0)
    watching.refuse_now_and_then()
    seconds[0] = LOOK_EVERY_S
    with pytest.raises(ps.DataError, match=r"b\.txt"):
        watching.refuse_now_and_then()


@pytest.mark.parametrize("given", [0, -1, True, "7d", timedelta(0)])
def test_an_age_that_is_none(given: Any) -> None:
    with pytest.raises(ps.GraphError, match="max_file_age must be a timedelta above 0"):
        age_of(given)
