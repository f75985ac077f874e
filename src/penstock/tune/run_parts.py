"""Where the parts of a run would be: the loops, cores and blocks that the engine makes of the same options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import GraphError, ModelError
from penstock.graph import nodes as n
from penstock.graph.tree import Places
from penstock.plan.make import LAYOUT, plan
from penstock.plan.passes.size import usual
from penstock.plan.plan import Plan
from penstock.plan.request import WIDTH, PlanRequest
from penstock.plan.segment import Segment
from penstock.text import distinct
from penstock.tune.node_costs import NodeCosts


@dataclass(frozen=True)
class RunChoice:
    """What a run may choose: where nodes are, how many items make a block, and how many a channel holds.

    `by_profile` has the run choose the blocks of each loop by what it costs, where `block_items` is None; `width` is
    the block of the one loop of a run on one core. `capacity` is of all channels, or of those behind some nodes.
    """

    cores: int = 1
    places: Places = field(default_factory=Places)
    block_items: int | None = None
    capacity: int | Mapping[n.GraphNode, int] | None = None
    by_profile: bool = False
    width: int | None = None


@dataclass(frozen=True, eq=False)
class RunPart:
    """A loop, or a join with the loop of its functions: what has one core, or one core for each copy, the own first."""

    name: str
    segments: tuple[Segment, ...]
    homes: tuple[int, ...]

    @property
    def core(self) -> int:
        return self.homes[0]

    @property
    def is_flexible(self) -> bool:
        return len(self.homes) > 1

    @property
    def inputs(self) -> tuple[Segment, ...]:
        """All that channels lead to: the sides where streams meet, else the loop; none, where it reads the source."""
        first = self.segments[0]
        return first.sides if first.sides else ((first,) if first.feeder is not None else ())


def _plan_of(costs: NodeCosts, choice: RunChoice) -> Plan:
    """The plan of a run that chooses so, as far as it needs no loop to be written."""
    request = PlanRequest(width=choice.width)
    if choice.cores > 1:
        profile = costs.profile if choice.by_profile and choice.block_items is None else None
        request = PlanRequest(cores=choice.cores, places=choice.places, profile=profile, block_items=choice.block_items)
    try:
        return plan(costs.leaves, request, LAYOUT)
    except GraphError as error:  # what a run refuses has no model
        raise ModelError(str(error).replace("run: ", "model: ", 1)) from None


class RunParts:
    """The parts of a run of a graph, with the channels between them."""

    def __init__(self, costs: NodeCosts, choice: RunChoice) -> None:
        self.costs, self.choice = costs, choice
        self.plan = _plan_of(costs, choice)
        self.segments = self.plan.segments
        self.parts = self._parts()
        self.part_of = {segment: part for part in self.parts for segment in part.segments}
        self.takers = self._takers()
        self.block = min(self.width(part.segments[0]) / self._rate(part.segments[0]) for part in self.parts)
        """How many items of the source make a block here: so many that every loop fires once for it, or less often."""
        self.firings: dict[RunPart, float] = {}
        """How often a part fires for a block: at most once, and as often as the part before.

        But the core with the most to do waits until a part has all the items that it takes at a time.
        """
        own = {part: self.block * self._rate(part.segments[0]) / self.width(part.segments[0]) for part in self.parts}
        for part in reversed(self.parts):  # one whose channel is full before it has all its items fires as room is made
            full = [taker for fed, taker in self.takers[part] if self.items(fed) > own[part] * self.capacity(fed, part)]
            own[part] = max([own[part], *(own[taker] for taker in full)])
        busiest = self._busiest()
        for part in self.parts:
            before = [each for _, each in self.feeders(part) if not part.core == each.core == busiest]
            self.firings[part] = min(1.0, max([own[part], *(self.firings[each] for each in before)]))

    def _busiest(self) -> int:
        loads = [0.0] * self.choice.cores
        for part in self.parts:
            for core in part.homes:
                loads[core] += sum(self.costs.work_s(segment) for segment in part.segments) / len(part.homes)
        return loads.index(max(loads))

    def _rate(self, segment: Segment) -> float:
        return self.costs.items_in(segment) or 1.0 / WIDTH

    # Parts and their cores

    def _parts(self) -> list[RunPart]:
        names = dict(zip(self.segments, distinct(segment.name for segment in self.segments), strict=True))
        parts = []
        for segment in self.segments:
            if segment.copies and segment.has_functions:
                continue  # it goes with the loop of its functions
            members = (segment,) if segment.joint is None else (segment.joint, segment)
            parts.append(RunPart(names[segment], members, self.plan.loops[segment].cores))
        return parts

    def _takers(self) -> dict[RunPart, list[tuple[Segment, RunPart]]]:
        """For each part the channels that leave it, by what they lead to, and the part there."""
        takers: dict[RunPart, list[tuple[Segment, RunPart]]] = {part: [] for part in self.parts}
        for part in self.parts:
            for fed in part.inputs:
                assert fed.feeder is not None
                takers[self.part_of[fed.feeder]].append((fed, part))
        return takers

    def feeders(self, part: RunPart) -> list[tuple[Segment, RunPart]]:
        """The channels that lead to a part, and the parts that they come from."""
        return [(fed, self.part_of[fed.feeder]) for fed in part.inputs if fed.feeder is not None]

    def entry_core(self, part: RunPart) -> int:
        """Where what comes to a part is taken: before copies, where the part before is at home."""
        return self.feeders(part)[0][1].core if part.is_flexible else part.core

    def exit_core(self, part: RunPart) -> int:
        """Where what comes of a part is given: behind copies, where it is taken next."""
        if not part.is_flexible or not self.takers[part]:
            return part.core
        return self.entry_core(self.takers[part][0][1])

    # Blocks and channels

    def width(self, segment: Segment) -> int:
        """The most items that a loop takes at a time."""
        width, given = self.plan.width(segment), self._given_capacity(segment)
        if given is None or self.choice.cores == 1 or self.plan.request.profile is not None:
            return width
        return min(width, given)

    def _given_capacity(self, fed: Segment) -> int | None:
        capacity = self.choice.capacity
        return capacity.get(fed.edge) if isinstance(capacity, Mapping) else (None if fed.feeder is None else capacity)

    def capacity(self, fed: Segment, sender: RunPart) -> int:
        """How many items the channel to a loop, or to a side, holds."""
        given = self._given_capacity(fed)
        if given is not None:
            return given
        width = self.width(fed)
        is_shared = sender.is_flexible or any(part.is_flexible for at, part in self.takers[sender] if at is fed)
        return usual(width, self.costs.item_bytes(fed.edge), is_shared, self.plan.sizes.many)

    def items(self, fed: Segment) -> float:
        """How many items of a block pass a channel."""
        return self.costs.items_out(fed.edge) * self.block

    def bytes(self, fed: Segment) -> float:
        """How many bytes of a block pass a channel."""
        return self.costs.channel_bytes(fed) * self.block

    def memory_bytes(self) -> float:
        """The bytes of all channels: a queue has room for twice what it holds."""
        channels = [(fed, part) for part in self.parts for fed, _ in self.takers[part]]
        return sum(2.0 * self.costs.item_bytes(fed.edge) * self.capacity(fed, part) for fed, part in channels)
