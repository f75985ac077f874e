"""How often a node tells the next ones how far it has come: the heartbeat intervals of a plan's channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.graph.needs import at_field
from penstock.graph.tree import above
from penstock.plan.heartbeat.cycles import Edge
from penstock.plan.heartbeat.intervals import intervals
from penstock.plan.heartbeat.proof import limits
from penstock.plan.passes.size import Bounds, least
from penstock.plan.plan import Plan
from penstock.plan.segment import Segment, fed_segments


@dataclass(frozen=True)
class Heartbeats:
    """The intervals of one clock: for each channel, by what it feeds, the most indices between two heartbeats.

    Where the plan has chosen them, `edges` are the channels that hold whole indices, as edges between `nodes` groups of
    loops, and those from the source to all that read it.
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
            return f"{told}; here are lists, or signals from within lists, and it is told with each list"
        listed = list(self.edges)
        safe = [self.intervals.get(each, 0) for each in listed]
        cycle = limits(self.nodes, list(self.edges.values()), safe, listed.index(fed))
        if cycle is None or cycle.is_capacity:
            return f"{told}; the channel holds no more" if cycle is not None else told
        along = " and ".join(_name(listed[edge]) for edge in cycle.along)
        against = " and ".join(_name(listed[edge]) for edge in cycle.against)
        held = sum(self.edges[listed[edge]].capacity for edge in cycle.against)
        return f"{told}; the intervals of {along} must be less than the {held:,} that {against} hold"


def _name(fed: Segment) -> str:
    return f"{fed.feeder.name if fed.feeder is not None else 'the source'} → {fed.name}"


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
    """The safe intervals with the largest sum. Where a channel may hold less than an index, it is told with each."""
    holds = {each: _holds(planned, bounds[each], clock, each) for each in fed}
    counted = [each for each in fed if holds[each] > 0]
    while True:
        number = _numbers(planned, clock, counted)
        edges = {each: Edge(number[_from(each)], number[_to(planned, each)], holds[each]) for each in counted}
        beside = _in_circles(edges)
        if not beside:
            break
        counted = [each for each in counted if each not in beside]
    count = len(set(number.values()))
    readers = [each for each in planned.segments if each.feeder is None and not each.sides]
    if len(readers) > 1:  # all go through a batch before one of them has the next: from the source to each there is one
        edges |= {each: Edge(count, number[each], 1) for each in readers}
        count += 1
    found = dict(zip(edges, intervals(count, list(edges.values())), strict=True))
    return Heartbeats(clock, stem, {each: found.get(each, 0) for each in fed}, count, edges)


def is_central(planned: Plan, found: Sequence[Heartbeats], joint: Segment) -> bool:
    """Whether the sides of a flexible join are shared out together: as asked for, or because they have to be.

    That is so where those behind are to be told how far it has come, and the split of one side cannot know that: by the
    clock of another stem, or where signals may stand behind an item.
    """
    assert isinstance(joint.meet, n.Join)
    clock = at_field(planned.tree, n.stem(joint.meet))
    behind = [fed for fed in fed_segments(planned.segments) if fed.feeder in (joint, *_functions_of(planned, joint))]
    told = {beats.clock for beats in found if not beats.intervals.keys().isdisjoint(behind)}
    emits = any(isinstance(node, n.Emit) and n.stem(node) is n.stem(joint.meet) for node in above(joint.meet))
    return joint.meet.split == "central" or not told <= {clock} or (bool(told) and emits)


def _functions_of(planned: Plan, joint: Segment) -> list[Segment]:
    return [segment for segment in planned.segments if segment.joint is joint]


def _in_circles(edges: Mapping[Segment, Edge]) -> set[Segment]:
    """The channels beside ways that can be counted on for no index at all: they lead from a node to itself."""
    after: dict[int, list[int]] = {}
    for edge in edges.values():
        after.setdefault(edge.sender, []).append(edge.receiver)
    reached: dict[int, set[int]] = {}
    for start in {edge.receiver for edge in edges.values()}:
        found, waiting = {start}, [start]
        while waiting:
            new = [node for node in after.get(waiting.pop(), ()) if node not in found]
            found.update(new)
            waiting += new
        reached[start] = found
    return {each for each, edge in edges.items() if edge.sender in reached[edge.receiver]}


def _holds(planned: Plan, bounds: Bounds, clock: str, fed: Segment) -> int:
    """How many indices lie between the first that a channel holds and its sender, at least, when that has to wait.

    It waits for room for the most that comes of one item: of items, of which there is one an index, or of marks. Only
    marks that are not on all sides count, for the others say themselves how far a side has come: those are signals that
    were emitted, one behind an item for each node that does. With balance credit there is a message of credit for each,
    and one besides. Items without an index lie in a list within one, as do signals of which there may be any number.
    """
    behind, within = planned.clocks.emits_above(fed.edge, clock)
    if within or at_field(planned.tree, n.stem(fed.edge)) != clock:
        return 0
    items, marks = least(next(sink for sink in planned.codes[_from(fed)].sinks if sink.feeds is fed))
    found = bounds.items - items + 1
    is_balanced = bounds.threshold is not None
    full = bounds.signals - marks - is_balanced + 1  # of so many marks or more it may have to wait
    if behind:
        found = min(found, max(_quotient(full - is_balanced, behind * (1 + is_balanced)), 1))
    elif is_balanced and full <= 1:
        found = 1
    return found


def _quotient(a: int, b: int) -> int:
    """Rounded up."""
    return -(-a // b)


def _numbers(planned: Plan, clock: str, counted: list[Segment]) -> dict[Segment, int]:
    """Numbers of the nodes; one for those between which no index can be counted on, as if no channel lay there."""
    group: dict[Segment, Segment] = {segment: segment for segment in planned.segments}

    def root(segment: Segment) -> Segment:
        while group[segment] is not segment:
            segment = group[segment]
        return segment

    for sender, receiver in _uncounted(planned, clock, counted):
        group[root(sender)] = root(receiver)
    roots = dict.fromkeys(root(segment) for segment in planned.segments)
    numbers = {each: number for number, each in enumerate(roots)}
    return {segment: numbers[root(segment)] for segment in planned.segments}


def _uncounted(planned: Plan, clock: str, counted: list[Segment]) -> Iterator[tuple[Segment, Segment]]:
    """The other channels between where streams part and where they meet."""
    tree = planned.tree
    meets = [meet for meet in planned.clocks.meets if at_field(tree, n.stem(meet.sides[0])) == clock]
    for each in fed_segments(planned.segments):
        if each in counted:
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
