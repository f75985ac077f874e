"""The performance model: what it predicts against what is measured, how fast it is, and what its advice is worth.

Ratios `predicted/way@case` are the smaller of what was predicted and measured over the larger, so that 1 is right to
the last digit.

Cases: `mutex-01` … are random graphs with large tasks on two cores, by a random mapping (figure 24 of the paper on
flexible filters), `mapping-1` … graphs with several mappings each (figure 25), of which the ranking counts: `tau` is
Kendall's, over the pairs whose runs do not overlap. The five applications as the benchmark `flexible` has them, and
`variance-50` (by the percent of zeros): figures 26 to 30. `block-64` is value at risk in blocks of so many items, and
`buffer-2` a pipeline with uneven work whose channel holds so many blocks. `net-1000` is the simulator on a net of so
many transitions, and `logarithm/growth` how much its size may cost a firing over what it does. `adviser-1` … are graphs
of at most six tasks, where `best` is the best of all mappings, with and without a copy of one node. `taxi-large-2
workers` is a job on Spark: the median of its times, each a process of its own (`benchmarks/cluster.py`).

The model knows of a node what its profile tells: its own loop, alone, on an idle core.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import pyarrow as pa

import penstock as ps
from benchmarks import cluster, flexible, model_cases
from benchmarks.benchmark import Benchmark
from benchmarks.model_cases import CORES, Program, answered
from benchmarks.model_figures import figures
from benchmarks.records import Answer, Case, Peer, Run, Speeds, Target
from benchmarks.speeds import best_runs
from examples import variance

GRAPHS = 30
FEWEST, SIZES = 4, 5
"""Random graphs have so many tasks at least, and one of so many sizes."""
MAPPED_SEED, ADVISED_SEED = 100, 200
BUFFERS = (1, 2, 4, 8, 16, 32)
NETS = (100, 1000, 10_000, 100_000)
SHARED = ("pipeline", "flexible", "forced")
"""The ways to run an application on two cores."""
APPLICATIONS = ("dedup", "jpeg", "des", "var-", "cfar-", "variance-")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of each: the graphs, of which tasks, how long they run, and the tasks of those that get advice.

    `clustered` is how often each job runs on a cluster.
    """

    graphs: int
    fewest: int
    seconds: float
    mapped: tuple[int, ...]
    mappings: int
    applications: bool
    images: int
    zeros: tuple[int, ...]
    buffers: tuple[int, ...]
    nets: tuple[int, ...]
    firings: int
    advised: tuple[int, ...]
    screened_s: float
    clustered: int = 0


AT = {
    "tiny": Scale(1, 2, 0.01, (3,), 3, False, 50, (50,), (1,), (100, 200), 20_000, (2,), 0.001),
    "small": Scale(GRAPHS, FEWEST, 1.4, (4, 5, 6), 8, True, 40_000, (50, 90), BUFFERS, NETS, 2_000_000, (4, 5), 0.1, 2),
    "full": Scale(
        *(GRAPHS, FEWEST, 2.0, (4, 5, 5, 6, 6), 12, True, 150_000, (0, 50, 90, 99), BUFFERS, NETS, 10_000_000),
        *((4, 4, 5, 5, 6), 0.2, 3),
    ),
}
KEPT = 4
"""So many of the best of all ways to run are measured again, against the advice."""


# The cases


def cases(scale: str) -> Iterator[Case]:
    at = AT[scale]
    yield from graph_cases(at)
    yield from application_cases(scale)
    for blocks in at.buffers:
        yield Case(f"buffer-{blocks}", partial(model_cases.buffer_peers, blocks, at.seconds))
    for transitions in at.nets:
        yield Case(f"net-{transitions}", partial(model_cases.simulator_peers, transitions, at.firings))
    for number, tasks in enumerate(at.advised, 1):
        graph = (ADVISED_SEED + number, tasks)
        yield Case(f"adviser-{number}", partial(model_cases.adviser_peers, *graph, at.seconds, KEPT, at.screened_s))
    if at.clustered:
        yield from cluster_cases(at.clustered)


def graph_cases(at: Scale) -> Iterator[Case]:
    for number in range(1, at.graphs + 1):
        peers = partial(model_cases.mutex_peers, number, at.fewest + number % SIZES, at.seconds)
        yield Case(f"mutex-{number:02}", peers)
    for number, tasks in enumerate(at.mapped, 1):
        peers = partial(model_cases.mapping_peers, MAPPED_SEED + number, tasks, at.mappings, at.seconds)
        yield Case(f"mapping-{number}", peers)


def application_cases(scale: str) -> Iterator[Case]:
    at, of_applications = AT[scale], flexible.AT[scale]
    if at.applications:
        with tempfile.TemporaryDirectory() as folder:
            for name, graph in flexible.applications(of_applications, Path(folder)):
                yield flexed_case(name, graph)
    else:
        stocks = of_applications.stocks[0]
        yield flexed_case(f"var-{stocks}", partial(flexible.risk, of_applications, stocks))
    for zeros in at.zeros:
        yield flexed_case(f"variance-{zeros}", partial(images, at.images, zeros / 100))
    for block in of_applications.blocks:
        yield flexed_case(f"block-{block}", partial(flexible.risk, of_applications, 64, block))


def images(count: int, zeros: float) -> flexible.Flexed:
    table = pa.Table.from_batches(variance.pieces(count, zeros=zeros))
    return flexible.flexed(variance.build(ps.from_arrow(table)), count, min(count, 1 << 14))


def flexed_case(name: str, make: flexible.Made) -> Case:
    def peers() -> Iterator[Peer]:
        graph = make()
        right, source_items = answered(graph.leaf)
        program = Program(graph.leaf, graph.items, graph.profile, source_items)
        for what, options in graph.ways.items():
            yield program.peer(what, options, right)

    return Case(name, peers)


def cluster_cases(repeats: int) -> Iterator[Case]:
    """The jobs on Spark. All that a job does, at every size on every platform, is measured when the first is asked."""

    @cache
    def compared(case: str) -> dict[str, cluster.Compared]:
        return {found.name: found for found in cluster.measured_against([case], repeats=repeats)}

    for case in cluster.CASES:
        for name in cluster.names(case):
            yield Case(name, lambda case=case, name=name: [cluster_peer(compared(case)[name])])  # type: ignore[misc]


def cluster_peer(found: cluster.Compared) -> Peer:
    """A job that was measured on Spark before: it counts as one item, and its median as its time."""
    facts = {"predicted": 1 / found.predicted_s, "measured": 1 / found.measured_s, "error": 1 / (1 + found.off) - 1}
    answer = Answer(pa.table({"case": [found.case]}), facts, found.measured_s)
    return Peer("cluster", lambda: answer, 1, lambda: answer.table, repeats=1, rehearsed=False)


# Ratios


def ratios(best: Speeds) -> dict[str, float]:
    """The speed of an advice over the best of all others; and what a larger net may cost over what it does."""
    found: dict[str, float] = {}
    for what, case in best:
        if what == "advice":
            others = [speed for (other, at), speed in best.items() if at == case and other != what]
            found[f"advice/best@{case}"] = best[what, case] / max(others)
    nets = {int(case.removeprefix("net-")): speed for (what, case), speed in best.items() if what == "simulator"}
    least = min(nets, default=0)
    for size in sorted(nets)[1:]:
        found[f"logarithm/growth@net-{size}"] = math.log(size) / math.log(least) * nets[size] / nets[least]
    return found


def more(runs: Sequence[Run]) -> dict[str, float]:
    """How well predictions agree with the best of the repeats, in the mean over applications too; how mappings rank."""
    agreed = {f"predicted/{what}@{case}": agreement(run) for (what, case), run in best_runs(runs).items() if told(run)}
    shared = [
        agreement(run)
        for (what, case), run in best_runs(runs).items()
        if what in SHARED and case.startswith(APPLICATIONS)
    ]
    mean = {"agreement@applications": sum(shared) / len(shared)} if shared else {}
    ranked = {f"tau@{case}": tau([run for run in runs if run.case == case]) for case in _mappings(runs)}
    return {**agreed, **mean, **{name: value for name, value in ranked.items() if value is not None}}


def told(run: Run) -> bool:
    return "predicted" in run.facts


def agreement(run: Run) -> float:
    """The smaller of what was predicted and what was measured over the larger."""
    predicted = run.facts["predicted"]
    return min(predicted, run.speed) / max(predicted, run.speed)


def tau(runs: Sequence[Run]) -> float | None:
    """Kendall's tau of the predicted and the measured speeds, over the pairs whose measured ones do not overlap.

    A pair that is predicted to be equal counts for neither. None where all overlap.
    """
    speeds: dict[str, list[float]] = {}
    for run in runs:
        speeds.setdefault(run.what, []).append(run.speed)
    predicted = {run.what: run.facts["predicted"] for run in runs}
    pairs = [
        (slow, fast)
        for one, other in combinations(speeds, 2)
        for slow, fast in ((one, other), (other, one))
        if max(speeds[slow]) < min(speeds[fast])
    ]
    signs = [(predicted[slow] < predicted[fast]) - (predicted[slow] > predicted[fast]) for slow, fast in pairs]
    return sum(signs) / len(signs) if signs else None


def _mappings(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.case for run in runs if run.case.startswith("mapping-")))


def _targets() -> Iterator[Target]:
    yield Target("predicted/mapped", 0.98)
    yield Target("tau", 0.9)
    of_applications = flexible.AT["full"]
    names = ["dedup", "jpeg", "des", *(f"var-{stocks}" for stocks in of_applications.stocks)]
    names += [f"cfar-{share}-{work}" for share, work in of_applications.cfar]
    for name in (*names, *(f"variance-{zeros}" for zeros in AT["full"].zeros)):
        for what in SHARED:
            yield Target(f"predicted/{what}@{name}", 0.9)
    yield Target("agreement@applications", 0.95)
    yield Target("advice/best", 0.97)
    yield Target("predicted/cluster", 0.85)
    yield Target("simulator@net-1000", 2e6)
    yield Target("logarithm/growth", 1.0)


BENCHMARK = Benchmark(
    name="model",
    about="what the performance model predicts against what is measured, its speed, and what its advice is worth",
    unit="M items/s",
    cases=cases,
    targets=tuple(_targets()),
    ratios=ratios,
    figures=figures,
    more=more,
    cores=CORES,
    repeats={"small": 3, "full": 5},
)
