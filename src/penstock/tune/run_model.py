"""The model of a run: `tune.predict(stream, profile)` builds it from the plan of the run and a measured profile.

Its net has a task for each loop that the run would have, one for each split and merge around copies, and a buffer for
each channel. A token is a block, as many items of the source as the loops take at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.errors import GraphError, ModelError, quoted
from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.balance import balanced, choose_places
from penstock.plan.node_profile import Profile
from penstock.plan.passes.assign_cores import places
from penstock.plan.segment import Segment, inside
from penstock.text import table
from penstock.tune.core_tasks import Job, Jobs
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.model.net import Drawn, Net, Place, Time, Traced, Transition
from penstock.tune.model.platform import Arc, Platform, Task
from penstock.tune.model.platform_net import net_of
from penstock.tune.model.prediction import Prediction, predict
from penstock.tune.model.simulate import FIRINGS, simulate
from penstock.tune.node_costs import NodeCosts
from penstock.tune.run_parts import RunChoice, RunParts

NANO = 10**9
SIMULATED, LONG = 1000, 1 << 40
"""Of a stream the first so many blocks are simulated, to their end."""
PYTHON = "Python's lock"


@dataclass(frozen=True)
class Forecast:
    """What a run is to give. Items are those of the source.

    `utilisation` has for each core the share of the time that it works, `queues` the items that wait between two tasks
    in the mean, `shares` which part of a flexible node's work each core does. `critical` limits the throughput: a core
    that is always busy, a buffer that is full, or Python's lock.
    """

    throughput: float
    """Items of the source a second."""
    latency_s: float
    """The mean time of a block, from when it is taken from the source until it is a result."""
    latency_99_s: float
    utilisation: Mapping[str, float]
    queues: Mapping[tuple[str, str], float]
    critical: str
    shares: Mapping[str, Mapping[str, float]]
    block_items: float
    """How many items make a block."""
    of_net: Prediction
    """The same in blocks and nanoseconds, as the net has it; exact where all times are constant."""
    model: Model
    """What foresees it, with the net of the run."""

    def __str__(self) -> str:
        busy = ", ".join(f"{core} {share:.0%}" for core, share in self.utilisation.items())
        return (
            f"{self.throughput:,.0f} items a second in blocks of {self.block_items:,.0f}, each "
            f"{1e3 * self.latency_s:,.3g} ms under way; busy: {busy}; limited by {self.critical}"
        )


class Model:
    """A model of one run of a graph: of its loops on cores, as the options of the run place them."""

    def __init__(self, costs: NodeCosts, choice: RunChoice, machine: MachineCosts) -> None:
        self.costs, self.choice, self.machine = costs, choice, machine
        self.layout = RunParts(costs, choice)
        self.jobs = Jobs(self.layout, machine)

    @cached_property
    def platform(self) -> Platform:
        """The tasks and channels as a platform, in nanoseconds and blocks."""
        tasks = [
            Task(job.name, _time(job), _core(job.homes[0]), tuple(map(_core, job.homes[1:]))) for job in self.jobs.jobs
        ]
        arcs = [Arc(link.source, link.target, round(link.bytes), link.capacity) for link in self.jobs.links()]
        cores = tuple(_core(core) for core in self.jobs.cores())
        return Platform(tuple(tasks), tuple(arcs), cores, alpha=round(self.machine.wake_s * NANO), downstream=True)

    def net(self) -> Net:
        """The net that stands for the run.

        >>> import penstock as ps
        >>> from penstock import tune
        >>> squares = ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v)
        >>> forecast = tune.predict(squares, tune.profile(squares, 1000))
        >>> [transition.name for transition in forecast.model.net().transitions]
        ["map 'w'"]
        """
        return net_of(self.platform)

    def picture(self) -> Any:
        """A picture of the net: SVG in a notebook and with `.svg()`.

        >>> import penstock as ps
        >>> from penstock import tune
        >>> squares = ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v)
        >>> tune.predict(squares, tune.profile(squares, 1000)).model.picture().svg()[:4]
        '<svg'
        """
        from penstock.report.net_picture import picture

        return picture(self.net())

    def predict(self, *, firings: int | None = None, seed: int = 0) -> Forecast:
        """Simulate the net and tell what the run is to give.

        >>> import penstock as ps
        >>> from penstock import tune
        >>> squares = ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v)
        >>> told = tune.predict(squares, tune.profile(squares, 1000)).model.predict()
        >>> told.throughput > 0, told.critical, told.utilisation
        (True, 'core 0', {'core 0': 1.0})
        """
        prediction = predict(self.platform, firings=firings or self._enough(), seed=seed)
        block = self.layout.block
        rate, most = float(prediction.throughput) * NANO, 1.0 / max(self.jobs.python_s, 1e-12)
        slower = min(1.0, most / rate)
        return Forecast(
            rate * slower * block,
            float(prediction.latency) / NANO / slower,
            float(prediction.latency_99) / NANO / slower,
            {core: float(share) * slower for core, share in prediction.utilisation.items()},
            {ends: float(blocks) * block for ends, blocks in prediction.queues.items()},
            PYTHON if slower < 1.0 else prediction.critical,
            {task: {core: float(share) for core, share in each.items()} for task, each in prediction.shares.items()},
            block,
            prediction,
            self,
        )

    def seconds(self, items: float) -> float:
        """How long so many items of the source are to take, with filling the pipeline and emptying it.

        Of a long stream the beginning is simulated, and the rest is taken to go on as it would for ever.

        >>> import penstock as ps
        >>> from penstock import tune
        >>> squares = ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v)
        >>> model = tune.predict(squares, tune.profile(squares, 1000)).model
        >>> model.seconds(1000) < model.seconds(2000)
        True
        """
        blocks = max(1, math.ceil(items / self.layout.block))
        some = min(blocks, SIMULATED)
        run = simulate(_supply(self.platform, some), firings=LONG, may_stop=True)
        took = float(run.time) / NANO
        if blocks > some:
            took += (blocks - some) * self.layout.block / self.predict().throughput
        return max(took, blocks * self.jobs.python_s) * items / (blocks * self.layout.block)

    def _enough(self) -> int:
        """How many firings tell enough: some rounds of all that varies."""
        varying = max((len(job.varying or ()) for job in self.jobs.jobs), default=0)
        if not varying:
            return FIRINGS
        return min(FIRINGS, max(5000, 8 * varying * 2 * len(self.jobs.jobs)))

    @property
    def most(self) -> float:
        """The most items of the source a second that cores let through which never wait; known without simulating."""
        return self.layout.block * self.jobs.most_blocks_a_second

    def __str__(self) -> str:
        head = ("task", "core", "ms a block", "of that around")
        rows = [
            (job.name, ", ".join(map(str, job.homes)), f"{1e3 * job.total_s:,.4g}", f"{1e3 * job.around_s:,.4g}")
            for job in self.jobs.jobs
        ]
        held = [
            f"channel {each.source} → {each.target}: {each.bytes:,.0f} bytes a block, holds {each.capacity}"
            for each in self.jobs.links()
        ]
        return "\n".join([f"blocks of {self.layout.block:,.6g} items of the source", *table(head, rows), *held])


def _supply(platform: Platform, blocks: int) -> Net:
    """The net of a platform whose stream has so many blocks."""
    net, sources = net_of(platform), {task.name for task in platform.sources}
    places = [Place(f"left for {name}", blocks) for name in sorted(sources)]
    transitions = [
        _taking(each, {f"left for {each.name}": 1}) if each.name in sources else each for each in net.transitions
    ]
    return Net((*net.places, *places), tuple(transitions))


def _taking(given: Transition, more: Mapping[str, int]) -> Transition:
    """A transition that takes more."""
    takes = {**dict(given.takes), **more}
    return Transition(given.name, given.time, takes, given.gives, given.priority, given.core)


def _core(number: int) -> str:
    return f"core {number}"


def _time(job: Job) -> Time | int:
    """The time of a block in whole nanoseconds: as it was recorded, block after block, but drawn where copies share it.

    The blocks of a copy are not known by their number, so that its times cannot be those of the record in their order.
    """
    if job.varying is None:
        return max(1, round(job.total_s * NANO))
    values = tuple(max(1, round((each + job.around_s) * NANO)) for each in job.varying)
    return Drawn(values) if len(job.homes) > 1 else Traced(values)


# What a user may ask for


def model(
    leaves: tuple[n.GraphNode, ...],
    profile: Profile,
    machine: MachineCosts,
    *,
    cores: int = 1,
    mapping: Mapping[Any, int] | None = None,
    flexible: str | Mapping[Any, int] | None = None,
    capacities: int | Mapping[Any, int] | None = None,
    block_items: int | None = None,
) -> Model:
    """The model of a run with these options, each of which is refused where it is wrong."""
    costs = NodeCosts(leaves, profile)
    whole("model", "cores", cores)
    if block_items is not None:
        whole("model", "block_items", block_items)
    asked = _places(costs, cores, mapping, flexible)
    choice = RunChoice(cores, asked, block_items, _capacities(leaves, capacities), by_profile=mapping is None)
    made = Model(costs, choice, machine)
    idle = sorted(set(range(cores)) - set(made.jobs.cores()))
    if idle and mapping is not None:
        raise ModelError(
            f"model: mapping= must put something on each of the {cores} cores; cores {', '.join(map(str, idle))} have "
            f"nothing to do; lower cores=, or name them"
        )
    return made


def _places(costs: NodeCosts, cores: int, mapping: Any, flexible: Any) -> Places:
    if not isinstance(mapping, Mapping | None):
        raise GraphError(f"model: mapping must be a dict from streams to numbers of cores; got {mapping!r}")
    if not isinstance(flexible, Mapping | None) and flexible != "auto":
        raise GraphError(f"model: flexible must be 'auto', or a dict from streams to copies; got {flexible!r}")
    asked = places(costs.leaves, cores, mapping, None if flexible == "auto" else flexible)
    if mapping is not None:
        _check_mapping(costs, asked)
    elif cores > 1:
        shared = balanced(costs.loops, costs.profile.costs(costs.loops), cores)
        asked = Places({**shared, **asked.cores}, asked.copies)
    return choose_places(costs.leaves, asked, costs.profile, cores) if flexible == "auto" and cores > 1 else asked


def _check_mapping(costs: NodeCosts, asked: Places) -> None:
    """Each node must be somewhere: where it is said to be, or where one before it is."""
    known: dict[Segment, bool] = {}
    for loop in costs.loops:
        before = [fed.feeder for fed in (loop.sides or (loop,)) if fed.feeder is not None]
        named = any(node in asked.cores for node in inside(loop))
        known[loop] = named or any(known[feeder] for feeder in before) or not inside(loop)
    missed = [loop.name for loop in costs.loops if not known[loop]]
    if missed:
        raise ModelError(
            f"model: mapping= must say where each node is, or one before it; it misses {quoted(missed)}; add "
            f"{'it' if len(missed) == 1 else 'them'}, or leave mapping= out to have nodes shared out by the profile"
        )


def _capacities(leaves: tuple[n.GraphNode, ...], given: Any) -> int | dict[n.GraphNode, int] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return whole("model", "capacities", given)
    known = Tree(leaves).nodes
    for stream, capacity in given.items():
        node = getattr(stream, "node", None)
        if node not in known:
            raise GraphError(
                f"model: capacities= takes a number of items, or a dict from streams of this graph to such; got the "
                f"key {stream!r}"
            )
        whole("model", f"the capacity behind {node.label}", capacity)
    return {stream.node: int(capacity) for stream, capacity in given.items()}


def whole(where: str, name: str, value: Any) -> int:
    """A whole number of at least 1, or an error that says what it must be."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GraphError(f"{where}: {name} must be a whole number of at least 1; got {value!r}")
    return value
