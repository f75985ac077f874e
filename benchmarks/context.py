"""Three ways to tell a stage its region: taxi sparse, sparse then dense, and dense (figure 8 of the paper); and more.

A line is a region of about 1,400 characters in stage 1 and of about 45 pairs in stage 2, so at the paper's width of 128
a sparse context leaves few gaps in the first stage and many in the second. Every run tells the share of full ensembles
of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

import penstock as ps
from benchmarks.benchmark import Benchmark, Report
from benchmarks.records import Answer, Case, Peer, Run, Target
from benchmarks.speeds import best_runs, over_best
from benchmarks.taxi_local import by_penstock, bytes_of
from penstock.engine import run as engine
from penstock.examples import taxi
from penstock.report.chart import Chart

WIDTHS = {"": 128, "wide-": 16_384}
"""By how the names of their cases begin."""
LINES: dict[str, dict[str, tuple[int, ...]]] = {
    "tiny": {"": (4, 8), "wide-": (4, 8)},
    "small": {"": (30, 60, 120), "wide-": (500, 1000, 2000)},
    "full": {"": (100, 200, 400, 800), "wide-": (2000, 4000, 8000, 16_000)},
}
GIVEN = ("sparse", "sparse-dense", "dense", "lane")
VERSIONS = (*GIVEN, "auto")


def cases(scale: str) -> Iterator[Case]:
    for prefix, width in WIDTHS.items():
        for lines in LINES[scale][prefix]:
            yield case(f"{prefix}{lines}", data(lines), width)


def data(lines: int) -> pa.Table:
    return pa.Table.from_batches(taxi.pieces(lines)).combine_chunks()


def case(name: str, lines: pa.Table, width: int) -> Case:
    items = bytes_of(lines)
    unfused = (Peer(version, partial(by_version, lines, version, width), items) for version in VERSIONS)
    return Case(name, (Peer("fused", partial(by_penstock, lines), items), *unfused))


def by_version(lines: pa.Table, version: str, width: int) -> Answer:
    run = prepared(lines, version, width)
    answer = run.collect()
    statistics = run.statistics()
    stages = {"stage_1": statistics.node("filter"), "stage_2": statistics.node("flat_map")}
    return Answer(answer, {f"{name}_full_share": node.full_share for name, node in stages.items()})


def prepared(lines: pa.Table, version: str, width: int) -> engine.Run:
    """The application as one version of it. In `sparse-dense`, what leaves stage 1 is marked with its line."""
    characters = taxi.characters(ps.from_arrow(lines))
    found = characters.filter(taxi.is_claim)
    parsed = taxi.parse(found)
    mixed = {characters: "sparse", found: "dense", parsed: "dense"}
    context = mixed if version == "sparse-dense" else version
    run: Any = parsed.close("trip").prepare(fuse=False, width=width, context=context)
    return run  # type: ignore[no-any-return]


def figures(report: Report) -> dict[str, tuple[Chart, ...]]:
    return {"figure-8.svg": tuple(chart(report, prefix) for prefix in WIDTHS)}


def chart(report: Report, prefix: str) -> Chart:
    names = [f"{prefix}{lines}" for lines in LINES[report.scale][prefix]]
    lines = [report.line(version, names, _point) for version in VERSIONS]
    lines.append(report.line("fused", names, _point, dashed=True))
    title = f"Taxi: time against input size, width {WIDTHS[prefix]:,}"
    note = f"Unfused but for the dashed line. Scale {report.scale}, one core, the best run of each. "
    return Chart(title, "input (MB)", "time (s)", tuple(lines), note=note + shares(report, names[-1]))


def _point(run: Run) -> tuple[float, float]:
    return run.items / 1e6, run.seconds


def shares(report: Report, name: str) -> str:
    """The shares of full ensembles of the three versions of the paper at a case, in words."""
    best = best_runs(report.runs)
    told = []
    for version in GIVEN[:3]:
        facts = best[version, name].facts
        told.append(f"{facts['stage_1_full_share']:.0%} and {facts['stage_2_full_share']:.0%} ({version})")
    return f"Full ensembles of stages 1 and 2: {', '.join(told)}."


BENCHMARK = Benchmark(
    name="context",
    about="taxi with its regions told in every way, and how full the ensembles of its stages were",
    unit="MB/s",
    cases=cases,
    targets=(Target("auto/best", 0.9),),
    ratios=lambda best: over_best(best, "auto", GIVEN),
    figures=figures,
)
