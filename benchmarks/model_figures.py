"""The figures of the benchmark of the model: what was predicted, dashed, against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.benchmark import Report
from benchmarks.records import Run
from benchmarks.speeds import best_runs
from penstock.report.chart import Chart, Series

Number = Callable[[str], float]
"""Where a case stands on the x axis."""


def figures(report: Report) -> dict[str, tuple[Chart, ...]]:
    mappings = list(dict.fromkeys(run.case for run in report.runs if run.case.startswith("mapping-")))
    return {
        "figure-24.svg": (mutex_chart(report), busy_chart(report)),
        "figure-25.svg": tuple(mapping_chart(report, case) for case in mappings),
        "figure-28.svg": (risk_chart(report), gain_chart(report), radar_chart(report), variance_chart(report)),
        "model-sizes.svg": (buffer_chart(report), block_chart(report)),
        "simulator.svg": (simulator_chart(report),),
        "clusters.svg": tuple(cluster_chart(report, case) for case in ("taxi", "keyed")),
    }


def pair(what: str, runs: Sequence[Run], at: Sequence[float], unit: float = 1.0) -> tuple[Series, Series]:
    """Two lines of the same runs: what was measured and what was predicted."""
    measured = tuple((x, run.speed / unit) for x, run in zip(at, runs, strict=True))
    predicted = tuple((x, run.facts["predicted"] / unit) for x, run in zip(at, runs, strict=True))
    return Series(f"{what}measured", measured), Series(f"{what}predicted", predicted, True)


def _of(report: Report, what: str, prefix: str) -> dict[str, Run]:
    """The best run of one way at each case whose name begins so, by what its name goes on with."""
    best = best_runs(report.runs)
    return {
        case.removeprefix(prefix): run for (who, case), run in best.items() if who == what and case.startswith(prefix)
    }


def _ways(report: Report, prefix: str, number: Number, ways: Sequence[str], unit: float) -> tuple[Series, ...]:
    lines: list[Series] = []
    for what in ways:
        found = _of(report, what, prefix)
        lines += pair(f"{what}, ", list(found.values()), [number(name) for name in found], unit)
    return tuple(lines)


def mutex_chart(report: Report) -> Chart:
    found = _of(report, "mapped", "mutex-")
    lines = pair("", list(found.values()), [float(name) for name in found], 1e3)
    note = f"Random graphs with large tasks on two cores, by a random mapping. Scale {report.scale}."
    return Chart("Mutual exclusion", "graph", "thousand items/s", lines, note=note)


def busy_chart(report: Report) -> Chart:
    """How busy the cores are in the same graphs."""
    found = _of(report, "mapped", "mutex-")
    lines = tuple(
        Series(
            name,
            tuple((float(number), run.facts[f"busy_{name}"]) for number, run in found.items()),
            name == "predicted",
        )
        for name in ("measured", "predicted")
    )
    note = "The share of the time in which the cores work, in the mean of both."
    return Chart("Utilisation", "graph", "share of the time", lines, note=note)


def mapping_chart(report: Report, case: str) -> Chart:
    """All mappings of a graph, from the slowest to the fastest as measured."""
    runs = sorted((run for (_, at), run in best_runs(report.runs).items() if at == case), key=lambda run: run.speed)
    lines = pair("", runs, [float(rank) for rank in range(1, len(runs) + 1)], 1e3)
    title = f"Mappings of graph {case.removeprefix('mapping-')}"
    note = f"Mappings from the slowest to the fastest as measured. Scale {report.scale}."
    return Chart(title, "rank", "thousand items/s", lines, note=note)


def risk_chart(report: Report) -> Chart:
    lines = _ways(report, "var-", float, ("pipeline", "flexible"), 1e6)
    return Chart("Value at risk", "stocks", "M steps/s", lines, log_x=True, note=_scale(report))


def radar_chart(report: Report) -> Chart:
    """CFAR, by the work for a target at each share of them; the shares one after the other."""
    names = list(_of(report, "pipeline", "cfar-"))
    lines = _ways(report, "cfar-", lambda name: float(names.index(name) + 1), ("pipeline", "flexible"), 1e3)
    told = "; ".join(f"{at}: {name.replace('-', ' % targets, ')} µs" for at, name in enumerate(names, 1))
    return Chart("CFAR", "data set", "thousand rows/s", lines, note=told)


def variance_chart(report: Report) -> Chart:
    lines = _ways(report, "variance-", float, ("pipeline",), 1e3)
    return Chart("Variance", "zeros (%)", "thousand images/s", lines, note=_scale(report))


def gain_chart(report: Report) -> Chart:
    """What each application gains by a flexible node: figure 28."""
    best = best_runs(report.runs)
    names = [case for (what, case) in best if what == "flexible" and not case.startswith("block-")]
    measured, predicted = [], []
    for at, case in enumerate(names, 1):
        plain, flexible = best["pipeline", case], best["flexible", case]
        measured.append((float(at), flexible.speed / plain.speed))
        predicted.append((float(at), flexible.facts["predicted"] / plain.facts["predicted"]))
    lines = Series("measured", tuple(measured)), Series("predicted", tuple(predicted), True)
    told = "; ".join(f"{at}: {case}" for at, case in enumerate(names, 1))
    return Chart("Speed-up by a flexible node", "application", "speed-up", lines, note=told)


def buffer_chart(report: Report) -> Chart:
    found = _of(report, "buffered", "buffer-")
    lines = pair("", list(found.values()), [float(name) for name in found], 1e3)
    note = f"Two nodes on two cores, whose work for a block is drawn from an exponential distribution. {_scale(report)}"
    return Chart("Speed against the buffer", "blocks that it holds", "thousand items/s", lines, log_x=True, note=note)


def block_chart(report: Report) -> Chart:
    lines = _ways(report, "block-", float, ("pipeline", "flexible"), 1e6)
    note = f"Value at risk, 64 stocks. {_scale(report)}"
    return Chart("Speed against the block", "items in a block", "M steps/s", lines, log_x=True, note=note)


def simulator_chart(report: Report) -> Chart:
    found = _of(report, "simulator", "net-")
    points = tuple((run.facts["transitions"], 1e9 / run.speed) for run in found.values())
    line = Series("simulator", points)
    return Chart("The simulator", "transitions of the net", "ns a firing", (line,), log_x=True, note=_scale(report))


def cluster_chart(report: Report, job: str) -> Chart:
    """The seconds of a job on each platform, at each size."""
    lines: list[Series] = []
    platforms: dict[str, None] = {}
    for size in ("small", "large"):
        found = _of(report, "cluster", f"{job}-{size}-")
        platforms |= dict.fromkeys(found)
        at = {name: float(number) for number, name in enumerate(platforms, 1)}
        lines.append(Series(f"{size}, measured", tuple((at[name], run.seconds) for name, run in found.items())))
        predicted = tuple((at[name], 1 / run.facts["predicted"]) for name, run in found.items())
        lines.append(Series(f"{size}, predicted", predicted, True))
    told = "; ".join(f"{number}: {name}" for number, name in enumerate(platforms, 1))
    return Chart(f"On Spark: {job}", "platform", "seconds", tuple(lines), note=told)


def _scale(report: Report) -> str:
    return f"Two cores. Scale {report.scale}."
