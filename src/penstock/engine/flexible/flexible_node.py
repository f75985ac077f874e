"""A flexible node in a run: the split, the copies and the merges, with the channels between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.actor import Beat
from penstock.engine.channel import Channel
from penstock.engine.crossing import Crossing
from penstock.engine.flexible.align_split import JoinSplit
from penstock.engine.flexible.beta_split import FirstSplit
from penstock.engine.flexible.copy_merge import Copies, FlexMerge
from penstock.engine.flexible.copy_split import FlexSplit
from penstock.engine.loop import RunningLoop
from penstock.engine.node import RunningNode
from penstock.engine.run import Run
from penstock.engine.sinks import ChannelSink
from penstock.errors import GraphError
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


def flexible_node(run: Run, segment: Segment, sinks: Sequence[ChannelSink]) -> Flexible:
    """Make the parts of a flexible node, between the channel that leads to it and those that lead away."""
    o, given = run.options, run.channels[segment]
    run_end, before = run.planned.signals.index(RunEnd), run.receiver_core(segment)
    homes = homes_of(run, segment, before, sinks)
    into = [Way(given, before, home) for home in homes]
    trace = run.firings if o.trace else None
    split = FlexSplit(segment, given, [way.sending for way in into], run_end, run.width_of(segment), o.clock, trace)
    made = Flexible(split, [split], cores={split: before})
    loops, out = [], []
    for copy, (home, way) in enumerate(zip(homes, into, strict=True)):
        ways = ways_out(run, sinks, home)
        loops.append(loop_of(run, segment, copy, way.receiving, sinks, ways))
        out.append(ways)
        made.cores[loops[-1]] = home
        made.crossings += way.crossing(split, loops[-1])
        if home == before:
            split.policy.beside, split.policy.nodes = copy, [loops[-1]]
    made.nodes += loops
    add_merges(run, made, segment, sinks, loops, out)
    return made


def add_merges(
    run: Run,
    made: Flexible,
    segment: Segment,
    sinks: Sequence[ChannelSink],
    loops: Sequence[Any],
    out: Sequence[Sequence[Way]],
) -> None:
    """Add a merge for each channel that leads away, with the ways that lead to it from each copy."""
    o, run_end = run.options, run.planned.signals.index(RunEnd)
    trace = run.firings if o.trace else None
    for sink, *ways in zip(sinks, *out, strict=True):
        counted = [each for each in sink.sink.clocks if run.planned.clocks.counter(segment, sink.sink.node, each)]
        copies = Copies([way.receiving for way in ways], counted)
        merge = FlexMerge(segment, copies, sink, run_end, run.width_of(segment), o.clock, trace)
        merge.beats = [Beat(sink.channel, *each) for each in _beats(run, sink)]
        made.nodes.append(merge)
        made.merges.append(merge)
        made.cores[merge] = core_behind(run, sink)
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


def ways_out(run: Run, sinks: Sequence[ChannelSink], home: int) -> list[Way]:
    """The ways from a copy to the merge before each channel that leads away."""
    return [Way(sink.channel, home, core_behind(run, sink)) for sink in sinks]


def loop_of(
    run: Run, segment: Segment, copy: int, source: Channel, sinks: Sequence[ChannelSink], ways: Sequence[Way]
) -> RunningNode:
    """One of the loops that do the same; the first is the node's own."""
    o, code = run.options, run.planned.codes[segment]
    writing = [ChannelSink(sink.sink, way.sending) for sink, way in zip(sinks, ways, strict=True)]
    loop = RunningLoop(code, run.memory, run.planned.signals, writing, compile=o.compile, is_prompt=False)
    node = RunningNode(segment, loop, source, run.width_of(segment), o.clock, run.firings if o.trace else None)
    if copy:
        node.copy, node.name = copy, f"{segment.name} (copy {copy})"
    return node


def core_behind(run: Run, sink: ChannelSink) -> int:
    assert sink.sink.feeds is not None
    return run.receiver_core(sink.sink.feeds)


def _beats(run: Run, sink: ChannelSink) -> Iterator[tuple[str, int, None]]:
    fed = sink.sink.feeds
    assert fed is not None
    for beats in run.heartbeats:
        if fed in beats.intervals:
            yield beats.clock, beats.intervals[fed], None


def homes_of(run: Run, segment: Segment, before: int, sinks: Sequence[ChannelSink]) -> list[int]:
    """The cores of the node and its copies: its own, the one before, those behind, and then any other."""
    own = run.cores[segment]
    near = [before, *(core_behind(run, sink) for sink in sinks), *range(run.options.cores)]
    others = [core for core in dict.fromkeys(near) if core != own]
    if len(others) < segment.copies:
        raise GraphError(
            f"run: {segment.name} is to have {segment.copies} copies beside its own, each on another core; there are "
            f"{run.options.cores} cores; raise cores=, or lower flexible()"
        )
    return [own, *others[: segment.copies]]
