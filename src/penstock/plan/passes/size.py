"""How many items each loop takes at a time, and how much each channel holds.

A node may fire when the most that comes of one item or mark fits into every channel behind it. So the smallest legal
capacity is that most: of items, and of marks, which are signals and boundaries of regions. With balance credit the
control queue holds one message of credit besides, and the threshold leaves room for what comes of one item: were fewer
items than the threshold enough to keep the sender from firing, neither side would go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import GraphError, InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.plan.balance import BLOCK, blocks
from penstock.plan.plan import Bounds, ChannelPlan, Decision, LoopPlan, Plan, Sizes
from penstock.plan.request import BATCH_ITEMS, WIDTH
from penstock.plan.segment import Segment

if TYPE_CHECKING:
    from penstock.codegen.outlets import Sink

HEAPED_BYTES = 1 << 22
"""What a loop computes of lists and arrays while it fires should stay in a core's own cache, or near it."""
MANY, ROOMY, ROOMY_BYTES = 64, 1 << 17, 1 << 23
"""A channel holds so many ensembles, unless that is more than so many items or bytes; but two ensembles at least."""
SHARED, AHEAD = 16, 2
"""So many ensembles a channel holds to or from a flexible node, where results wait to be put in order; and so many of
them a copy on another core is given ahead: the less, the later it is decided who does what."""
TWICE = 2
"""A queue has room for twice its capacity."""


def size(plan: Plan) -> Plan:
    """Choose how many items loops take at a time, and how many items and marks channels hold.

    Requires segments; and the code of the loops, or there are no channels.
    Ensures a width for every loop, and bounds for every channel that has room for the most that one item sends.
    """
    asked = plan.request
    by_cost: Mapping[Segment, int] = {}
    if asked.cores > 1 and asked.profile is not None and asked.width is None and asked.block_items is None:
        by_cost = blocks(plan.tree.leaves, plan.segments, asked.profile)
    capacity, reason = asked.capacity, "as asked for" if asked.capacity else "as usual"
    width = None if asked.width is None else Decision(asked.width, "as asked for")
    if asked.memory is not None or asked.delay is not None:
        within = capacity_within(plan)
        if within is not None:
            capacity, reason = within, "the most within memory= and delay="
            width = width or Decision(max(1, within // 2), "half of what a channel holds")
    sizes = replace(_sizes(plan, width), capacity=capacity, many=SHARED if by_cost else MANY, reason=reason)
    loops = {each: LoopPlan(each, _width(each, width, sizes, by_cost)) for each in plan.segments}
    plan = replace(plan, sizes=sizes, loops=loops)
    wanted = WantedBounds(capacity, asked.capacity_signals, asked.is_balanced, asked.threshold, sizes.many)
    channels = {}
    for fed, sink in plan.cuts():
        assert fed.feeder is not None
        found = bounds(fed.feeder, sink, replace(wanted, width=plan.width(fed)))
        channels[fed] = ChannelPlan(fed, sink, *least(sink), Decision(found, reason))
    return replace(plan, channels=channels)


def _sizes(plan: Plan, asked_width: Decision[int] | None) -> Sizes:
    """What all loops go by: a width as asked for, or the usual ones; on several cores, at most a block."""
    asked, width = plan.request, None if asked_width is None else asked_width.value
    block = asked.block_items if asked.cores > 1 else None
    if block is None and width is None and asked.cores > 1 and plan.tree.places.copies:
        block = BLOCK
    of_channel = width or WIDTH if block is None else min(width or WIDTH, block)
    of_source = asked.batch_items or BATCH_ITEMS
    if width is not None and asked.batch_items is None:  # whole ensembles
        of_source = max(of_source // width, 1) * width
    return Sizes(of_source, of_channel, block)


def _width(
    segment: Segment, width: Decision[int] | None, sizes: Sizes, by_cost: Mapping[Segment, int]
) -> Decision[int]:
    """How many items a loop takes at a time, and why."""
    if segment in by_cost:
        return Decision(by_cost[segment], "as many as take as long as a block is to")
    return loop_width(segment, width, sizes.block, sizes.source_items)


def loop_width(segment: Segment, asked: Decision[int] | None, block: int | None, source_items: int) -> Decision[int]:
    """The most items that a loop takes at a time.

    That is what was asked for, or what the source gives at a time, or what is usual for a channel; at most a block, if
    there are blocks. Lists and arrays that the loop computes stay until it has fired: unless a width was asked for, it
    takes no more items than keep these in the cache.
    """
    is_reader = segment.feeder is None and not segment.sides
    most, reason = (source_items, "what the source gives at a time") if is_reader else (WIDTH, "as usual")
    if asked is not None:
        most, reason = asked.value, asked.reason
    if block is not None and block < most:
        most, reason = block, "a block"
    item_bytes = 0 if asked is not None else sum(map(_computed_bytes, segment.nodes))
    if item_bytes and HEAPED_BYTES // item_bytes < most:
        return Decision(max(1, HEAPED_BYTES // item_bytes), "what it computes of each stays in the cache")
    return Decision(most, reason)


def _computed_bytes(node: n.GraphNode) -> int:
    """What a node computes for an item that has no place in a column of numbers: lists, arrays and texts."""
    if isinstance(node, n.Map):
        made = [t for _, function in node.outputs for t in function.returns]
    elif isinstance(node, n.FlatMap):
        made = list(node.pushed_types)
    elif isinstance(node, n.Through):
        made = list(node.shape.fields.values())
    elif isinstance(node, n.Regions):
        made = list(node.shape.regions[-1].fields.values())
    else:
        made = []
    return sum(types.size(t) for t in made if not types.is_scalar(t))


@dataclass(frozen=True, slots=True)
class WantedBounds:
    """What was asked for: capacities and a threshold, None where the plan is to choose, for ensembles of a width.

    `many` is how many ensembles a channel is to hold, where that is open.
    """

    items: int | None = None
    signals: int | None = None
    is_balanced: bool = False
    threshold: int | None = None
    many: int = MANY
    width: int = WIDTH


def least(sink: Sink) -> tuple[int, int]:
    """The most items, and the most marks, that one item or mark sends through a cut; more marks where copies share it.

    A copy that takes over may have to hear of all regions that have closed and opened meanwhile, before its first mark;
    and its run ends with one.
    """
    assert sink.marks is not None
    items, marks = sink.items.buffer.most, sink.marks.most
    if items is None or marks is None:
        raise InternalError(f"{sink.node.label}: how much comes of one item is not bounded")
    shared = 2 * len(sink.parents) + 2 if sink.feeds is not None and sink.feeds.copies else 0
    return max(items, 1), max(marks, shared)


def bytes_of(sink: Sink) -> int:
    """The bytes of an item, with its parents."""
    return sum(types.size(column.type) for outlet in (sink.items, *sink.parents) for column in outlet.columns) or 1


def parent_bytes(sink: Sink) -> int:
    """How many of these are those of the parents."""
    return sum(types.size(column.type) for outlet in sink.parents for column in outlet.columns)


def usual(width: int, item_bytes: int, is_shared: bool, many: int = MANY) -> int:
    """How many items a channel holds, where that is open: to or from a flexible node, or any other."""
    held, fewest, most = (SHARED, AHEAD + 1, SHARED * width) if is_shared else (many, 2, ROOMY)
    return max(fewest * width, min(held * width, most, ROOMY_BYTES // item_bytes))


def bounds(sender: Segment, sink: Sink, wanted: WantedBounds) -> Bounds:
    """The bounds of the channel behind a cut: as asked for, if they are large enough, else a few ensembles.

    Besides these there is room for the most that one item gives: a sender stops where that does not fit, and would else
    leave as much of the ensembles empty.
    """
    items, marks = least(sink)
    marks += wanted.is_balanced
    is_shared = sender.copies > 0 or (sink.feeds is not None and sink.feeds.copies > 0)
    room = usual(wanted.width, bytes_of(sink), is_shared, wanted.many)
    capacity = room + items - 1 if wanted.items is None else wanted.items
    signals = max(room, marks) if wanted.signals is None else wanted.signals
    where = f"run: the channel behind {sink.node.label}"
    if capacity < items:
        raise GraphError(
            f"{where} must hold at least {items} items, which is the most that one item gives in {sender.name}; got "
            f"capacity={capacity}; raise it, or lower at_most="
        )
    if signals < marks:
        raise GraphError(
            f"{where} must hold at least {marks} signals and boundaries of regions, which is the most that one item "
            f"gives in {sender.name}{', or a copy must be told' if sink.feeds and sink.feeds.copies else ''}"
            f"{', and a message of credit' if wanted.is_balanced else ''}; got capacity_signals={signals}"
        )
    return Bounds(capacity, max(signals, 1), _threshold(where, capacity, items, wanted))


def _threshold(where: str, capacity: int, items: int, wanted: WantedBounds) -> int | None:
    if not wanted.is_balanced:
        return None
    most = capacity - items
    if wanted.threshold is None:
        return min(most, wanted.width - 1)
    if wanted.threshold > most:
        raise GraphError(
            f"{where} holds {capacity} items and its sender needs room for {items}, so its threshold must be at most "
            f"{most}, or both sides could wait for each other; got threshold={wanted.threshold}"
        )
    return wanted.threshold


# Capacities within a bound, on the memory of all channels, or on how many items may lie before one on its way. A large
# capacity lets nodes fire on full ensembles, and one of them go on while the other waits; but all that it holds is
# memory, and an item waits behind all that lie before it. All channels get the same one, and an ensemble, in which
# items leave a node together, is half of it: so one is made while another is taken.


def capacity_within(plan: Plan) -> int | None:
    """The largest capacity with which channels have at most the bytes, and an item at most the items before it, asked.

    None where there is no channel.
    """
    sinks, memory, delay = [sink for _, sink in plan.cuts()], plan.request.memory, plan.request.delay
    if not sinks:
        return None
    found = []
    if memory is not None:
        found.append(memory // (TWICE * sum(bytes_of(sink) for sink in sinks)))
    if delay is not None:
        found.append(delay // max(channels_before(plan.segments).values()))
    most, needed = min(found), max(least(sink)[0] for sink in sinks)
    if most < needed:
        given = f"memory={memory:,}" if memory is not None else f"delay={delay:,}"
        raise GraphError(
            f"run: {len(sinks)} channels must each hold at least {needed} items; within {given} they hold {most}; "
            f"raise it, or run with fuse=True"
        )
    return most


def channels_before(segments: Sequence[Segment]) -> dict[Segment, int]:
    """How many channels lie before each loop, on the longest way from the source."""
    found: dict[Segment, int] = {}
    for segment in segments:
        feeders = [each.feeder for each in (segment.sides or (segment,)) if each.feeder is not None]
        found[segment] = max((1 + found[feeder] for feeder in feeders), default=0)
    return found
