"""A benchmark, and the report of what it measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.records import FIRST, Case, Run, Speeds, Target, Told, ignored
from benchmarks.speeds import best_runs, best_speeds, warm_over_cold
from penstock.errors import DataError
from penstock.report import chart

SCALES = ("tiny", "small", "full", "double")
"""`tiny` is for tests: its times mean nothing. `double` is twice `full`, for the benchmarks that have it."""
REPEATS = 5
FIRST_REPEATS = 2


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured. Every ratio is a speed over a speed: more is better.

    `speeds` are those that have a target of their own, in items a second. `stopped` names the case at which somebody
    had enough; the ones before it were measured.
    """

    name: str
    scale: str
    runs: tuple[Run, ...]
    ratios: dict[str, float]
    speeds: dict[str, float]
    stopped: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scale": self.scale,
            "runs": [run.as_dict() for run in self.runs],
            "ratios": self.ratios,
            "speeds": self.speeds,
            "stopped": self.stopped,
        }

    def line(
        self, what: str, cases: Iterable[str], point: Callable[[Run], tuple[float, float]], dashed: bool = False
    ) -> chart.Series:
        """The line of one peer over some cases: a point for the fastest run at each."""
        best = best_runs(self.runs)
        return chart.Series(what, tuple(point(best[what, case]) for case in cases if (what, case) in best), dashed)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its cases at a scale, what is compared, and what is aimed at.

    `ratios` makes ratios of the best speeds, and `more` further ones of the runs. `first` names the function without
    arguments that gives a first result, as `module:function`, where that is measured. `figures` draws a report: charts
    by the name of their file. `repeats` are those of a scale where nothing is said; `scale` is the one where none is.
    """

    name: str
    about: str
    unit: str
    cases: Callable[[str], Iterable[Case]]
    targets: tuple[Target, ...]
    ratios: Callable[[Speeds], dict[str, float]]
    first: str | None = None
    figures: Callable[[Report], Mapping[str, Sequence[chart.Chart]]] | None = None
    more: Callable[[Sequence[Run]], dict[str, float]] | None = None
    cores: int = 1
    scales: tuple[str, ...] = ("tiny", "small", "full")
    scale: str = "small"
    repeats: Mapping[str, int] = field(default_factory=dict)

    def run(
        self, scale: str | None = None, repeats: int | None = None, told: Told = ignored, only: Sequence[str] = ()
    ) -> Report:
        """Measure all cases, one after the other, on the benchmark's cores. What begins is `told`, in a few words.

        `only` are patterns of names, as `touch-*`: then just the cases that match one. An interrupt ends it, with a
        report of the cases that were measured, if any.
        """
        scale = scale or self.scale
        if scale not in self.scales:
            raise DataError(f"bench: the scale of {self.name} must be one of {', '.join(self.scales)}; got {scale!r}")
        repeats = repeats or self.repeats.get(scale, REPEATS)
        runs: list[Run] = []
        begun, stopped = "the first", None
        try:
            with measure.on_cores(self.cores):
                for case in self._wanted(scale, only):
                    begun = case.name
                    runs += measure.measure(case, repeats, told)
                if self.first is not None and _matches(FIRST, only):
                    begun = FIRST
                    runs += measure.first_results(self.first, min(repeats, FIRST_REPEATS))
        except KeyboardInterrupt:
            if not runs:
                raise
            stopped = begun
        best = best_speeds(runs)
        speeds = {f"{what}@{case}": speed for (what, case), speed in best.items()}
        aimed = {name: speed for name, speed in speeds.items() if self.target(name) is not None}
        more = {} if self.more is None else self.more(runs)
        return Report(self.name, scale, tuple(runs), self.ratios(best) | warm_over_cold(best) | more, aimed, stopped)

    def _wanted(self, scale: str, only: Sequence[str]) -> Iterator[Case]:
        known = [FIRST] if self.first is not None else []
        for case in self.cases(scale):
            known.append(case.name)
            if _matches(case.name, only):
                yield case
        if not any(_matches(name, only) for name in known):
            raise DataError(
                f"bench: a pattern must match a case of {self.name}; got {', '.join(map(repr, only))}, and there are "
                f"{', '.join(known)}"
            )

    def target(self, name: str) -> float | None:
        """The least that this ratio or speed must be, if anything is aimed at."""
        return next((target.least for target in self.targets if target.covers(name)), None)

    def draw(self, report: Report, folder: Path) -> list[Path]:
        """Write the figures of a report into a folder."""
        drawn = {} if self.figures is None else self.figures(report)
        return [chart.save(charts, folder / name) for name, charts in drawn.items()]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is meant; all are where there are no patterns.

    >>> _matches("touch-100", ["touch-*"]), _matches("growth", ["touch-*"]), _matches("growth", [])
    (True, False, True)
    """
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
