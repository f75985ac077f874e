"""How often a node tells the next ones how far it has come: the heartbeat intervals of a plan's channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.graph.needs import at_field
from penstock.plan.capacity import Bounds
from penstock.plan.fuse import Segment, fed_segments
from penstock.plan.heartbeat import Edge, intervals, limits
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Heartbeats:
    """The intervals of one clock: for each channel, by what it feeds, the most indices between two heartbeats.

    Where the plan has chosen them, `edges` are the channels whose items carry an index, as edges between `nodes` groups
    of loops.
    """

    clock: str
    stem: n.GraphNode
    intervals: dict[Segment, int]
    nodes: int = 0
    edges: dict[Segment, Edge] | None = None

    def explain(self, fed: Segment) -> str:
        """The interval of a channel, and what limits it."""
        told = f"every {self.intervals[fed] + 1:,} of {self.stem.label}"
        if self.edges is None:
            return f"{told}; asked for"
        if fed not in self.edges:
            return f"{told}; here items lie in lists, and it is told with each list"
        listed = list(self.edges)
        safe = [self.intervals[each] for each in listed]
        cycle = limits(self.nodes, list(self.edges.values()), safe, listed.index(fed))
        if cycle is None or cycle.is_capacity:
            return f"{told}; the channel holds no more" if cycle is not None else told
        along = " and ".join(_name(listed[edge]) for edge in cycle.along)
        against = " and ".join(_name(listed[edge]) for edge in cycle.against)
        held = sum(self.edges[listed[edge]].capacity for edge in cycle.against)
        return f"{told}; the intervals of {along} must be less than the {held:,} that {against} hold"


def _name(fed: Segment) -> str:
    assert fed.feeder is not None
    return f"{fed.feeder.name} → {fed.name}"


def heartbeats(planned: Plan, bounds: Mapping[Segment, Bounds], wanted: int | str | None) -> list[Heartbeats]:
    """The intervals of all channels behind which streams meet, by clock: as asked for, or the largest that are safe."""
    if wanted == "never":
        return []
    stems = {at_field(planned.tree, n.stem(meet.sides[0])): n.stem(meet.sides[0]) for meet in planned.clocks.meets}
    found = []
    for clock, stem in stems.items():
        fed = [each for each in fed_segments(planned.segments) if clock in planned.clocks.beats_at(each.edge)]
        if isinstance(wanted, int):
            found.append(Heartbeats(clock, stem, dict.fromkeys(fed, wanted)))
        else:
            found.append(_chosen(planned, bounds, clock, stem, fed))
    return found


def _chosen(
    planned: Plan, bounds: Mapping[Segment, Bounds], clock: str, stem: n.GraphNode, fed: list[Segment]
) -> Heartbeats:
    """Safe intervals, the smallest as large as can be. Where items carry no index, it is told with every region."""
    number = _numbers(planned, clock, fed)
    edges = {
        each: Edge(number[_from(each)], number[_to(planned, each)], bounds[each].items)
        for each in fed
        if _carries(planned, each, clock)
    }
    nodes = len(set(number.values()))
    found = dict(zip(edges, intervals(nodes, list(edges.values()), "minimum"), strict=True))
    return Heartbeats(clock, stem, {each: found.get(each, 0) for each in fed}, nodes, edges)


def _carries(planned: Plan, fed: Segment, clock: str) -> bool:
    """Whether the items on a channel carry an index of this clock; others lie in lists within them."""
    return at_field(planned.tree, n.stem(fed.edge)) == clock


def _numbers(planned: Plan, clock: str, fed: list[Segment]) -> dict[Segment, int]:
    """Numbers of the nodes; one for those between which no item carries an index, as if no channel lay there."""
    group: dict[Segment, Segment] = {segment: segment for segment in planned.segments}

    def root(segment: Segment) -> Segment:
        while group[segment] is not segment:
            segment = group[segment]
        return segment

    for sender, receiver in _uncounted(planned, clock, fed):
        group[root(sender)] = root(receiver)
    roots = dict.fromkeys(root(segment) for segment in planned.segments)
    numbers = {each: number for number, each in enumerate(roots)}
    return {segment: numbers[root(segment)] for segment in planned.segments}


def _uncounted(planned: Plan, clock: str, fed: list[Segment]) -> Iterator[tuple[Segment, Segment]]:
    """The channels between where streams part and where they meet on which no item carries an index.

    And what reads the source: all such loops go through a batch of it before one of them has the next.
    """
    tree = planned.tree
    readers = [segment for segment in planned.segments if segment.feeder is None and not segment.sides]
    yield from ((readers[0], reader) for reader in readers[1:])
    meets = [meet for meet in planned.clocks.meets if at_field(tree, n.stem(meet.sides[0])) == clock]
    for each in fed_segments(planned.segments):
        if each in fed and _carries(planned, each, clock):
            continue
        for meet in meets:
            fork = tree.fork[meet]
            if (each.edge is fork or each.edge in tree.below(fork)) and meet in tree.below(each.edge):
                yield _from(each), _to(planned, each)


def _from(fed: Segment) -> Segment:
    assert fed.feeder is not None
    return fed.feeder


def _to(planned: Plan, fed: Segment) -> Segment:
    """What takes from a channel: a loop, or the node at which its stream meets others."""
    return next(segment for segment in planned.segments if fed is segment or fed in segment.sides)
