"""Variance of sparse images: what filtering gains, what buffers gain, and what fusing gains (figure 4 of the paper).

Four kinds of cases:

- `16-90`, and so on: the paper's graph with an item a pixel (`variance_pixels.py`), with a heartbeat interval of
  16 and 90 % zeros. Every channel holds twice the interval; with a *buffer*, as many pixels as an image has. Without
  filtering, u passes the zeros on (`all`), or, as the paper has it, says after each firing how far it has come
  (`beat`).
- `zeros-90`: the application, with ensembles of the usual width.
- `holds-1024`: items a second against delay. Every channel holds so many items.
- `join`: a join by itself (`variance_join.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import variance_join
from benchmarks.benchmark import Benchmark, Report
from benchmarks.records import Case, Peer, Run, Speeds, Target
from benchmarks.speeds import over_best
from benchmarks.variance_pixels import by_pixels, pixels
from examples import variance
from examples.variance import PIXELS
from penstock.report.chart import Chart

INTERVALS: tuple[int, ...] = (16, 32, 64, 128)
SHARES: tuple[int, ...] = (10, 30, 50, 70, 90)
"""Of zeros, in percent."""
BUFFER = PIXELS
CAPACITIES: tuple[int, ...] = (16, 64, 256, 1024, 4096, 16_384, 65_536)
CORES = 2


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run the paper's graph: what is filtered, how much channels hold, and on how many threads."""

    is_filtered: bool = True
    is_buffered: bool = False
    beats_always: bool = False
    cores: int = 1

    def options(self, interval: int) -> dict[str, Any]:
        heartbeat = 0 if self.beats_always else interval
        capacity = BUFFER if self.is_buffered else 2 * interval
        return {"heartbeat": heartbeat, "capacity": capacity, **on_threads(self.cores)}


def on_threads(cores: int) -> dict[str, Any]:
    return {} if cores == 1 else {"cores": cores}


WAYS = {
    "filter": Way(),
    "all": Way(is_filtered=False),
    "beat": Way(beats_always=True),
    "filter-buffer": Way(is_buffered=True),
    "all-buffer": Way(is_filtered=False, is_buffered=True),
    "beat-buffer": Way(is_buffered=True, beats_always=True),
    "threads": Way(is_buffered=True, cores=CORES),
    "threads-all": Way(is_filtered=False, is_buffered=True, cores=CORES),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How many images for the loops, for what fires on an image at a time, and on a few pixels; and items to join."""

    images: int
    some: int
    few: int
    joined: int


AT = {
    "tiny": Scale(64, 4, 2, 1 << 12),
    "small": Scale(1 << 14, 512, 64, 1 << 22),
    "full": Scale(1 << 16, 1024, 128, 1 << 24),
}


def cases(scale: str) -> Iterator[Case]:
    at, intervals, shares, capacities = AT[scale], INTERVALS, SHARES, CAPACITIES
    if scale == "tiny":
        intervals, shares, capacities = INTERVALS[:1], SHARES[-1:], CAPACITIES[2:4]
    for interval in intervals:
        for share in shares:
            yield figure_case(at, interval, share)
    for share in shares:
        yield app_case(at, share)
    for capacity in capacities:
        yield delay_case(at, capacity)
    yield variance_join.case(at.joined)


# The cases


@cache
def images(count: int, share: int) -> pa.Table:
    return pa.Table.from_batches(variance.pieces(count, zeros=share / 100)).combine_chunks()


def by_app(table: pa.Table, is_filtered: bool = True, **options: Any) -> pa.Table:
    return variance.build(ps.from_arrow(table), filtered=is_filtered).collect(**options)


def by_welford(table: pa.Table) -> pa.Table:
    """By the aggregate that people should use, zeros included."""
    opened = ps.from_arrow(table).enumerate("pixels", as_="z")
    return opened.aggregate(variance=ps.variance("z")).map(deviation=lambda variance: variance**0.5).collect()


def by_numpy(table: pa.Table) -> pa.Table:
    values = table["pixels"].combine_chunks().flatten().to_numpy().reshape(-1, PIXELS)
    return pa.table({"image": table["image"], "deviation": np.std(values, axis=1)})


def is_near(found: pa.Table, right: pa.Table) -> bool:
    return found["image"].equals(right["image"]) and np.allclose(found["deviation"], right["deviation"], rtol=1e-9)


def figure_case(at: Scale, interval: int, share: int) -> Case:
    table = images(at.images, share)
    few, some = (_with_pixels(table.slice(0, count)) for count in (at.few, at.some))
    peers = (_figure_peer(name, way, interval, *(some if way.is_buffered else few)) for name, way in WAYS.items())
    return Case(f"{interval}-{share}", (Peer("penstock", partial(by_app, table), PIXELS * at.images), *peers))


def _with_pixels(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    return table, pixels(table)


def _figure_peer(name: str, way: Way, interval: int, table: pa.Table, given: pa.Table) -> Peer:
    work = partial(by_pixels, given, way.is_filtered, way.options(interval))
    return Peer(name, work, given.num_rows, partial(by_app, table))


def app_case(at: Scale, share: int) -> Case:
    table, items = images(at.images, share), PIXELS * at.images
    unfused: dict[str, dict[str, Any]] = {"unfused": {}, "threads": on_threads(CORES)}
    peers = [Peer("penstock", partial(by_app, table), items), Peer("all", partial(by_app, table, False), items)]
    for name, options in unfused.items():
        peers.append(Peer(name, partial(by_app, table, fuse=False, **options), items))
        peers.append(Peer(f"{name}-all", partial(by_app, table, False, fuse=False, **options), items))
    peers.append(Peer("welford", partial(by_welford, table), items, same=is_near))
    peers.append(Peer("numpy", partial(by_numpy, table), items, same=is_near))
    return Case(f"zeros-{share}", tuple(peers))


def delay_case(at: Scale, capacity: int) -> Case:
    """As many images as fill each channel several times, but few where channels are small."""
    table = images(max(at.few, min(at.images, capacity // 8)), SHARES[-1])
    given, right = pixels(table), partial(by_app, table)
    peers = [Peer("penstock", right, given.num_rows)]
    for name, cores in (("one-thread", 1), ("two-threads", CORES)):
        options = {"capacity": capacity, "trace": True, **on_threads(cores)}
        peers.append(Peer(name, partial(by_pixels, given, True, options), given.num_rows, right))
    return Case(f"holds-{capacity}", tuple(peers))


# Ratios and figures


def ratios(best: Speeds) -> dict[str, float]:
    """What filtering, buffers and fusing gain at each case; of the join, its speed over that of the pass alone."""
    found: dict[str, float] = {}
    for _, case in best:
        if case.startswith("zeros-"):
            pairs = [
                ("penstock", "unfused"),
                ("penstock", "threads"),
                ("unfused", "unfused-all"),
                ("penstock", "numpy"),
            ]
        elif case == "join":
            pairs = [("penstock", "merge"), ("channels", "merge")]
        elif case.startswith("holds-"):
            pairs = []
        else:
            pairs = [("filter", "all"), ("filter-buffer", "all-buffer"), ("threads", "threads-all")]
            pairs += [("filter-buffer", "filter"), ("filter", "beat"), ("filter-buffer", "beat-buffer")]
        found |= {f"{one}/{other}@{case}": best[one, case] / best[other, case] for one, other in pairs}
    of_figure = {key: speed for key, speed in best.items() if ("filter", key[1]) in best}
    return found | over_best(of_figure, "penstock", tuple(WAYS))


def figures(report: Report) -> dict[str, tuple[Chart, ...]]:
    found = {run.case for run in report.runs}
    measured = [interval for interval in INTERVALS if any(case.startswith(f"{interval}-") for case in found)]
    by_interval = tuple(figure_4(report, interval) for interval in measured)
    return {"figure-4.svg": by_interval, "delay.svg": (delay_chart(report),)}


def figure_4(report: Report, interval: int) -> Chart:
    shares = {f"{interval}-{share}": share for share in SHARES}
    lines = tuple(report.line(name, shares, lambda run: (shares[run.case], _images(run))) for name in WAYS)
    note = f"Unfused. Scale {report.scale}, the best run of each."
    title = f"Images a second against zeros, interval {interval}"
    return Chart(title, "zeros (%)", "images/s", lines, log_y=True, note=note)


def delay_chart(report: Report) -> Chart:
    """The trade-off: larger channels, more images a second, each of which stays longer."""
    names = [f"holds-{capacity}" for capacity in CAPACITIES]
    lines = tuple(
        report.line(what, names, lambda run: (run.facts["delay_ms"], _images(run)))
        for what in ("one-thread", "two-threads")
    )
    note = f"Channels of {CAPACITIES[0]} to {CAPACITIES[-1]:,} items, 90 % zeros. Scale {report.scale}."
    title = "Images a second against how long an image stays"
    return Chart(title, "delay (ms)", "images/s", lines, log_x=True, log_y=True, note=note)


def _images(run: Run) -> float:
    return run.speed / PIXELS


def _targets() -> Iterator[Target]:
    for interval in INTERVALS:
        yield Target(f"filter-buffer/all-buffer@{interval}-90", 4.0)
        yield Target(f"filter-buffer/filter@{interval}-90", 3.0)
        yield Target(f"penstock/best@{interval}-90", 20.0)
    yield Target("penstock@join", 30e6)


BENCHMARK = Benchmark(
    name="variance",
    about="the deviation of each image of sparse pixels: filtered or not, buffered or not, fused or not; and a join",
    unit="M pixels/s",
    cases=cases,
    targets=tuple(_targets()),
    ratios=ratios,
    figures=figures,
    cores=CORES,
    repeats={"full": 3},
)
