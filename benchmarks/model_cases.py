"""What the benchmark of the model runs: graphs in some way, with what the model says of it before.

Each run has among its facts what was `predicted` and what was `measured`, in items a second over the whole stream, with
filling and emptying the pipeline, the `error` between them, and the share of the time that cores were `busy`, as
predicted and as measured. The time is that of the run alone, without planning it. A prediction is made from the best of
a few profiles, as what is measured is the best of a few runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

import penstock as ps
from benchmarks import model_graphs as made
from benchmarks.records import Answer, Facts, Peer
from penstock import tune
from penstock.plan.node_profile import Profile
from penstock.tune.machine_costs import machine_costs
from penstock.tune.model import Arc, Drawn, Net, Platform, Task, net_of
from penstock.tune.model.simulate import NetSimulation
from penstock.tune.plan_search import every_mapping
from penstock.tune.run_model import Model, model

CORES = 2
PROFILES = 3
SAMPLE = 16 * made.BLOCK
TIMES = (7, 8, 9, 11, 13)
"""What the transitions of the nets for the simulator take."""
TASKS_A_CORE = 4
DEPTH = 4


@dataclass(frozen=True)
class Program:
    """A graph with its profile: how many items of its own count, and how many its source has."""

    leaf: ps.Stream
    items: int
    profile: Profile
    source_items: int

    def model(self, options: Mapping[str, Any]) -> Model:
        """The model of a run with these options. A mapping by the profile is what a model has by itself."""
        given = {name: value for name, value in options.items() if name in ("cores", "flexible", "block_items")}
        if not isinstance(options.get("mapping"), Profile):
            given["mapping"] = options.get("mapping")
        return model((self.leaf.node,), self.profile, machine_costs(), capacities=options.get("capacity"), **given)

    def foreseen(self, options: Mapping[str, Any]) -> Facts:
        """What the model says of a run with these options."""
        model = self.model(options)
        told = model.predict()
        busy = sum(told.utilisation.values()) / options.get("cores", 1)
        return {"predicted": self.items / model.seconds(self.source_items), "busy_predicted": busy}

    def peer(self, what: str, options: Mapping[str, Any], right: pa.Table, facts: Facts | None = None) -> Peer:
        """A run with these options, and with what the model says of it, unless that is given."""
        known = self.foreseen(options) if facts is None else facts
        return Peer(what, partial(run, self.leaf, self.items, options, known), self.items, lambda: right)


def run(leaf: ps.Stream, items: int, options: Mapping[str, Any], known: Facts) -> Answer:
    """The answer, with what was known before and what came of it."""
    planned: Any = leaf.prepare(spark=False, **options)
    begin = time.perf_counter()
    table = planned.collect()
    took = time.perf_counter() - begin
    facts = dict(known)
    facts["measured"] = items / took
    if "predicted" in known:
        facts["error"] = known["predicted"] / facts["measured"] - 1
        busy = sum(node.seconds for node in planned.statistics().nodes)
        facts["busy_measured"] = busy / (options.get("cores", 1) * took)
    return Answer(table, facts, took)


def answered(leaf: ps.Stream) -> tuple[pa.Table, int]:
    """The right answer, from one loop on one core, and how many items the source has."""
    planned: Any = leaf.prepare(spark=False)
    table = planned.collect()
    return table, planned.statistics().nodes[0].items


def profiled(leaf: ps.Stream, sample: int = SAMPLE, width: int = made.BLOCK) -> Profile:
    """The best of a few profiles: the one in which all nodes together took the least time."""
    found = [tune.profile(leaf, sample, width=width) for _ in range(PROFILES)]
    return min(found, key=lambda profile: sum(node.seconds for node in profile.nodes))


def prepared(graph: made.MadeGraph, items: int) -> tuple[Program, list[ps.Stream], pa.Table]:
    """A made graph with its profile, the stream behind each task, and the right answer."""
    streams, leaf = graph.built(items)
    right, _ = answered(leaf)
    return Program(leaf, items, profiled(leaf), items), streams, right


def on_cores(streams: list[ps.Stream], cores: tuple[int, ...], flexible: int | None = None) -> dict[str, Any]:
    """The options of a run with tasks on these cores, and one of them flexible, if any."""
    if max(cores) == 0 and flexible is None:
        return {}
    found: dict[str, Any] = {"cores": CORES, "mapping": dict(zip(streams, cores, strict=True))}
    copies = {} if flexible is None else {"flexible": {streams[flexible]: 1}}
    return {**found, **copies, "block_items": made.BLOCK}


# Mappings of made graphs


def mutex_peers(seed: int, tasks: int, seconds: float) -> list[Peer]:
    """One graph with large tasks on two cores: only one task of a core works at a time."""
    graph, cores = made.random_graph(seed, tasks), made.random_mapping(seed, tasks)
    program, streams, right = prepared(graph, items_for(seconds, graph.busiest_ns(cores)))
    return [program.peer("mapped", on_cores(streams, cores), right)]


def mapping_peers(seed: int, tasks: int, count: int, seconds: float) -> list[Peer]:
    """Some mappings of one graph."""
    graph, mappings = made.random_graph(seed, tasks), made.random_mappings(seed, tasks, count)
    program, streams, right = prepared(graph, items_for(seconds, 0.75 * graph.total_ns))
    return [program.peer(named(cores), on_cores(streams, cores), right) for cores in mappings]


def items_for(seconds: float, work_ns: float) -> int:
    """How many items take so long; whole blocks of them, and some."""
    return made.BLOCK * max(8, round(1e9 * seconds / work_ns / made.BLOCK))


def named(cores: tuple[int, ...], flexible: int | None = None) -> str:
    """The cores of all tasks, in their order, and which task has a copy, if one has.

    >>> named((0, 0, 1)), named((0, 0, 1), 2)
    ('on-001', 'on-001-copy-2')
    """
    return f"on-{''.join(map(str, cores))}" + ("" if flexible is None else f"-copy-{flexible}")


# Buffers


def buffer_peers(blocks: int, seconds: float) -> list[Peer]:
    """A pipeline of two nodes with uneven work, and a channel of so many blocks between them."""
    items = items_for(seconds, made.MEAN_NS)
    first, second, leaf = made.uneven(items)
    right, _ = answered(leaf)
    program = Program(leaf, items, profiled(leaf, items), items)
    options = {"cores": CORES, "mapping": {first: 0, second: 1}, "block_items": made.BLOCK}
    return [program.peer("buffered", {**options, "capacity": blocks * made.BLOCK}, right)]


# The adviser, against all that could have been


def adviser_peers(seed: int, tasks: int, seconds: float, kept: int, screened_s: float) -> list[Peer]:
    """An advice, and the best of all mappings with and without a copy of one node.

    All of them run once on a short stream, and then the best few against the advice on a long one. `one` is one core.
    """
    graph = made.random_graph(seed, tasks)
    best = screen(graph, items_for(screened_s, graph.total_ns / CORES))[:kept]
    program, streams, right = prepared(graph, items_for(seconds, graph.total_ns / CORES))
    advice: Any = tune.advise(program.leaf, CORES, profile=program.profile)
    peers = [program.peer("advice", {"plan": advice}, right, {"predicted": advice.steps[-1].throughput})]
    peers.append(program.peer("one", {}, right))
    for cores, flexible in best:
        if max(cores) or flexible is not None:
            peers.append(program.peer(named(cores, flexible), on_cores(streams, cores, flexible), right))
    return peers


def screen(graph: made.MadeGraph, items: int) -> list[tuple[tuple[int, ...], int | None]]:
    """All ways to run a graph on two cores, the fastest first, by one run of each after a first that does not count."""
    streams, leaf = graph.built(items)
    found = {}
    for cores, flexible in ways(len(graph.tasks)):
        options = on_cores(streams, cores, flexible)
        found[cores, flexible] = min(run(leaf, items, options, {}).seconds or 0.0 for _ in range(2))
    return sorted(found, key=lambda way: found[way])


def ways(tasks: int) -> Iterator[tuple[tuple[int, ...], int | None]]:
    """All mappings to two cores, each without a copy and with one of each task.

    >>> list(ways(1))
    [((0,), None), ((0,), 0)]
    """
    for cores in every_mapping(tasks, CORES):
        for flexible in (None, *range(tasks)):
            yield cores, flexible


# The simulator


def simulator_peers(transitions: int, firings: int) -> list[Peer]:
    """A long pipeline on many cores, whose tasks take a time that is drawn. Setting it up does not count."""
    return [Peer("simulator", partial(simulated, pipeline(transitions), firings), firings)]


def simulated(net: Net, firings: int) -> Answer:
    machine = NetSimulation(net, 0, frozenset(), 0)
    begin = time.perf_counter()
    ran = machine.stretch(firings)
    took = time.perf_counter() - begin
    facts = {"transitions": len(net.transitions), "ns_a_firing": 1e9 * took / ran.firings}
    return Answer(pa.table({"firings": [ran.firings]}), facts, took, ran.firings)


def pipeline(transitions: int) -> Net:
    """A net of so many transitions or a few more: tasks, four of which share a core, and what crosses to the next."""
    count = TASKS_A_CORE * -(-transitions // (TASKS_A_CORE + 1)) + 1
    tasks = [Task(f"task {at}", Drawn(TIMES), f"core {at // TASKS_A_CORE}") for at in range(count)]
    arcs = [Arc(f"task {at}", f"task {at + 1}", capacity=DEPTH) for at in range(count - 1)]
    return net_of(Platform(tuple(tasks), tuple(arcs)))
