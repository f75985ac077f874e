"""A live display of how far a job is: a bar a stage on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from penstock.report.progress import Progress, StageProgress

BAR_WIDTH = 24
STEPS = 4
"""Plain lines tell of a stage when another of so many parts of it is done."""


class LiveDisplay:
    """Something that is drawn on a terminal while a `with` block lasts; elsewhere nothing is drawn."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, transient=True, refresh_per_second=8) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()


class Display(LiveDisplay):
    """Takes each `Progress` of a job, from any thread, and shows it until the job ends.

    On a terminal, what it has drawn is gone at the end. Invariant: `told` are the parts of each stage, by its name,
    that plain lines have told of.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.told: dict[str, int] = {}

    def __call__(self, progress: Progress) -> None:
        if self.live is not None:
            self.live.update(bars(progress))
            return
        for stage in progress.stages:
            part = STEPS if stage.is_done else int(STEPS * stage.share)
            if part > self.told.get(stage.name, 0):
                self.told[stage.name] = part
                self.console.print(str(stage), soft_wrap=True, markup=False)


def bars(progress: Progress) -> Table:
    """One row a stage: its name, a bar, and the facts."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    for stage in progress.stages:
        table.add_row(stage.name, _bar(stage), *stage.facts, style="" if stage.seconds > 0 else "dim")
    return table


def _bar(stage: StageProgress) -> ProgressBar:
    return ProgressBar(total=max(stage.total, 1), completed=min(stage.done, stage.total), width=BAR_WIDTH)
