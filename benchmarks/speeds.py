"""Speeds and their ratios, from the best of the repeats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.records import FIRST, Run, Speeds


def best_runs(runs: Iterable[Run]) -> dict[tuple[str, str], Run]:
    """The fastest run of each, in the order of the runs."""
    best: dict[tuple[str, str], Run] = {}
    for run in runs:
        key = (run.what, run.case)
        best[key] = max(best.get(key, run), run, key=lambda one: one.speed)
    return best


def best_speeds(runs: Iterable[Run]) -> dict[tuple[str, str], float]:
    return {key: run.speed for key, run in best_runs(runs).items()}


def penstock_over_peers(best: Speeds) -> dict[str, float]:
    """Penstock's speed over each peer's at each case."""
    own = {case: speed for (what, case), speed in best.items() if what == "penstock"}
    return {
        f"penstock/{what}@{case}": own[case] / speed
        for (what, case), speed in best.items()
        if case in own and what != "penstock"
    }


def slowest_over_fastest(best: Speeds) -> dict[str, float]:
    """Penstock's speed at its slowest case over that at its fastest."""
    own = [speed for (what, _), speed in best.items() if what == "penstock"]
    return {"fastest/slowest": min(own) / max(own)}


def over_best(best: Speeds, what: str, others: Sequence[str]) -> dict[str, float]:
    """The speed of one peer over that of the fastest of some others, at each case."""
    cases = [case for known, case in best if known == what]
    return {f"{what}/best@{case}": best[what, case] / max(best[other, case] for other in others) for case in cases}


def warm_over_cold(best: Speeds) -> dict[str, float]:
    warm, cold = (best.get((f"penstock-{state}", FIRST)) for state in ("warm", "cold"))
    return {} if warm is None or cold is None else {f"warm/cold@{FIRST}": warm / cold}
