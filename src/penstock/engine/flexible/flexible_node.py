"""A flexible node in a run: the split, the copies and the merges, with the channels between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.engine.actor import Beat
from penstock.engine.build import PartsBuilder
from penstock.engine.channel import Channel
from penstock.engine.crossing import Crossing
from penstock.engine.flexible.align_split import JoinSplit
from penstock.engine.flexible.beta_split import FirstSplit
from penstock.engine.flexible.copy_merge import Copies, FlexMerge
from penstock.engine.flexible.copy_split import FlexSplit
from penstock.engine.node import RunningNode
from penstock.engine.sinks import ChannelSink
from penstock.plan.mark_types import RunEnd
from penstock.plan.segment import Segment


@dataclass
class Flexible:
    """The running parts of one flexible node, where each is at work, and the channels that cross between cores."""

    split: FlexSplit | JoinSplit | FirstSplit
    nodes: list[Any] = field(default_factory=list)
    merges: list[Any] = field(default_factory=list)
    """All that hear of what the split selects."""
    cores: dict[Any, int] = field(default_factory=dict)
    crossings: list[tuple[Any, Crossing, Any]] = field(default_factory=list)
    readers: dict[Segment, Any] = field(default_factory=dict)
    """Who takes from each side, where this is a join."""

    def look_around(self, cores: Mapping[Any, int]) -> None:
        """Tell the split what else there is to do on its core."""
        loops = [node for node in cores if node.role == "loop" and node not in self.nodes]
        self.split.policy.neighbours = [node for node in loops if cores[node] == cores[self.split]]


def flexible_node(build: PartsBuilder, segment: Segment, sinks: Sequence[ChannelSink]) -> Flexible:
    """Make the parts of a flexible node, between the channel that leads to it and those that lead away."""
    given, planned, clock = build.parts.channels[segment], build.plan.loops[segment], build.options.clock
    run_end, before = build.plan.signals.index(RunEnd), build.plan.channels[segment].receiver_core
    into = [Way(given, before, home) for home in planned.cores]
    copies = [way.sending for way in into]
    split = FlexSplit(segment, given, copies, run_end, planned.width.value, clock, build.firings)
    made = Flexible(split, [split], cores={split: before})
    loops, out = [], []
    for copy, (home, way) in enumerate(zip(planned.cores, into, strict=True)):
        ways = ways_out(build, sinks, home)
        loops.append(loop_of(build, segment, copy, way.receiving, sinks, ways))
        out.append(ways)
        made.cores[loops[-1]] = home
        made.crossings += way.crossing(split, loops[-1])
        if home == before:
            split.policy.beside, split.policy.nodes = copy, [loops[-1]]
    made.nodes += loops
    add_merges(build, made, segment, sinks, loops, out)
    return made


def add_merges(
    build: PartsBuilder,
    made: Flexible,
    segment: Segment,
    sinks: Sequence[ChannelSink],
    loops: Sequence[Any],
    out: Sequence[Sequence[Way]],
) -> None:
    """Add a merge for each channel that leads away, with the ways that lead to it from each copy."""
    run_end, width = build.plan.signals.index(RunEnd), build.plan.loops[segment].width.value
    for sink, *ways in zip(sinks, *out, strict=True):
        counted = [each for each in sink.sink.clocks if build.plan.clocks.counter(segment, sink.sink.node, each)]
        copies = Copies([way.receiving for way in ways], counted)
        merge = FlexMerge(segment, copies, sink, run_end, width, build.options.clock, build.firings)
        beats = (replace(beat, counter=None) for beat in build.planned(sink).beats)  # it is the copies that count
        merge.beats = [Beat.of(sink.channel, beat) for beat in beats]
        made.nodes.append(merge)
        made.merges.append(merge)
        made.cores[merge] = build.planned(sink).receiver_core
        for loop, way in zip(loops, ways, strict=True):
            made.crossings += way.crossing(loop, merge)


class Way:
    """A channel like another, within a core or across two."""

    def __init__(self, like: Channel, start: int, end: int) -> None:
        self.receiving = self.sending = like.twin()
        self.across = Crossing(self.receiving) if start != end else None
        if self.across is not None:
            self.receiving, self.sending = self.across.receiving, self.across.sending

    def crossing(self, sender: Any, receiver: Any) -> list[tuple[Any, Crossing, Any]]:
        return [] if self.across is None else [(sender, self.across, receiver)]


def ways_out(build: PartsBuilder, sinks: Sequence[ChannelSink], home: int) -> list[Way]:
    """The ways from a copy to the merge before each channel that leads away."""
    return [Way(sink.channel, home, build.planned(sink).receiver_core) for sink in sinks]


def loop_of(
    build: PartsBuilder, segment: Segment, copy: int, source: Channel, sinks: Sequence[ChannelSink], ways: Sequence[Way]
) -> RunningNode:
    """One of the loops that do the same; the first is the node's own."""
    writing = [ChannelSink(sink.sink, way.sending) for sink, way in zip(sinks, ways, strict=True)]
    loop, width = build.loop(segment, writing), build.plan.loops[segment].width.value
    node = RunningNode(segment, loop, source, width, build.options.clock, build.firings)
    if copy:
        node.copy, node.name = copy, f"{segment.name} (copy {copy})"
    return node
