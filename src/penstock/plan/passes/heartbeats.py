"""How often a node tells the next ones how far it has come: the heartbeat intervals of a plan's channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.graph import nodes as n
from penstock.graph.needs import at_field
from penstock.plan.heartbeat.cycles import Edge
from penstock.plan.heartbeat.intervals import intervals
from penstock.plan.heartbeat.reasons import Heartbeats
from penstock.plan.plan import BeatPlan, ChannelPlan, Plan
from penstock.plan.segment import Segment, fed_segments


def heartbeats(plan: Plan) -> Plan:
    """Choose how often senders report how far they have come.

    Requires channels with their bounds, and the code of the loops, which may count the items of a stem.
    Ensures, for each clock by which streams meet, the intervals of all channels on the way there: as asked for, or the
    largest that are safe; and at each channel those that are its own. With "never" there are none.
    """
    wanted, meets = plan.request.heartbeat, plan.clocks.meets
    if wanted == "never":
        return plan
    stems = {at_field(plan.tree, n.stem(meet.sides[0])): n.stem(meet.sides[0]) for meet in meets}
    found = []
    for clock, stem in stems.items():
        fed = [each for each in fed_segments(plan.segments) if clock in plan.clocks.beats_at(each.edge)]
        if isinstance(wanted, int):
            found.append(Heartbeats(clock, stem, dict.fromkeys(fed, wanted)))
        else:
            found.append(_choose(plan, clock, stem, fed))
    channels = {fed: replace(each, beats=tuple(_beats(plan, found, each))) for fed, each in plan.channels.items()}
    return replace(plan, heartbeats=tuple(found), channels=channels)


def _beats(plan: Plan, found: Sequence[Heartbeats], channel: ChannelPlan) -> Iterator[BeatPlan]:
    """The heartbeats of one channel, by clock."""
    for each in found:
        if channel.fed in each.intervals:
            counter = plan.clocks.counter(channel.feeder, channel.sink.node, each.clock)
            at = None if counter is None else plan.codes[channel.feeder].integers.index(counter)
            yield BeatPlan(each.clock, each.intervals[channel.fed], at, bool(plan.request.heartbeat))


def _choose(plan: Plan, clock: str, stem: n.GraphNode, fed: list[Segment]) -> Heartbeats:
    """The safe intervals with the largest sum. Where a channel may hold less than an index, it is told with each."""
    holds = {each: _holds(plan, plan.channels[each], clock) for each in fed}
    counted = [each for each in fed if holds[each] > 0]
    while True:
        number = _numbers(plan, clock, counted)
        edges = {each: Edge(number[_from(each)], number[plan.receiver(each)], holds[each]) for each in counted}
        beside = _in_circles(edges)
        if not beside:
            break
        counted = [each for each in counted if each not in beside]
    count = len(set(number.values()))
    readers = [each for each in plan.segments if each.feeder is None and not each.sides]
    if len(readers) > 1:  # all go through a batch before one of them has the next: from the source to each there is one
        edges |= {each: Edge(count, number[each], 1) for each in readers}
        count += 1
    found = dict(zip(edges, intervals(count, list(edges.values())), strict=True))
    return Heartbeats(clock, stem, {each: found.get(each, 0) for each in fed}, count, edges)


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


def _holds(plan: Plan, channel: ChannelPlan, clock: str) -> int:
    """How many indices lie between the first that a channel holds and its sender, at least, when that has to wait.

    It waits for room for the most that comes of one item: of items, of which there is one an index, or of marks. Only
    marks that are not on all sides count, for the others say themselves how far a side has come: those are signals that
    were emitted, one behind an item for each node that does. With balance credit there is a message of credit for each,
    and one besides. Items without an index lie in a list within one, as do signals of which there may be any number.
    """
    fed, bounds = channel.fed, channel.bounds.value
    behind, within = plan.clocks.emits_above(fed.edge, clock)
    if within or at_field(plan.tree, n.stem(fed.edge)) != clock:
        return 0
    found = bounds.items - channel.items + 1
    is_balanced = bounds.threshold is not None
    full = bounds.signals - channel.marks - is_balanced + 1  # of so many marks or more it may have to wait
    if behind:
        found = min(found, max(_quotient(full - is_balanced, behind * (1 + is_balanced)), 1))
    elif is_balanced and full <= 1:
        found = 1
    return found


def _quotient(a: int, b: int) -> int:
    """Rounded up."""
    return -(-a // b)


def _numbers(plan: Plan, clock: str, counted: list[Segment]) -> dict[Segment, int]:
    """Numbers of the nodes; one for those between which no index can be counted on, as if no channel lay there."""
    group: dict[Segment, Segment] = {segment: segment for segment in plan.segments}

    def root(segment: Segment) -> Segment:
        while group[segment] is not segment:
            segment = group[segment]
        return segment

    for sender, receiver in _uncounted(plan, clock, counted):
        group[root(sender)] = root(receiver)
    roots = dict.fromkeys(root(segment) for segment in plan.segments)
    numbers = {each: number for number, each in enumerate(roots)}
    return {segment: numbers[root(segment)] for segment in plan.segments}


def _uncounted(plan: Plan, clock: str, counted: list[Segment]) -> Iterator[tuple[Segment, Segment]]:
    """The other channels between where streams part and where they meet."""
    tree = plan.tree
    meets = [meet for meet in plan.clocks.meets if at_field(tree, n.stem(meet.sides[0])) == clock]
    for each in fed_segments(plan.segments):
        if each in counted:
            continue
        for meet in meets:
            fork = tree.fork[meet]
            if (each.edge is fork or each.edge in tree.below(fork)) and meet in tree.below(each.edge):
                yield _from(each), plan.receiver(each)


def _from(fed: Segment) -> Segment:
    assert fed.feeder is not None
    return fed.feeder
