"""Flexible filters on two cores: each application as a pipeline, and with its bottleneck made flexible.

`one` is the application in one loop on one core, `pipeline` its filters shared out to two cores as well as can be, by a
profile, and `flexible` the same with one node flexible: the one that gains the most by it in the profile, as
`flexible="auto"` chooses it, or none. The *ideal* is what that would gain if copies cost nothing and were never idle;
`flexible/ideal` is what was gained over that. Where none is chosen, `forced` makes the dearest node flexible all the
same.

Cases: `dedup`, `jpeg`, `des`, `var-64` (by stocks), `cfar-7.3-32` (by the share of targets in percent and the work for
each in microseconds): table III of the paper. `work-1000` (by the nanoseconds that the bottleneck takes for an item):
its figure 22. `block-1024`: value at risk in blocks of so many items. `passing-1000`: as `work-1000`, in blocks of
4,096 items, for what it costs to hand these out. `moving`: the bottleneck moves at half time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import flexible_made as made
from benchmarks.benchmark import Benchmark, Report
from benchmarks.records import Answer, Case, Peer, Run, Speeds, Target
from benchmarks.speeds import best_runs, best_speeds
from examples import cfar, dedup, des, jpeg, value_at_risk
from penstock import tune
from penstock.graph import nodes as n
from penstock.plan.balance import balanced, choose, dearest, loops_of
from penstock.plan.node_profile import Profile
from penstock.plan.segment import Segment, inside
from penstock.report.chart import Chart, Series

CORES = 2
STOCKS = (16, 32, 64, 96, 128, 160)
CFAR = ((7.3, 16), (7.3, 32), (7.3, 63), (1.3, 16), (1.3, 32), (1.3, 63))
BLOCKS = (64, 256, 1024, 4096, 16_384)
PASSED, PASSING_NS = 4096, (1000, 3000, 10_000)
"""A block whose way through split and merge is measured, and what the bottleneck takes for an item of it."""
BURST = 1.5


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of each: bytes to pack and to encrypt, pixels, walks, rows, seconds of the made pipelines, and sizes."""

    dedup: int
    des: int
    jpeg: int
    walks: int
    rows: int
    seconds: float
    stocks: tuple[int, ...] = STOCKS
    cfar: tuple[tuple[float, int], ...] = CFAR
    blocks: tuple[int, ...] = BLOCKS
    work_ns: tuple[int, ...] = made.WORK_NS
    passing_ns: tuple[int, ...] = PASSING_NS


AT = {
    "tiny": Scale(1 << 18, 1 << 16, 1 << 14, 40, 200, 0.01, (16,), CFAR[:1], (64,), made.WORK_NS[:1], PASSING_NS[:1]),
    "small": Scale(48 << 20, 64 << 20, 16 << 20, 40_000, 20_000, 1.0, (16, 64, 128), CFAR[:4], BLOCKS),
    "full": Scale(160 << 20, 256 << 20, 64 << 20, 100_000, 60_000, 3.0),
}


@dataclass(frozen=True)
class Flexed:
    """A graph with its profile: how it is shared out, the node that is to be flexible, and what is to be gained."""

    leaf: ps.Stream
    items: int
    profile: Profile
    block: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def loops(self) -> tuple[Segment, ...]:
        return loops_of((self.leaf.node,))

    @property
    def node(self) -> tuple[n.GraphNode, bool]:
        """The node that gains the most by copies, and whether it is to gain something; else the dearest that can."""
        chosen = choose(self.loops, self.profile, CORES).flexible
        found = chosen or dearest(self.loops, self.profile)
        assert found is not None
        return found, chosen is not None

    @property
    def ideal(self) -> float:
        """How much faster the pipeline is to be with that node flexible, by the profile, if copies cost nothing."""
        costs, (node, _) = self.profile.costs(self.loops), self.node
        homes, loads, own = balanced(self.loops, costs, CORES), [0.0] * CORES, 0.0
        for loop, cost in zip(self.loops, costs, strict=True):
            loads[homes[inside(loop)[0]]] += cost
            own += cost * (loop.only is node)
        rest = max(load - own * (core == homes[node]) for core, load in enumerate(loads))
        return max(loads) / max(sum(loads) / CORES, rest)

    @property
    def ways(self) -> dict[str, dict[str, Any]]:
        """The options of each way to run it."""
        node, gains = self.node
        on_two = {"cores": CORES, "mapping": self.profile, "block_items": self.block}
        forced = {**on_two, "flexible": {ps.Stream(node): 1}}
        found = {"one": self.options, "pipeline": on_two, "flexible": forced}
        return found if gains else {**found, "flexible": {**on_two, "flexible": "auto"}, "forced": forced}

    def peers(self) -> Iterator[Peer]:
        _, gains = self.node
        ideals = {"flexible": self.ideal if gains else 1, "forced": self.ideal}
        for what, options in self.ways.items():
            yield Peer(what, partial(run, self.leaf, options, ideals.get(what)), self.items)


Made = Callable[[], Flexed]


def flexed_case(name: str, make: Made) -> Case:
    return Case(name, lambda: make().peers())


def run(leaf: ps.Stream, options: dict[str, Any], ideal: float | None = None) -> Answer:
    """The answer, and with an ideal, what share of all work it was to hand items out and put them in order."""
    planned: Any = leaf.prepare(spark=False, **options)
    table = planned.collect()
    if ideal is None:
        return Answer(table)
    nodes = planned.statistics().nodes
    total = sum(node.seconds for node in nodes)
    passing = sum(node.seconds for node in nodes if node.name.startswith(("split of ", "merge of ")))
    helped = sum(node.items for node in nodes if " (copy " in node.name)
    return Answer(table, {"ideal": ideal, "passing": passing / total, "helped": helped})


def flexed(
    leaf: ps.Stream, items: int, sample: int, width: int = 4096, block: int | None = None, **options: Any
) -> Flexed:
    return Flexed(leaf, items, tune.profile(leaf, sample, width=width), block, options)


# The cases


def cases(scale: str) -> Iterator[Case]:
    at = AT[scale]
    with tempfile.TemporaryDirectory() as folder:
        for name, graph in applications(at, Path(folder)):
            yield flexed_case(name, graph)
    for work in at.work_ns:
        yield flexed_case(f"work-{work}", partial(bottleneck, at, work))
    for block in at.blocks:
        yield flexed_case(f"block-{block}", partial(risk, at, 64, block))
    for work in at.passing_ns:
        yield flexed_case(f"passing-{work}", partial(bottleneck, at, work, PASSED))
    yield Case("moving", partial(made.moving_peers, at.seconds, CORES))


def applications(at: Scale, folder: Path) -> Iterator[tuple[str, Made]]:
    """The five applications, by the name of the case. Data that lie in files are written to the folder."""
    yield "dedup", partial(packing, at, folder / "dedup")
    yield "jpeg", partial(pictures, at, folder / "jpeg")
    yield "des", partial(encryption, at, folder / "des")
    for stocks in at.stocks:
        yield f"var-{stocks}", partial(risk, at, stocks)
    for share, work in at.cfar:
        yield f"cfar-{share}-{work}", partial(radar, at, share, work)


def packing(at: Scale, folder: Path) -> Flexed:
    folder.mkdir()
    dedup.generate(folder, at.dedup, duplicates=0.3)
    return flexed(dedup.build(dedup.read(folder)), at.dedup, 32, 64)


def pictures(at: Scale, folder: Path) -> Flexed:
    folder.mkdir()
    jpeg.generate(folder, at.jpeg)
    return flexed(jpeg.build(jpeg.read(folder)), at.jpeg // 64, 1 << 10)


def encryption(at: Scale, folder: Path) -> Flexed:
    folder.mkdir()
    des.generate(folder, at.des)
    return flexed(des.build(des.read(folder)), at.des // 8, 1 << 19, 1 << 16)


def risk(at: Scale, stocks: int, block: int | None = None) -> Flexed:
    table = pa.Table.from_batches(value_at_risk.pieces(at.walks))
    leaf = value_at_risk.build(ps.from_arrow(table), stocks=stocks)
    return flexed(leaf, table.num_rows, 1 << 15, 4096, block)


def radar(at: Scale, share: float, work_us: int) -> Flexed:
    table = pa.Table.from_batches(cfar.pieces(at.rows, share=share / 100, burst=BURST))
    leaf = cfar.build(ps.from_arrow(table), work_us=work_us)
    return flexed(leaf, table.num_rows, 1 << 12, 128)


def bottleneck(at: Scale, work_ns: int, block: int | None = None) -> Flexed:
    items = made.items_for(at.seconds, work_ns)
    return flexed(made.shared(items, work_ns), items, 1 << 16, block=block)


# Ratios and figures


def ratios(best: Speeds) -> dict[str, float]:
    found: dict[str, float] = {}
    for what, case in best:
        if what == "flexible":
            found[f"flexible/pipeline@{case}"] = best[what, case] / best["pipeline", case]
            if ("one", case) in best:
                found[f"flexible/one@{case}"] = best[what, case] / best["one", case]
    return found


def more(runs: Sequence[Run]) -> dict[str, float]:
    """What was gained over the ideal, and what was left of all work for passing items on."""
    speeds, found = best_speeds(runs), {}
    for (what, case), each in best_runs(runs).items():
        if what == "flexible":
            gain = speeds[what, case] / speeds["pipeline", case]
            found[f"flexible/ideal@{case}"] = gain / each.facts["ideal"]
            found[f"work/all@{case}"] = 1 - each.facts["passing"]
    return found


def figures(report: Report) -> dict[str, tuple[Chart, ...]]:
    return {"flexible.svg": (work_chart(report), block_chart(report)), "figure-23.svg": (histogram(),)}


def _gains(report: Report, prefix: str) -> dict[int, str]:
    names = {run.case for run in report.runs if run.case.startswith(prefix)}
    return {int(name.removeprefix(prefix)): name for name in sorted(names, key=lambda name: int(name[len(prefix) :]))}


def work_chart(report: Report) -> Chart:
    """Figure 22: the gain against what the bottleneck takes for an item."""
    by_work = _gains(report, "work-")
    gains = tuple((float(work), report.ratios[f"flexible/pipeline@{name}"]) for work, name in by_work.items())
    best = best_runs(report.runs)
    ideal = tuple((float(work), best["flexible", name].facts["ideal"]) for work, name in by_work.items())
    lines = (Series("flexible", gains), Series("ideal", ideal, True))
    note = f"Blocks that take about 25 ms, two cores. Scale {report.scale}."
    return Chart(
        "What a flexible bottleneck gains", "bottleneck (ns an item)", "speed-up", lines, log_x=True, note=note
    )


def block_chart(report: Report) -> Chart:
    by_block = _gains(report, "block-")
    best = best_runs(report.runs)
    lines = tuple(
        Series(what, tuple((float(block), best[what, name].speed / 1e6) for block, name in by_block.items()))
        for what in ("pipeline", "flexible")
    )
    note = f"Value at risk, 64 stocks, two cores. Scale {report.scale}."
    return Chart("Speed against the size of a block", "items in a block", "M steps/s", lines, log_x=True, note=note)


def histogram() -> Chart:
    """Figure 23: how long the rows of CFAR take, at 7.3 % targets and 32 µs for each."""
    table = pa.Table.from_batches(cfar.pieces(4000, share=0.073, burst=BURST))
    leaf = cfar.build(ps.from_arrow(table), work_us=32)
    samples = next(
        node.samples
        for node in tune.profile(leaf, 4000, width=1).nodes
        if "kinds" in node.name and "cells" in node.name
    )
    counts, edges = np.histogram(1e6 * np.array(samples), 40)
    points = tuple((float(at), float(count)) for at, count in zip((edges[1:] + edges[:-1]) / 2, counts, strict=True))
    note = f"Of {len(samples):,} rows of 114 cells; 7.3 % targets, 32 µs for each."
    return Chart("Work for a row of CFAR", "µs", "rows", (Series("find targets", points),), note=note)


def _targets() -> Iterator[Target]:
    for case in ("dedup", "jpeg", *(f"var-{stocks}" for stocks in STOCKS if stocks >= 64)):
        yield Target(f"flexible/ideal@{case}", 0.93)
    for share, work in CFAR:
        if share == 7.3:
            yield Target(f"flexible/ideal@cfar-{share}-{work}", 0.93)
    for case in ("des", "cfar-1.3-16", f"work-{made.WORK_NS[0]}"):
        yield Target(f"flexible/pipeline@{case}", 0.97)
    yield Target("flexible/pipeline@moving", 1.25)
    yield Target("flexible/ideal@moving", 0.95)
    for work in PASSING_NS:
        yield Target(f"work/all@passing-{work}", 0.98)


BENCHMARK = Benchmark(
    name="flexible",
    about="the five applications and made pipelines on two cores, with and without a flexible bottleneck",
    unit="M items/s",
    cases=cases,
    targets=tuple(_targets()),
    ratios=ratios,
    figures=figures,
    more=more,
    cores=CORES,
    repeats={"small": 3, "full": 3},
)
