"""Heartbeat intervals: the linear programme, against the list of all cycles that the paper makes.

A case is one random graph, with two edges a node or, where its name says so, four. `cycles` takes part while it ends
within a minute; it gives the largest sum there is. Answers differ, so none is compared with another: each is checked
against the inequalities of all cycles, or where these cannot be listed, by the search for one unsafe cycle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from benchmarks.benchmark import Benchmark
from benchmarks.measure import timed
from benchmarks.records import Answer, Case, Peer, Run, Speeds, Target
from benchmarks.speeds import best_runs
from penstock.errors import InternalError
from penstock.plan.heartbeat.cycles import Edge, Inequalities, inequalities
from penstock.plan.heartbeat.intervals import CYCLE_EDGES_MOST, Method, intervals
from penstock.plan.heartbeat.proof import unsafe_cycle

EDGES_PER_NODE = {"": 2, "dense-": 4}
"""By how the names of their cases begin."""
LARGEST = 20_000
SIZES: dict[str, tuple[int, ...]] = {
    "tiny": (10, 20),
    "small": (10, 20, 30, 40, 100, 1000, LARGEST),
    "full": (10, 20, 30, 40, 50, 60, 100, 200, 500, 1000, 2000, 5000, 10_000, LARGEST),
}
CAPACITY_MOST = 64
PATIENCE_S = 60.0
ALLOWED_S = 15.0
OWN: dict[str, Method] = {"penstock": "sum", "minimum": "minimum"}
"""What Penstock's own ways are called, and their methods."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A random graph, and the inequalities of its cycles where these can be listed."""

    count: int
    edges: list[Edge]
    inequalities: Inequalities | None

    def checked(self, found: list[int]) -> Answer:
        """The intervals, once they were found to be safe."""
        unsafe = unsafe_cycle(self.count, self.edges, found)
        if unsafe is not None or not (self.inequalities is None or self.inequalities.hold(found)):
            raise InternalError(f"bench: intervals of {len(self.edges)} edges must be safe; they are not on {unsafe}")
        return Answer(pa.table({"interval": found}), {"sum": sum(found), "smallest": min(found)})


def random_graph(edges: int, edges_per_node: int, is_listed: bool = True) -> Graph:
    """A graph, and the inequalities of its cycles if these are to be listed, and can be."""
    rng = random.Random(edges)
    count = max(4, edges // edges_per_node)
    ends = (sorted(rng.sample(range(count), 2)) for _ in range(edges))
    made = [Edge(sender, receiver, rng.randint(1, CAPACITY_MOST)) for sender, receiver in ends]
    return Graph(count, made, inequalities(made, CYCLE_EDGES_MOST) if is_listed else None)


def cases(scale: str) -> Iterator[Case]:
    for prefix, edges_per_node in EDGES_PER_NODE.items():
        is_patient = True
        for size in SIZES[scale]:
            graph = random_graph(size, edges_per_node, is_patient)
            peers = [peer(graph, what, method) for what, method in OWN.items()]
            listing = by_cycles(graph)
            is_patient = listing is not None
            yield Case(f"{prefix}{size}", (*peers, *([] if listing is None else [listing])))


def peer(graph: Graph, what: str, method: Method) -> Peer:
    work = partial(intervals, graph.count, graph.edges, method)
    return Peer(what, work, len(graph.edges), settle=graph.checked, same=_same_edges)


def by_cycles(graph: Graph) -> Peer | None:
    """The way of the paper, run once to see that it ends within a minute; None if it does not."""
    if graph.inequalities is None:
        return None
    work = partial(intervals, graph.count, graph.edges, "cycles")
    took, found = timed(work)
    best = pa.table({"interval": found})
    made = partial(Peer, "cycles", work, len(graph.edges), lambda: best, rehearsed=False)
    repeats = 1 if took > 5 else None
    return made(repeats=repeats, settle=graph.checked, same=_same_edges) if took <= PATIENCE_S else None


def _same_edges(found: pa.Table, right: pa.Table) -> bool:
    return bool(found.schema == right.schema and found.num_rows == right.num_rows)


def ratios(best: Speeds) -> dict[str, float]:
    """The speed over that of `cycles`; and for the largest graphs, the time allowed over the time taken."""
    found = {
        f"penstock/cycles@{case}": best["penstock", case] / speed
        for (what, case), speed in best.items()
        if what == "cycles"
    }
    largest = [(what, case) for what, case in best if what in OWN and case.endswith(str(LARGEST))]
    return found | {f"allowed/{what}@{case}": ALLOWED_S * best[what, case] / LARGEST for what, case in largest}


def shares(runs: Sequence[Run]) -> dict[str, float]:
    """The sum of the intervals over the largest sum there is, where it is known. A largest sum of 0 is reached."""
    best = best_runs(runs)
    return {
        f"sum/largest@{case}": best["penstock", case].facts["sum"] / run.facts["sum"] if run.facts["sum"] else 1.0
        for (what, case), run in best.items()
        if what == "cycles"
    }


BENCHMARK = Benchmark(
    name="heartbeat",
    about="heartbeat intervals of random graphs, by a linear programme and from the list of all cycles",
    unit="",
    cases=cases,
    targets=(Target("sum/largest", 0.98), Target("allowed/penstock", 1.0), Target("allowed/minimum", 1.0)),
    ratios=ratios,
    more=shares,
    repeats={"small": 2, "full": 3},
)
