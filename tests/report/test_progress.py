from __future__ import annotations

import dataclasses

import pytest

from penstock.report.progress import Progress, StageProgress, speed_text, time_text


def test_a_stage_that_has_not_begun() -> None:
    stage = StageProgress("stage 1", 0, 8, 0, 0, 0.0)
    assert (stage.share, stage.left_s, stage.items_per_s, stage.bytes_per_s) == (0.0, None, 0.0, 0.0)
    assert str(stage) == "stage 1: 0 of 8"


def test_a_stage_that_is_done() -> None:
    stage = StageProgress("stage 1", 8, 8, 800, 8000, 2.0)
    assert (stage.share, stage.left_s, stage.is_done) == (1.0, 0.0, True)
    assert str(stage) == "stage 1: 8 of 8, 400 items/s, 4 kB/s"


def test_tasks_that_ran_twice_change_nothing_of_the_share() -> None:
    stage = StageProgress("stage 1", 9, 8, 800, 8000, 2.0)
    assert (stage.share, stage.is_done, stage.left_s) == (1.0, True, None)
    assert not StageProgress("stage 1", 0, 0, 0, 0, 0.0).is_done


def test_a_job_is_done_with_its_last_stage() -> None:
    done, open_ = StageProgress("a", 1, 1, 1, 1, 1.0), StageProgress("b", 0, 1, 0, 0, 0.0)
    assert Progress((done, done)).is_done and not Progress((done, open_)).is_done


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Progress(()).stages = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B/s"),
        (999, "999 B/s"),
        (999.6, "1 kB/s"),
        (1234, "1.23 kB/s"),
        (99_960_000, "100 MB/s"),
        (5e12, "5000 GB/s"),
    ],
)
def test_speeds(number: float, text: str) -> None:
    assert speed_text(number, "B/s") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (90061, "25 h 1 min")],
)
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
