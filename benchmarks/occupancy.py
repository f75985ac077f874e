"""How full ensembles are and what that costs: region sum in every context, and fused (figures 6 and 7 of the paper).

A sparse ensemble ends where a region ends, so its time goes up and down with the region size; figure 6 shows it for
regions of one size, figure 7 for regions of 0 to a maximum. Every run unfused also tells how full the ensembles of the
node inside the regions were, which for regions of one size must be what arithmetic says. Two more things are measured:
wide ensembles, and a chain of nodes that do almost nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.benchmark import Benchmark, Report
from benchmarks.records import Answer, Case, Peer, Run, Speeds, Target
from benchmarks.speeds import over_best
from penstock.examples import region_sum
from penstock.report.chart import Chart, Series

WIDTH, WIDE, CHAIN_WIDTH = 128, 16_384, 65_536
CONTEXTS = ("sparse", "dense", "lane")
UNFUSED = (*CONTEXTS, "auto")
WIDE_SIZES = (32, 128, 1024, WIDE)
CHAIN_NODES = 5


def neighbours(*multiples: int) -> set[int]:
    """The multiples of the width, and what stands beside each."""
    return {multiple * WIDTH + beside for multiple in multiples for beside in (-1, 0, 1)}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of what: `elements` for the fast, `narrow` for all that is unfused at width 128.

    A wide sparse ensemble holds one region, so `wide_regions` says how many regions the sparse context takes there.
    """

    sizes: tuple[int, ...]
    elements: int
    narrow: int
    wide_regions: int


ALL_SIZES = sorted({16, 32, 64, 96, *range(192, 1024, 128)} | neighbours(*range(1, 8)) | {1023, 1024})
SOME_SIZES = sorted({16, 32, 64, 96, 192, 384, 768} | neighbours(1, 2, 4) | {1023, 1024})
AT = {
    "tiny": Scale((32, 127, 128, 129), 1 << 14, 1 << 10, 1 << 6),
    "small": Scale(tuple(SOME_SIZES), 1 << 22, 1 << 16, 1 << 12),
    "full": Scale(tuple(ALL_SIZES), 1 << 24, 1 << 18, 1 << 14),
}


def cases(scale: str) -> Iterator[Case]:
    at = AT[scale]
    for size in at.sizes:
        yield narrow_case(fixed_name(size), at, fixed(at.elements, size), size)
    for largest in at.sizes:
        yield narrow_case(random_name(largest), at, random(at.elements, largest))
    for size in WIDE_SIZES:
        yield wide_case(at, size)
    yield chain_case(2 * at.elements)


def fixed_name(size: int) -> str:
    return str(size)


def random_name(largest: int) -> str:
    return f"0-{largest}"


def fixed(elements: int, size: int) -> pa.Table:
    """Whole regions of one size, in one piece."""
    return pa.Table.from_batches(region_sum.pieces(max(1, elements // size) * size, region=size)).combine_chunks()


def random(elements: int, largest: int) -> pa.Table:
    return pa.Table.from_batches(region_sum.pieces(elements, largest=largest)).combine_chunks()


# The cases


def narrow_case(name: str, at: Scale, table: pa.Table, size: int | None = None) -> Case:
    """All contexts on the same part of the data; only fused, a hundred times as fast, takes it all."""
    few = first_regions(table, at.narrow)
    return Case(name, (fused_peer(table), *(unfused_peer(few, context, WIDTH, size) for context in UNFUSED)))


def wide_case(at: Scale, size: int) -> Case:
    table = fixed(4 * at.elements, size)  # so that planning, a millisecond or two, does not count
    few = first_regions(table, at.wide_regions * size)
    peers = (unfused_peer(few if context == "sparse" else table, context, WIDE, size) for context in UNFUSED)
    return Case(f"wide-{size}", (fused_peer(table), *peers))


def chain_case(items: int) -> Case:
    values = pa.table({"v": np.arange(items)})
    fused = Peer("fused", lambda: chain(values).collect(), items)
    unfused = Peer("unfused", lambda: chain(values).collect(fuse=False, width=CHAIN_WIDTH), items)
    return Case("chain", (fused, unfused))


def chain(values: pa.Table) -> ps.Stream:
    """Nodes of which each adds 1: what is left is the cost of the channels between them."""
    stream = ps.from_arrow(values)
    for _ in range(CHAIN_NODES):
        stream = stream.map(v=lambda v: v + 1)
    return stream


def first_regions(table: pa.Table, elements: int) -> pa.Table:
    """The first whole regions with at most so many elements in all, and at least one region."""
    ends = table.column("values").chunk(0).offsets.to_numpy()[1:]
    return table.slice(0, max(1, int(np.searchsorted(ends, elements, side="right"))))


def count(table: pa.Table) -> int:
    return len(table.column("values").chunk(0).flatten())


def fused_peer(table: pa.Table) -> Peer:
    return Peer("fused", lambda: by_fused(table), count(table))


def unfused_peer(table: pa.Table, context: str, width: int, size: int | None) -> Peer:
    """With the occupancy that must come out, where the regions have one size and the context is given."""
    items, must = count(table), {}
    if size is not None and context != "auto":
        must["occupancy"] = filled(size if context == "sparse" else items, width)
    right = functools.partial(by_fused, table)
    return Peer(context, lambda: by_unfused(table, context, width), items, right, must)


def filled(items: int, width: int) -> float:
    """The occupancy of as few ensembles as hold so many items.

    >>> filled(32, 128), filled(129, 128), filled(256, 128)
    (0.25, 0.50390625, 1.0)
    """
    return items / (width * math.ceil(items / width))


def by_fused(table: pa.Table) -> pa.Table:
    return region_sum.build(ps.from_arrow(table)).collect()


def by_unfused(table: pa.Table, context: str, width: int = WIDTH) -> Answer:
    run = region_sum.build(ps.from_arrow(table)).prepare(fuse=False, width=width, context=context)
    answer = run.collect()
    inside = run.statistics().node("aggregate")
    return Answer(answer, {"occupancy": inside.occupancy, "full_share": inside.full_share})


# Ratios and figures


def ratios(best: Speeds) -> dict[str, float]:
    """The context that is chosen against the best of those given, and at wide ensembles the lanes against the rest."""
    wide = [f"wide-{size}" for size in WIDE_SIZES]
    lanes = {
        f"lane/{other}@{case}": best["lane", case] / best[other, case] for case in wide for other in ("sparse", "fused")
    }
    return over_best(best, "auto", CONTEXTS) | lanes


def figures(report: Report) -> dict[str, tuple[Chart, ...]]:
    sizes = AT[report.scale].sizes
    return {
        "figure-6.svg": charts(report, "region size", {fixed_name(size): size for size in sizes}),
        "figure-7.svg": charts(report, "largest region", {random_name(size): size for size in sizes}),
    }


def charts(report: Report, across: str, sizes: Mapping[str, int]) -> tuple[Chart, ...]:
    """Times and how full ensembles were, over the sizes, each by the name of its case.

    Fused is hundreds of times as fast, so it stands in a chart of its own, where the others are flat beside it.
    """

    def time_of(run: Run) -> tuple[float, float]:
        return sizes[run.case], 1e9 * run.seconds / run.items

    def share_of(fact: str) -> tuple[Series, ...]:
        return tuple(report.line(what, sizes, lambda run: (sizes[run.case], run.facts[fact])) for what in UNFUSED)

    times = tuple(report.line(what, sizes, time_of) for what in UNFUSED)
    fused = report.line("fused", sizes, time_of, dashed=True)
    x, y = f"{across} (elements)", "time per element (ns)"
    note = f"Width {WIDTH}, unfused. Scale {report.scale}, one core, the best run of each."
    inside = "Of the node inside the regions."
    return (
        Chart(f"Region sum: time against {across}", x, y, times, log_y=True, note=note),
        Chart("Occupancy", x, "items / width", share_of("occupancy"), note=inside),
        Chart("Time, and that of the fused loop", x, y, (*times, fused), log_y=True),
        Chart("Share of full ensembles", x, "full / all ensembles", share_of("full_share"), note=inside),
    )


BENCHMARK = Benchmark(
    name="occupancy",
    about="the sum of each region in every context, and how full the ensembles were",
    unit="M items/s",
    cases=cases,
    targets=(
        Target("auto/best", 0.9),
        Target("lane/sparse@wide-32", 50.0),
        Target("lane/fused@wide-32", 0.25),
        Target("unfused@chain", 100e6),
    ),
    ratios=ratios,
    figures=figures,
)
