"""A job on several numbers of executors: the curve of its time, and where it stops scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import ModelError, OutputError
from penstock.text import table
from penstock.tune.cluster import Cluster, DataSize, Point, point, whole
from penstock.tune.job_costs import JobCost, costs
from penstock.tune.job_profile import JobProfile

WORTHWHILE = 0.5
"""Below this efficiency, the speed-up over one executor for each executor, a job has stopped scaling."""
MOST_EXECUTORS = 1 << 13


@dataclass(frozen=True)
class Scaling:
    """What is predicted of some numbers of executors. `str` gives it as a table, `picture` as a curve.

    `stops_at` is the least number of executors at which each does less than half of what one alone would; None where
    that is beyond all that were looked at.
    """

    points: tuple[Point, ...]
    single: Point
    stops_at: int | None
    stops_by: str
    data: DataSize
    cluster: Cluster
    profile: JobProfile
    cost: JobCost

    def seconds(self, executors: int) -> float:
        """The predicted time on one of the numbers of executors that were asked for."""
        seconds = {each.executors: each.seconds for each in self.points}
        if executors not in seconds:
            raise ModelError(f"scale: seconds of {executors} executors were not asked for; got {sorted(seconds)}")
        return seconds[executors]

    def __str__(self) -> str:
        head = ("executors", "slots", "tasks", "seconds", "10 to 90 %", "speed-up", "efficiency", "MB each", "limit")
        lines = table(head, [_row(each, self.single) for each in self.points])
        if self.stops_at is None:
            return "\n".join([*lines, f"scales up to {MOST_EXECUTORS:,} executors and beyond"])
        where = f"stops scaling at {self.stops_at:,} executors (efficiency below {WORTHWHILE:.0%}): {self.stops_by}"
        return "\n".join([*lines, where])

    def charts(self) -> tuple[Any, ...]:
        """The time and the efficiency over the number of executors."""
        from penstock.report.chart import Chart, Series

        single, points = self.single.seconds, self.points
        note = "" if self.stops_at is None else f"Efficiency is below {WORTHWHILE:.0%} from {self.stops_at:,} on."
        times = (
            Series("predicted", tuple((p.executors, p.seconds) for p in points)),
            Series("if it scaled fully", tuple((p.executors, single / p.executors) for p in points), dashed=True),
        )
        shares = (Series("efficiency", tuple((p.executors, p.efficiency) for p in points)),)
        title = f"{self.data.bytes / 1e9:,.3g} GB of data"
        return (
            Chart(f"Time of the job, {title}", "executors", "seconds", times, log_x=True, log_y=True, note=note),
            Chart("Speed-up for each executor", "executors", "efficiency", shares, log_x=True),
        )

    def picture(self, path: str | Path) -> Path:
        """Write the curves to an SVG file. This needs the extra `plots`."""
        from penstock.report.chart import save

        return save(self.charts(), path)

    def _repr_html_(self) -> str | None:
        """The curves in a notebook; where nothing can draw them, None, and the table is shown."""
        from penstock.report.chart import figure

        try:
            return figure(self.charts())
        except OutputError:
            return None


def _row(each: Point, single: Point) -> tuple[str, ...]:
    return (
        f"{each.executors:,}",
        f"{each.slots:,}",
        f"{each.tasks:,}",
        f"{each.seconds:,.2f}",
        f"{each.low_s:,.2f} to {each.high_s:,.2f}",
        f"{single.seconds / each.seconds:,.2f}",
        f"{each.efficiency:.0%}",
        f"{each.memory_bytes / 1e6:,.0f}",
        each.limit,
    )


def predict_scaling(
    profile: JobProfile, executors: Sequence[int], data: DataSize, cluster: Cluster | None = None, *, seed: int = 0
) -> Scaling:
    """Predict a job from its profile on each of these numbers of executors."""
    check_executors(executors)
    cluster, cost = cluster or Cluster(), costs(profile)
    single = point(cost, data, cluster, 1, seed=seed)
    points = tuple(point(cost, data, cluster, count, seed=seed, single_s=single.seconds) for count in executors)
    stops, by = _stop(cost, data, cluster, single, seed)
    return Scaling(points, single, stops, by, data, cluster, profile, cost)


def check_executors(executors: Sequence[int]) -> None:
    """Refuse what is no list of numbers of executors."""
    if not isinstance(executors, Sequence) or isinstance(executors, str) or not executors:
        raise ModelError(f"scale: executors must be a list of whole numbers, as [1, 2, 8, 64]; got {executors!r}")
    for count in executors:
        if count is None:
            raise ModelError("scale: executors must be whole numbers of at least 1; got None")
        whole("executors", count)


def _stop(cost: JobCost, data: DataSize, cluster: Cluster, single: Point, seed: int) -> tuple[int | None, str]:
    """The least number of executors whose efficiency is too low, and what limits it there."""

    def at(count: int) -> Point:
        return point(cost, data, cluster, count, seed=seed, single_s=single.seconds)

    good, bad = 1, 2
    while (found := at(bad)).efficiency >= WORTHWHILE:
        good, bad = bad, 2 * bad
        if bad > MOST_EXECUTORS:
            return None, ""
    while bad - good > max(1, good // 50):
        middle = (good + bad) // 2
        tried = at(middle)
        if tried.efficiency >= WORTHWHILE:
            good = middle
        else:
            bad, found = middle, tried
    return bad, found.limit
