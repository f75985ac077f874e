"""What a micro-batch did, from what its tasks counted, and its results in the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.plan.stages import Cut
from penstock.spark.driver.results import JobOutput
from penstock.spark.wire import SenderOrigin, TaskCounts, TaskResult

STATE_COUNTS = ("keys", "pages", "touched", "written", "state_bytes")
"""What the tasks count of their state."""


def origins_of(counts: Sequence[TaskCounts]) -> list[SenderOrigin]:
    """What the first stage has read."""
    return [origin for each in counts if each.stage == 0 for origin in each.origins]


def batch_counts(counts: Sequence[TaskCounts]) -> dict[str, int]:
    """What a micro-batch did, in numbers."""
    first = [each for each in counts if each.stage == 0]
    totals = {name: sum(each.state.get(name, 0) for each in counts) for name in STATE_COUNTS}
    return {
        "items": sum(each.items for each in first),
        "files": sum(each.is_data for each in origins_of(counts)),
        "late": sum(each.statistics.late for each in counts),
    } | totals


def results_in_order(output: JobOutput, cut: Cut) -> list[TaskResult]:
    """The results of a micro-batch: where tasks have read files and given them, in the order of these."""
    results = output.results.get(0, [])
    if cut.is_whole or not any(each.leaf is not None for each in cut.stages[0].outputs):
        return results
    origins = {each.sender: each.origins[0] for each in output.counts if each.stage == 0}
    return sorted(results, key=lambda result: (origins[result.sender], result.sequence))
