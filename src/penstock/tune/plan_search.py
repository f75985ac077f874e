"""Look for the best way to run a graph on some cores: where its nodes are, which have copies, blocks and capacities.

What the busiest core has to do is known without simulating. By that all mappings are compared, where there are few, or
those that a local search comes by; the best of them are simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.codegen.generate import LOOPS
from penstock.errors import GraphError, ModelError
from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.balance import BLOCK_S, LEAST_GAIN, balanced
from penstock.plan.make import plan
from penstock.plan.passes.size import least
from penstock.plan.request import WIDTH, PlanRequest
from penstock.plan.segment import inside
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.node_costs import NodeCosts
from penstock.tune.run_model import Forecast, Model
from penstock.tune.run_parts import RunChoice

FEW_LOOPS, FEW_CORES = 6, 3
"""Up to these all mappings are tried."""
SIMULATED = 10
"""So many of the best are simulated."""
ROUNDS, NORM, EVEN = 30, 12, 0.999
SMALLEST = 64
BLOCKS = tuple(SMALLEST << shift for shift in range(0, 11, 2))
FEWEST_BLOCKS = 4
"""So many blocks at least a stream has at first, however short it is."""
DEPTHS = (1, 2, 4)
"""Of how many blocks a channel is tried to hold, where the latency counts."""
LITTLE = 1.01
"""What gains less than this is not worth an option."""
ENOUGH = 0.9
"""Where the latency counts, a run must give this share of the best throughput."""
LONG_S = 10.0
"""A stream that is longer than the profile's sample is taken to last so long on one core, or as long as the sample."""

Mapped = tuple[int, ...]
"""The core of each loop, in their order."""


@dataclass(eq=False)
class Candidate:
    """One way to run, with its model."""

    choice: RunChoice
    mapped: Mapped
    model: Model
    items: float
    alone_s: float = 0.0
    """What the whole stream takes on one core, where that is known: several take at least their share of it."""

    @cached_property
    def seconds(self) -> float:
        """What the whole stream takes, simulated; but no gain is above the number of cores."""
        return max(self.model.seconds(self.items), self.alone_s / self.cores)

    @property
    def speed(self) -> float:
        """Items a second over the whole stream."""
        return self.items / self.seconds

    @cached_property
    def forecast(self) -> Forecast:
        return self.model.predict()

    @property
    def copies(self) -> dict[n.GraphNode, int]:
        return dict(self.choice.places.copies)

    @property
    def cores(self) -> int:
        return self.choice.cores

    @property
    def sent_back(self) -> int:
        """How many flexible nodes are fed on their own core, so that what their copies get is sent to another and back.

        Copies elsewhere come first, whatever else their core has to do; so they take work that others are waiting for.
        """
        layout = self.model.layout
        return sum(part.is_flexible and layout.entry_core(part) == part.core for part in layout.parts)


@dataclass(eq=False)
class Search:
    """What is looked for, and all that was tried."""

    costs: NodeCosts
    machine: MachineCosts
    cores: int
    memory: int | None = None
    items: float = field(init=False)
    loops: list[list[n.GraphNode]] = field(init=False)
    given: dict[n.GraphNode, int] = field(init=False)
    """The copies that the graph itself asks for: they are there wherever there are several cores."""
    tried: int = 0

    def __post_init__(self) -> None:
        self.loops = [inside(loop) for loop in self.costs.loops if inside(loop)]
        nodes = Tree(self.costs.leaves).nodes
        self.given = {node: node.copies for node in nodes if 0 < node.copies < self.cores}
        self.items = self._length()

    def _length(self) -> float:
        """How many items the stream has: where the profile saw fewer than it asked for, there are no more."""
        seen = float(self.costs.source_items)
        if seen < self.costs.profile.sample:
            return seen
        return max(seen, float(f"{LONG_S * Model(self.costs, RunChoice(), self.machine).most:.2g}"))

    # Candidates

    def candidate(self, mapped: Mapped, copies: dict[n.GraphNode, int], block: int | None = None) -> Candidate:
        """The run with loops on these cores; the number of cores is that of those used, by copies too."""
        asked = {node: core for nodes, core in zip(self.loops, mapped, strict=True) for node in nodes}
        copies = {**self.given, **copies}
        cores = max(max(mapped, default=0) + 1, 1 + max(copies.values(), default=0))
        if max(mapped, default=0) == 0 and copies == self.given:
            return self.make_candidate(RunChoice(), mapped)
        return self.make_candidate(RunChoice(cores, Places(asked, copies), block or self.usual_block), mapped)

    def make_candidate(self, choice: RunChoice, mapped: Mapped) -> Candidate:
        """A candidate whose channels are within the memory; refused where they cannot be."""
        self.tried += 1
        candidate = self._candidate(choice, mapped)
        layout = candidate.model.layout
        if self.memory is None or layout.memory_bytes() <= self.memory:
            return candidate
        channels = [fed for part in layout.parts for fed, _ in layout.takers[part]]
        most = self.memory // max(1, round(2 * sum(self.costs.item_bytes(fed.edge) for fed in channels)))
        needed = self.needed_capacity(choice)
        if most < needed:
            raise ModelError(
                f"advise: {len(channels)} channels must each hold at least {needed} items; within "
                f"memory={self.memory:,} they hold {most}; raise it"
            )
        smaller = replace(choice, capacity=most)
        return self._candidate(smaller, mapped)

    def _candidate(self, choice: RunChoice, mapped: Mapped) -> Candidate:
        alone_s = 0.0 if choice.cores == 1 else self.alone_s
        return Candidate(choice, mapped, Model(self.costs, choice, self.machine), self.items, alone_s)

    @cached_property
    def alone_s(self) -> float:
        """What the whole stream takes on one core."""
        return Model(self.costs, RunChoice(), self.machine).seconds(self.items)

    def needed_capacity(self, choice: RunChoice) -> int:
        """The fewest items that channels must hold: as many as come of one."""
        planned = plan(self.costs.leaves, PlanRequest(places=choice.places), LOOPS)
        return max((least(sink)[0] for _, sink in planned.cuts()), default=1)

    @cached_property
    def usual_block(self) -> int:
        """How many items a block has at first: as many as take the busiest node about as long as a block is to.

        A short stream has some blocks all the same, or nothing could be shared out.
        """
        slowest = max((each.per_item_s for each in self.costs.profile.nodes), default=0.0)
        most = min(BLOCK_S / slowest if slowest > 0 else WIDTH, self.items / FEWEST_BLOCKS)
        return max(SMALLEST, min(WIDTH, 1 << max(0, int(most)).bit_length() - 1 if most >= 1 else SMALLEST))

    # Mappings

    def mappings(self) -> Iterator[Mapped]:
        """The mappings to look at, the cores numbered as they are come by."""
        if len(self.loops) <= FEW_LOOPS and self.cores <= FEW_CORES:
            yield from every_mapping(len(self.loops), self.cores)
            return
        yield (0,) * len(self.loops)
        for cores in range(2, self.cores + 1):
            yield from self.improve(self.pieces(cores), cores)

    def pieces(self, cores: int) -> Mapped:
        """Loops that follow each other, with about as much to do for each core."""
        shared = balanced(self.costs.loops, self.costs.profile.costs(self.costs.loops), cores)
        return renumber(shared[nodes[0]] for nodes in self.loops)

    def improve(self, mapped: Mapped, cores: int) -> list[Mapped]:
        """A mapping, and what comes of it by moving a loop or swapping two, as long as the loads become more even."""
        path, now = [mapped], self.unevenness(mapped)
        for _ in range(ROUNDS):
            moves = {renumber(each) for each in neighbours(path[-1], cores)}
            least, best = min(((self.unevenness(each), each) for each in moves), default=(now, mapped))
            if least >= now * EVEN:
                break
            now = least
            path.append(best)
        return path

    def unevenness(self, mapped: Mapped) -> float:
        """What the busiest cores have to do for an item: not of one alone, for several may be as busy as each other."""
        try:
            model = self.candidate(mapped, {}).model
        except (ModelError, GraphError):  # not within the memory
            return float("inf")
        loads = [*model.jobs.loads(), model.jobs.python_s]
        return float(sum((load / model.layout.block) ** NORM for load in loads) ** (1 / NORM))

    # The search

    def best_candidates(self) -> list[Candidate]:
        """The best candidates by what the busiest core has to do, with copies and without, the best first."""
        plain = [each for each in map(self._try, self.mappings()) if each is not None]
        known, bases = list(plain), plain
        while bases:
            more = [each for base in bases for each in self.with_a_copy(base)]
            now = max(each.model.most for each in known)
            known += more
            bases = self._best((each for each in more if each.model.most > now * LITTLE), SIMULATED)
        # the best without copies stay in: what copies gain is told against them
        kept = [*self._best(known, SIMULATED), *self._best(plain, 3), plain[0]]
        return list({(each.mapped, frozenset(each.copies.items())): each for each in kept}.values())

    def _try(self, mapped: Mapped) -> Candidate | None:
        try:
            return self.candidate(mapped, {})
        except (ModelError, GraphError):
            if max(mapped) == 0:
                raise
            return None

    def with_a_copy(self, base: Candidate) -> Iterator[Candidate]:
        """The same with copies of one node more."""
        for loop in self.costs.loops:
            node = loop.only
            if node is None or not n.can_have_copies(node) or node in base.copies or self.cores == 1:
                continue
            for count in range(1, self.cores):
                try:
                    yield self.candidate(base.mapped, {**base.copies, node: count})
                except (ModelError, GraphError):  # not within the memory
                    continue

    def _best(self, candidates: Iterable[Candidate], count: int) -> list[Candidate]:
        return sorted(candidates, key=lambda each: -each.model.most)[:count]

    def fastest(self, candidates: list[Candidate]) -> Candidate:
        """The candidate that takes the least time; but a simpler one that is hardly slower."""
        best = min(candidates, key=lambda each: each.seconds)
        simple = sorted(
            candidates, key=lambda each: (each.cores, sum(each.copies.values()), each.sent_back, each.seconds)
        )
        return next(each for each in simple if each.seconds <= best.seconds * LEAST_GAIN)

    # Blocks and capacities

    def with_block(self, base: Candidate) -> Candidate:
        """The same, with the blocks that take the least time."""
        if base.cores == 1:
            return base
        tried = self._all(base, [replace(base.choice, block_items=block, capacity=None) for block in BLOCKS])
        best = min(tried, key=lambda each: each.seconds, default=base)
        return best if base.seconds > best.seconds * LITTLE else base

    def soonest(self, candidates: list[Candidate]) -> tuple[Candidate, float]:
        """The candidate whose blocks are under way for the least time, of those that give nearly as much as the best.

        And the throughput that it had to have.
        """
        tried = [each for base in candidates for each in self._all(base, self._short(base))]
        most = max(each.forecast.throughput for each in (*candidates, *tried))
        able = [each for each in (*candidates, *tried) if each.forecast.throughput >= ENOUGH * most]
        return min(able, key=lambda each: (each.forecast.latency_s, each.cores)), ENOUGH * most

    def _short(self, base: Candidate) -> Iterator[RunChoice]:
        for block in BLOCKS:
            if base.cores == 1:
                yield replace(base.choice, width=block)
                continue
            for depth in DEPTHS:
                capacity = max(depth * block, self.needed_capacity(base.choice))
                yield replace(base.choice, block_items=block, capacity=capacity)

    def _all(self, base: Candidate, choices: Iterable[RunChoice]) -> list[Candidate]:
        candidates = []
        for choice in choices:
            try:
                candidates.append(self.make_candidate(choice, base.mapped))
            except (ModelError, GraphError):  # not within the memory
                continue
        return candidates


def every_mapping(loops: int, cores: int) -> Iterator[Mapped]:
    """All ways to put loops on cores that are alike, each once.

    >>> list(every_mapping(3, 2))
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    """
    if loops == 0:
        yield ()
        return
    for before in every_mapping(loops - 1, cores):
        for core in range(min(max(before, default=-1) + 2, cores)):
            yield (*before, core)


def neighbours(mapped: Mapped, cores: int) -> Iterator[Mapped]:
    """All mappings in which one loop is elsewhere, or two have changed places."""
    for at, core in enumerate(mapped):
        for other in range(cores):
            if other != core:
                yield (*mapped[:at], other, *mapped[at + 1 :])
        for second in range(at + 1, len(mapped)):
            if mapped[second] != core:
                yield (*mapped[:at], mapped[second], *mapped[at + 1 : second], core, *mapped[second + 1 :])


def renumber(mapped: Iterable[int]) -> Mapped:
    """The same mapping, with the cores numbered as they are come by.

    >>> renumber([2, 2, 0, 1])
    (0, 0, 1, 2)
    """
    number: dict[int, int] = {}
    return tuple(number.setdefault(core, len(number)) for core in mapped)
