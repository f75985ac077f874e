"""A flexible join in a run: copies of it, with the loops of its functions, between splits and merges.

A copy has a channel for each side. Where the join has functions, a loop behind each copy calls them, on its core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.engine.actor import Beat
from penstock.engine.build import PartsBuilder
from penstock.engine.channel import Channel
from penstock.engine.flexible.align_split import JoinSplit
from penstock.engine.flexible.beta_split import FirstSplit, NextSplit
from penstock.engine.flexible.flexible_node import Flexible, Way, add_merges, flexible_node, loop_of, ways_out
from penstock.engine.flexible.split_side import Side
from penstock.engine.joint import Sides, sharing
from penstock.engine.sinks import ChannelSink
from penstock.plan.mark_types import RunEnd
from penstock.plan.segment import Segment


def flexible(build: PartsBuilder, segment: Segment, sinks: Sequence[ChannelSink]) -> Iterator[Flexible]:
    """The parts of a flexible node; those of a join with functions come with the loop that calls them."""
    if segment.sides:
        if not segment.has_functions:
            yield _join(build, segment, segment, sinks)
    elif segment.joint is not None:
        yield _join(build, segment.joint, segment, sinks)
        del build.parts.channels[segment]  # it was a pattern for those of the copies
    else:
        yield flexible_node(build, segment, sinks)


def _join(build: PartsBuilder, joint: Segment, last: Segment, sinks: Sequence[ChannelSink]) -> Flexible:
    """Make the parts of a flexible join; `last` is the loop of its functions, or the join itself."""
    befores, homes = [build.plan.channels[side].receiver_core for side in joint.sides], build.plan.loops[last].cores
    into = [
        [Way(build.parts.channels[side], before, home) for home in homes]
        for side, before in zip(joint.sides, befores, strict=True)
    ]
    splits, planned = _splits(build, joint, into), build.plan.sharings[joint]
    # A central split knows where a run ends when it begins; with others only the copies can tell before it has.
    early = () if planned.is_central else planned.clocks
    made = Flexible(splits[0], [*dict.fromkeys(splits)], cores=dict(zip(splits, befores, strict=True)))
    made.readers |= dict(zip(joint.sides, splits, strict=True))
    ends, out = [], []
    for copy, home in enumerate(homes):
        ways, leaving = [side[copy] for side in into], ways_out(build, sinks, home)
        nodes = _copy(build, joint, last, copy, [way.receiving for way in ways], sinks, leaving)
        if home == befores[0]:
            splits[0].policy.beside, splits[0].policy.nodes = copy, nodes
        for node in nodes:
            node.beats = [
                Beat(sink.channel, clock, 0, None)
                for sink in node.sinks
                for clock in early
                if clock in sink.channel.progress.told
            ]
        made.nodes += nodes
        made.cores |= dict.fromkeys(nodes, home)
        for split, way in zip(splits, ways, strict=True):
            made.crossings += way.crossing(split, nodes[0])
        ends.append(nodes[-1])
        out.append(leaving)
    add_merges(build, made, last, sinks, ends, out)
    made.merges += [split for split in made.nodes if isinstance(split, NextSplit)]
    return made


def _splits(build: PartsBuilder, joint: Segment, into: Sequence[Sequence[Way]]) -> list[Any]:
    """Who takes from each side."""
    assert joint.meet is not None
    plan, run_end, clock = build.plan, build.plan.signals.index(RunEnd), build.clock_of(joint)
    channels = [build.parts.channels[side] for side in joint.sides]
    sending = [[way.sending for way in ways] for ways in into]
    sides = [Side(channel, copies, clock, run_end) for channel, copies in zip(channels, sending, strict=True)]
    given = (plan.sizes.channel_items, build.options.clock, build.firings)
    planned = plan.sharings[joint]
    if planned.is_central:
        shared = sharing(plan.tree, joint.meet)
        return [JoinSplit(joint, Sides(channels, clock), sides, shared, planned.clocks, *given)] * len(sides)
    is_late = planned.is_late
    first = FirstSplit(joint, sides[0], bool(planned.clocks), is_late, *given)
    return [first, *(NextSplit(joint, number, side, is_late, *given) for number, side in enumerate(sides[1:], 1))]


def _copy(
    build: PartsBuilder,
    joint: Segment,
    last: Segment,
    copy: int,
    sources: Sequence[Channel],
    sinks: Sequence[ChannelSink],
    ways: Sequence[Way],
) -> list[Any]:
    """One of the joins that do the same, with the loop of its functions; the first is the join's own."""
    if last is joint:
        writing = [ChannelSink(sink.sink, way.sending) for sink, way in zip(sinks, ways, strict=True)]
    else:
        (sink,) = build.plan.codes[joint].sinks
        writing = [ChannelSink(sink, build.parts.channels[last].twin())]
    node = build.joint(joint, sources, writing)
    if copy:
        node.name = f"{joint.name} (copy {copy})"
    if last is joint:
        return [node]
    return [node, loop_of(build, last, copy, writing[0].channel, sinks, ways)]
