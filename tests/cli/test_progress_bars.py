from __future__ import annotations

import io

from rich.console import Console

from penstock.cli.progress_bars import Display, bars
from penstock.report.progress import Progress, StageProgress


def stage(done: int, total: int = 8, name: str = "stage 1") -> StageProgress:
    return StageProgress(name, done, total, items=1_500_000 * done, bytes=10_000_000 * done, seconds=0.5 * done)


def shown(*steps: Progress, is_terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=120, color_system=None)
    with Display(console) as display:
        for progress in steps:
            display(progress)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_plain_lines_tell_of_every_quarter_of_a_stage() -> None:
    text = shown(*(Progress((stage(done), stage(0, name="stage 2"))) for done in range(9)), is_terminal=False)
    assert text.splitlines() == [
        "stage 1: 2 of 8, 3 M items/s, 20 MB/s, 3 s left",
        "stage 1: 4 of 8, 3 M items/s, 20 MB/s, 2 s left",
        "stage 1: 6 of 8, 3 M items/s, 20 MB/s, 1 s left",
        "stage 1: 8 of 8, 3 M items/s, 20 MB/s",
    ]


def test_stages_that_are_done_at_once_have_one_line_each() -> None:
    done = Progress((stage(8), stage(2, 2, "stage 2")))
    assert [line.partition(":")[0] for line in shown(done, done, is_terminal=False).splitlines()] == [
        "stage 1",
        "stage 2",
    ]


def test_nothing_is_shown_of_a_job_without_tasks() -> None:
    assert shown(Progress(()), Progress((stage(0, 0),)), is_terminal=False) == ""


def test_a_terminal_has_a_bar_for_each_stage() -> None:
    progress = Progress((stage(4), stage(0, name="stage 2")))
    text = shown(progress, is_terminal=True)
    assert "stage 1" in text and "4 of 8" in text and "2 s left" in text and "━" in text
    console = Console(file=io.StringIO(), width=120)
    console.print(bars(progress))
    first, second = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "3 M items/s" in first and "20 MB/s" in first
    assert "0 of 8" in second and "left" not in second and "items/s" not in second
