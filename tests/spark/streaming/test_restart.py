"""After which failures a stream starts again, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.streaming.test_bad_input import averages, written
from tests.spark.streaming.test_streams import fill, right, rows

import penstock as ps
from penstock.spark.driver.reason import job_error, lost_java
from penstock.spark.streaming.restart import MOST, Restarts, may_pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def test_pauses_double_up_to_five_minutes_and_begin_anew_after_an_hour() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(float(at)) for at in range(MOST)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert restarts.pause_s(3599.0) is None
    assert restarts.pause_s(3605.0) == 16.0  # six of the ten are more than an hour ago


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (job_error(Exception("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")), True),
        (job_error(Exception("Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)")), True),
        (job_error(Exception("A shuffle map stage with indeterminate output was failed and retried. However,")), True),
        (job_error(Exception("An error occurred while trying to connect to the Java server")), True),
        (job_error(Exception("SparkException: Python worker failed to connect back.")), True),
        (lost_java(), True),
        (ps.OutputError("start: 'out': cannot be written; [Errno 28] No space left on device"), True),
        (ps.CheckpointError("start: 'ck' must be a folder that can be written; No space left on device; use"), True),
        (ps.OutputError("start: the function 'f' must take batch 1; it raised ValueError"), False),
        (ps.DataError("a file; No space left on device"), False),
        (ps.FunctionError("map 'x': raised ValueError: No space left on device"), False),
        (job_error(Exception("ModuleNotFoundError: No module named 'mine'")), False),
    ],
)
def test_what_may_pass(error: ps.PenstockError, passes: bool) -> None:
    assert may_pass(error) is passes


def test_an_error_is_told_by_what_went_wrong_and_not_by_what_was_called() -> None:
    said = (
        "An error occurred while calling o1.getResult.\n"
        ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org.apache\n"
        "Caused by: org.apache.spark.SparkException: No more\n\t... 3 more"
    )
    assert str(job_error(Exception(said))) == "job: Spark could not run it: org.apache.spark.SparkException: No more"


def test_what_restart_may_be(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    with pytest.raises(ps.GraphError, match=r"restart must be True .* or False; got 3"):
        averages(folder).start(folder / "out", checkpoint=folder / "ck", spark=spark, restart=3)


def test_a_full_disk_is_waited_for_and_an_error_in_code_is_not(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    left = [OSError(28, "No space left on device")] * 2
    pauses: list[float] = []

    def sink(table: Any, batch: int) -> None:
        if batch == 1 and left:
            raise left.pop()
        if batch == 3:
            raise ValueError("a mistake")
        done.append(batch)

    done: list[int] = []
    stream = averages(folder)
    handle = stream.start(sink, checkpoint=folder / "ck", spark=spark, files_per_batch=1, restart=True)
    assert handle.supervisor is not None
    handle.supervisor.pause = pauses.append
    while len(done) < 2:
        assert handle.status != "failed"
    assert (handle.restarts, pauses, done) == (2, [1.0, 2.0], [0, 1])
    fill(folder, range(2, 4))
    with pytest.raises(ps.OutputError, match="must take batch 3; it raised ValueError"):
        handle.await_termination(120)
    assert (handle.status, handle.restarts, done) == ("failed", 2, [0, 1, 2])


def test_a_stream_that_was_stopped_stays_so(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    stream = averages(folder)
    handle = stream.start(folder / "out", checkpoint=folder / "ck", spark=spark, restart=True)
    while handle.progress() is None:
        assert handle.exception is None
    handle.stop()
    assert (handle.status, handle.restarts, handle.await_termination(1)) == ("stopped", 0, True)
    assert written(folder) == rows(right(stream))
