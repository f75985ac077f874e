"""Advice: how to run a stream on some cores, with what each step is to gain, and what was rejected and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import GraphError, ModelError
from penstock.graph import nodes as n
from penstock.graph.stream import Stream
from penstock.plan.balance import LEAST_GAIN, loops_of
from penstock.plan.node_profile import Profile
from penstock.plan.segment import Segment, inside
from penstock.text import distinct, table
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.node_costs import NodeCosts
from penstock.tune.plan_search import ENOUGH, Candidate, Search
from penstock.tune.run_model import Forecast, whole

OBJECTIVES = ("throughput", "latency")
STANDS_FOR = ("cores", "mapping", "flexible", "block_items", "capacity", "width", "memory", "delay")
"""The options of a run that an advice has chosen."""
REJECTED = 5
"""So many of the rejected are told."""


@dataclass(frozen=True)
class RunPlan:
    """The options of a run, by the names of nodes, as those of the profile; so that it is for any graph like that."""

    cores: int
    mapping: tuple[tuple[str, int], ...] = ()
    flexible: tuple[tuple[str, int], ...] = ()
    block_items: int | None = None
    capacity: int | None = None
    width: int | None = None

    def options(self, nodes: dict[str, list[n.GraphNode]]) -> dict[str, Any]:
        """The same as options of a run, of which `nodes` are the nodes by name."""
        options: dict[str, Any] = {"cores": self.cores}
        if self.mapping:
            options["mapping"] = {Stream(node): core for name, core in self.mapping for node in nodes[name]}
        if self.flexible:
            options["flexible"] = {Stream(nodes[name][-1]): copies for name, copies in self.flexible}
        for name in ("block_items", "capacity", "width"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        return options

    def __str__(self) -> str:
        told = [f"cores={self.cores}"]
        for core in sorted({core for _, core in self.mapping}):
            told.append(f"core {core}: {', '.join(name for name, home in self.mapping if home == core)}")
        told += [f"{name} flexible, copies: {copies}" for name, copies in self.flexible]
        for name in ("block_items", "capacity", "width"):
            if getattr(self, name) is not None:
                told.append(f"{name}={getattr(self, name):,}")
        return "; ".join(told)


@dataclass(frozen=True)
class AdviceStep:
    """One step of an advice: what to do, and what a run then gives, in items of the source a second."""

    what: str
    throughput: float
    latency_s: float
    gain: float
    """How many times as much as before the step."""


@dataclass(frozen=True)
class Rejected:
    """A way to run that was not taken, what it would give, and why not."""

    plan: RunPlan
    throughput: float
    why: str


@dataclass(frozen=True)
class Advice:
    """How to run a stream: `stream.collect(plan=advice)`. `items` is how long a stream it was looked at for."""

    objective: str
    nodes: tuple[str, ...]
    plan: RunPlan
    steps: tuple[AdviceStep, ...]
    rejected: tuple[Rejected, ...]
    forecast: Forecast
    gain: float
    """How many times as much the run is to give as on one core."""
    items: float
    tried: int

    def options(self, leaves: tuple[n.GraphNode, ...]) -> dict[str, Any]:
        """The options of a run of a graph; refused where it is another than the one that the advice is for."""
        nodes = _nodes(loops_of(leaves))
        if tuple(nodes) != self.nodes:
            missing = [name for name in self.nodes if name not in nodes]
            more = [name for name in nodes if name not in self.nodes]
            differs = [f"it lacks {', '.join(missing)}"] if missing else []
            differs += [f"it has {', '.join(more)} besides"] if more else []
            differs += [] if differs else ["its nodes are in another order"]
            raise GraphError(
                f"run: plan= must be an advice for the same graph, whose nodes are {', '.join(self.nodes)}; this graph "
                f"differs: {', and '.join(differs)}; ask for another with tune.advise(stream, cores)"
            )
        return self.plan.options(nodes)

    def __str__(self) -> str:
        head = ("step", "items a second", "ms under way", "gain")
        rows = [
            (step.what, f"{step.throughput:,.0f}", f"{1e3 * step.latency_s:,.3g}", f"{step.gain - 1:+.1%}")
            for step in self.steps
        ]
        told = [f"advice for {self.items:,.0f} items: {self.plan}", "", *table(head, rows)]
        told += ["", f"predicted: {self.gain:.2f} times the speed of one core; limited by {self.forecast.critical}"]
        if self.rejected:
            told += ["", f"rejected, of {self.tried:,} looked at:"]
            told += [f"  {each.plan}: {each.throughput:,.0f} items a second; {each.why}" for each in self.rejected]
        return "\n".join(told)


def advise(
    leaves: tuple[n.GraphNode, ...],
    profile: Profile,
    machine: MachineCosts,
    cores: int,
    memory: int | None = None,
    objective: str = "throughput",
) -> Advice:
    """Look for the best way to run a graph on at most so many cores, within so many bytes for its channels."""
    check(cores, memory, objective)
    search = Search(NodeCosts(leaves, profile), machine, cores, memory)
    candidates = search.best_candidates()
    fastest = search.fastest(candidates)
    if objective == "latency":
        best, floor = search.soonest(
            [fastest, *(each for each in candidates if each.cores == 1 and each is not fastest)]
        )
        return _advice(search, best, candidates, objective, f"less than {ENOUGH:.0%} of the best throughput", floor)
    return _advice(search, search.with_block(fastest), candidates, objective, "", 0.0)


def check(cores: Any, memory: Any, objective: Any) -> None:
    """Refuse what cannot be asked for."""
    whole("advise", "cores", cores)
    if memory is not None:
        whole("advise", "memory", memory)
    if objective not in OBJECTIVES:
        raise ModelError(f"advise: the objective must be 'throughput' or 'latency'; got {objective!r}")


def _advice(
    search: Search, best: Candidate, candidates: Sequence[Candidate], objective: str, why: str, floor: float
) -> Advice:
    steps = _steps(search, best)
    others = sorted((each for each in candidates if not _is_same(each, best)), key=lambda each: each.seconds)
    rejected = [_reject(search, each, best, why, floor) for each in others[:REJECTED]]
    alone = next(each for each in candidates if each.cores == 1)
    return Advice(
        objective,
        tuple(_nodes(search.costs.loops)),
        _plan(search, best),
        tuple(steps),
        tuple(rejected),
        best.forecast,
        best.speed / alone.speed,
        search.items,
        search.tried,
    )


def _steps(search: Search, best: Candidate) -> list[AdviceStep]:
    """From one core to the best, one thing at a time."""
    way = [("all on one core", search.candidate((0,) * len(search.loops), {}))]
    if best.cores > 1 and max(best.mapped) > 0:
        way.append((f"nodes on {max(best.mapped) + 1} cores", search.candidate(best.mapped, {})))
    copies: dict[n.GraphNode, int] = {}
    for node, count in best.copies.items():
        copies[node] = count
        what = f"{node.label} flexible, with {count} {'copy' if count == 1 else 'copies'}"
        way.append((what, search.candidate(best.mapped, dict(copies))))
    if best.choice != way[-1][1].choice:
        way.append((_sizes(best), best))
    steps, before = [], way[0][1]
    for what, each in way:
        steps.append(AdviceStep(what, each.speed, each.forecast.latency_s, each.speed / before.speed))
        before = each
    return steps


def _sizes(best: Candidate) -> str:
    choice = best.choice
    told = [f"blocks of {choice.block_items or choice.width:,} items"] if choice.block_items or choice.width else []
    told += [f"channels of {choice.capacity:,} items"] if isinstance(choice.capacity, int) else []
    return ", ".join(told)


def _reject(search: Search, each: Candidate, best: Candidate, why: str, floor: float) -> Rejected:
    share = each.seconds / best.seconds
    if floor and each.forecast.throughput < floor:
        reason = why
    elif floor:
        reason = f"blocks are under way for {1e3 * each.forecast.latency_s:,.3g} ms"
    elif share < 1:
        reason = f"{1 / share - 1:.1%} more is less than the {LEAST_GAIN - 1:.0%} that more cores or copies must gain"
    else:
        reason = f"{1 - 1 / share:.1%} less; limited by {each.forecast.critical}"
    return Rejected(_plan(search, each), each.speed, reason)


def _is_same(one: Candidate, other: Candidate) -> bool:
    return one.mapped == other.mapped and one.copies == other.copies


def _plan(search: Search, best: Candidate) -> RunPlan:
    choice = best.choice
    capacity = choice.capacity if isinstance(choice.capacity, int) else None
    if best.cores == 1:
        return RunPlan(1, capacity=capacity, width=choice.width)
    names = {node: name for name, nodes in _nodes(search.costs.loops).items() for node in nodes}
    mapping = {names[nodes[0]]: core for nodes, core in zip(search.loops, best.mapped, strict=True)}
    copies = {names[node]: count for node, count in best.copies.items()}
    return RunPlan(best.cores, tuple(mapping.items()), tuple(copies.items()), choice.block_items, capacity)


def _nodes(loops: Sequence[Segment]) -> dict[str, list[n.GraphNode]]:
    """The nodes of each loop, by the name that a profile has it by."""
    names = distinct(loop.name for loop in loops)
    return {name: inside(loop) for name, loop in zip(names, loops, strict=True)}
