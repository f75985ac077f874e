"""How often a node tells the next ones how far it has come: the heartbeat intervals of a plan's channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.graph import nodes as n
from penstock.graph.needs import at_field
from penstock.plan.capacity import Bounds
from penstock.plan.fuse import Segment, fed_segments
from penstock.plan.heartbeat import Edge, intervals
from penstock.plan.plan import Plan

Intervals = dict[Segment, dict[str, int]]
"""For each channel, by what it feeds, and each clock the largest number of indices between two heartbeats."""


def intervals_of(planned: Plan, bounds: Mapping[Segment, Bounds], wanted: int | str | None) -> Intervals:
    """The intervals of all channels behind which streams meet: as asked for, or the largest that are safe."""
    found: Intervals = {}
    if wanted == "never":
        return found
    clocks = dict.fromkeys(at_field(planned.tree, n.stem(meet.sides[0])) for meet in planned.clocks.meets)
    for clock in clocks:
        fed = [each for each in fed_segments(planned.segments) if clock in planned.clocks.beats_at(each.edge)]
        chosen = [wanted] * len(fed) if isinstance(wanted, int) else _chosen(planned, bounds, clock, fed)
        for each, interval in zip(fed, chosen, strict=True):
            found.setdefault(each, {})[clock] = interval
    return found


def _chosen(planned: Plan, bounds: Mapping[Segment, Bounds], clock: str, fed: list[Segment]) -> list[int]:
    """Safe intervals, the smallest as large as can be. Where items carry no index, it is told with every region."""
    number = _numbers(planned, clock, fed)
    counted = [each for each in fed if _carries(planned, each, clock)]
    edges = [Edge(number[_from(each)], number[_to(planned, each)], bounds[each].items) for each in counted]
    found = dict(zip(counted, intervals(len(set(number.values())), edges, "minimum"), strict=True))
    return [found.get(each, 0) for each in fed]


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
    """The channels between where streams part and where they meet on which no item carries an index."""
    tree = planned.tree
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
