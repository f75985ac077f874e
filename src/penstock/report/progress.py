"""How far a job is, as frozen records, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One stage: how many of its tasks are done, and what these have read in how many seconds of the clock.

    A task of the first stage reads one split of the source, a task of a later one what was sent to it.

    >>> stage = StageProgress("stage 1", done=10, total=40, items=3_000_000, bytes=210_000_000, seconds=2.0)
    >>> str(stage)
    'stage 1: 10 of 40, 1.5 M items/s, 105 MB/s, 6 s left'
    """

    name: str
    done: int
    total: int
    items: int
    bytes: int
    seconds: float
    late: int = 0

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total > 0 else 0.0

    @property
    def is_done(self) -> bool:
        return 0 < self.total <= self.done

    @property
    def items_per_s(self) -> float:
        return self.items / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """How long it takes still, if it goes on like this; None before the first task is done."""
        return self.seconds * (self.total - self.done) / self.done if 0 < self.done <= self.total else None

    @property
    def facts(self) -> tuple[str, str, str, str]:
        """In words: what is done of what, items and bytes a second, and the time left; empty where it is not known."""
        left = "" if self.left_s is None or self.is_done else f"{time_text(self.left_s)} left"
        speeds = (speed_text(self.items_per_s, "items/s"), speed_text(self.bytes_per_s, "B/s"))
        return f"{self.done:,} of {self.total:,}", *(speeds if self.done else ("", "")), left

    def __str__(self) -> str:
        late = f"{self.late:,} late" if self.late else ""
        return f"{self.name}: {', '.join(filter(None, (*self.facts, late)))}"


@dataclass(frozen=True, slots=True)
class Progress:
    """A job: its stages, from the source on. One that has not begun has 0 seconds."""

    stages: tuple[StageProgress, ...]

    @property
    def is_done(self) -> bool:
        return all(stage.is_done for stage in self.stages)


def speed_text(number: float, unit: str) -> str:
    """A speed with at most three digits: `1.5 M items/s`, `105 MB/s`.

    >>> speed_text(940, "items/s"), speed_text(1_234_567, "B/s"), speed_text(0, "B/s")
    ('940 items/s', '1.23 MB/s', '0 B/s')
    """
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            space = " " if " " in unit or unit[0].islower() else ""
            return f"{_digits(number / size)} {prefix}{space}{unit}"
    return f"{number:.0f} {unit}"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 99.95 else f"{number:.3g}"


def files_text(waiting: int) -> str:
    """How many files wait.

    >>> files_text(0), files_text(1), files_text(1200)
    ('0 files waiting', '1 file waiting', '1,200 files waiting')
    """
    return f"{waiting:,} file{'' if waiting == 1 else 's'} waiting"


def time_text(seconds: float) -> str:
    """A time in whole seconds, minutes and hours.

    >>> time_text(5.2), time_text(125), time_text(7260)
    ('5 s', '2 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
