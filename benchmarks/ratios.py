"""What the benchmarks on Spark make of their runs: ratios to roads, growth with the data, and memory."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.records import Run, Speeds, Target
from benchmarks.speeds import best_runs, penstock_over_peers

START, QUARTER = "start", "quarter"
"""What Penstock's own runs on next to nothing and on a quarter of the data are called."""
MEMORY = "worker_mb"
GROWTH_MOST = 4.4
MEMORY_MOST = 1000.0

COMMON_TARGETS = (Target("4/growth", 4 / GROWTH_MOST), Target("1GB/worker", 1.0))


def over_roads(best: Speeds) -> dict[str, float]:
    """Penstock's speed over each road's. Of several formulations, `road:formulation`, the fastest counts."""
    roads: dict[tuple[str, str], float] = {}
    for (what, case), speed in best.items():
        if what not in (START, QUARTER):
            road = what.partition(":")[0], case
            roads[road] = max(roads.get(road, 0.0), speed)
    return penstock_over_peers(roads)


def growth_and_memory(runs: Sequence[Run]) -> dict[str, float]:
    """How the time grows, and how much memory a worker takes, each as a ratio of which more is better.

    `4/growth`: four times the data should take four times the time beyond that of next to nothing. `1GB/worker`: how
    many times the largest peak of a worker in any run goes into a gigabyte.
    """
    best = best_runs(runs)
    found = {}
    for case in dict.fromkeys(run.case for run in runs):
        times = [best[what, case].seconds for what in (START, QUARTER, "penstock") if (what, case) in best]
        if len(times) == 3:
            start, quarter, whole = times
            found[f"4/growth@{case}"] = 4 * (quarter - start) / (whole - start)
        peaks = [
            run.facts[MEMORY] for run in runs if (run.what, run.case) == ("penstock", case) and MEMORY in run.facts
        ]
        if peaks:
            found[f"1GB/worker@{case}"] = MEMORY_MOST / max(peaks)
    return found
