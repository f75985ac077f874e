"""The running parts of a plan: its nodes, the channels between them, and what fires them. The only place that makes
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.codegen.outlets import Sink
from penstock.engine.actor import Beat
from penstock.engine.auto import Chooser
from penstock.engine.bounded import BoundedCores
from penstock.engine.channel import Channel
from penstock.engine.channel_form import ChannelForm
from penstock.engine.clock import VirtualClock
from penstock.engine.crossing import Crossing
from penstock.engine.intake import Feeder, Reader
from penstock.engine.joint import JointNode, Sides
from penstock.engine.loop import Memory, RunningLoop
from penstock.engine.node import RunningNode
from penstock.engine.options import Options
from penstock.engine.scheduler import Node, Policy, Scheduler, policy
from penstock.engine.sinks import ChannelSink, fields_of
from penstock.engine.statistics import Firing, RunTrace
from penstock.engine.threads import Threads
from penstock.engine.virtual import Times, VirtualCores
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.needs import at_field
from penstock.kernels.protocol import protocol
from penstock.plan.passes.contexts import INTERPRETED, Costs
from penstock.plan.plan import ChannelPlan, Plan
from penstock.plan.segment import Segment
from penstock.text import distinct

Runner = Scheduler | Threads | VirtualCores


@dataclass
class Parts:
    """What runs. Channels are by the loop or side that they feed; of one that crosses, it is the receiver's side."""

    nodes: list[Any] = field(default_factory=list)
    channels: dict[Segment, Channel] = field(default_factory=dict)
    crossings: dict[Segment, Crossing] = field(default_factory=dict)
    choosers: dict[Segment, Chooser] = field(default_factory=dict)
    flexible: list[Any] = field(default_factory=list)


def build(
    plan: Plan, options: Options, memory: Memory, trace: RunTrace, feeder: Feeder, *, is_open: bool
) -> tuple[Parts, Runner]:
    """Make all nodes and channels of a plan, and what fires them.

    Requires a complete plan; `trace` takes every firing, where firings are traced.
    Ensures nodes in the order of the plan's loops, with names of their own.
    """
    made = PartsBuilder(plan, options, memory, trace, feeder, is_open=is_open)
    for segment in plan.segments:
        made.add(segment)
    nodes = made.parts.nodes
    for each, name in zip(nodes, distinct(node.name for node in nodes), strict=True):
        each.name = name
    return made.parts, made.runner()


class PartsBuilder:
    """Makes the parts of a plan, one loop after the other, feeders first: a loop's input is there before the loop."""

    def __init__(
        self, plan: Plan, options: Options, memory: Memory, trace: RunTrace, feeder: Feeder, *, is_open: bool
    ) -> None:
        self.plan, self.options, self.memory, self.feeder, self.is_open = plan, options, memory, feeder, is_open
        self.trace = trace
        self.firings: list[Firing] | None = trace.firings if options.trace else None
        self.parts = Parts()

    def add(self, segment: Segment) -> None:
        """Add the node of a segment with the channels that it writes into; or, where it has copies, all its nodes."""
        sinks = [self.channel(sink) for sink in self.plan.codes[segment].sinks if sink.is_cut]
        if segment.copies:
            from penstock.engine.flexible.align_copies import flexible

            for made in flexible(self, segment, sinks):
                self.parts.nodes += made.nodes
                self.parts.flexible.append(made)
            return
        sides = [self.parts.channels[side] for side in segment.sides]
        node = self.joint(segment, sides, sinks) if sides else self.node(segment, sinks)
        node.beats = [Beat.of(sink.channel, beat) for sink in sinks for beat in self.planned(sink).beats]
        self.parts.nodes.append(node)

    def node(self, segment: Segment, sinks: list[ChannelSink]) -> RunningNode:
        """A loop, with what it takes its items from."""
        loop = self.loop(segment, sinks, is_prompt=self.is_open)
        planned = self.plan.loops[segment]
        if segment.feeder is not None:
            source: Channel | Reader = self.parts.channels[segment]
        else:
            source = Reader(self.feeder, segment.edge, self.plan.needed_at(segment.edge), spans=planned.spans)
        return RunningNode(segment, loop, source, planned.width.value, self.options.clock, self.firings)

    def loop(self, segment: Segment, sinks: list[ChannelSink], *, is_prompt: bool = False) -> RunningLoop:
        """A loop that writes into these channels."""
        code, signals = self.plan.codes[segment], self.plan.signals
        return RunningLoop(code, self.memory, signals, sinks, compile=self.options.compile, is_prompt=is_prompt)

    def joint(self, segment: Segment, sides: Sequence[Channel], sinks: list[ChannelSink]) -> JointNode:
        """Where streams meet that come from several loops."""
        met, width = Sides(sides, self.clock_of(segment)), self.plan.sizes.channel_items
        return JointNode(self.plan.tree, segment, met, sinks, width, self.options.clock, self.firings)

    def clock_of(self, joint: Segment) -> str:
        """The clock by which the sides of a join meet."""
        assert joint.meet is not None
        return at_field(self.plan.tree, n.stem(joint.meet.sides[0]))

    def planned(self, sink: ChannelSink) -> ChannelPlan:
        """What is planned of a channel."""
        assert sink.sink.feeds is not None
        return self.plan.channels[sink.sink.feeds]

    # Channels

    def channel(self, sink: Sink) -> ChannelSink:
        """The channel behind a cut, as its sender writes into it."""
        assert sink.feeds is not None
        planned, parts = self.plan.channels[sink.feeds], self.parts
        channel = self._empty(planned)
        if planned.crosses:
            crossing = parts.crossings[planned.fed] = Crossing(channel, self.options.clock)
            parts.channels[planned.fed] = crossing.receiving
            return ChannelSink(sink, crossing.sending)
        parts.channels[planned.fed] = channel
        if planned.context.value == "auto" and channel.depth:
            parts.choosers[planned.fed] = Chooser(channel, self.plan.sizes.channel_items, self._costs)
        return ChannelSink(sink, channel, parts.choosers.get(planned.fed))

    def _empty(self, planned: ChannelPlan) -> Channel:
        sink, bounds, o = planned.sink, planned.bounds.value, self.options
        parents = [fields_of(outlet) for outlet in sink.parents]
        signals = [signal.layout.dtype for signal in self.plan.signals]
        clocks = {clock: self.plan.clocks.done(sink.node, clock) for clock in sink.clocks}
        how, context = protocol(o.compile), planned.context.value
        form = ChannelForm(fields_of(sink.items), parents, signals, bounds, how, context, clocks, is_checked=o.check)
        try:
            return Channel(form)
        except (MemoryError, ValueError):
            raise GraphError(
                f"run: the channel behind {sink.node.label} is to hold {bounds.items:,} items and {bounds.signals:,} "
                f"signals and boundaries, for which there is no memory; lower width=, capacity=, capacity_signals= or "
                f"at_most="
            ) from None

    def _costs(self) -> Costs:
        if not self.options.compile:
            return INTERPRETED
        from penstock.engine.context_costs import costs

        return costs()

    # What fires the nodes

    def runner(self) -> Runner:
        """One thread, several, or virtual cores."""
        o, nodes = self.options, self.parts.nodes
        used = {loop.core.value for loop in self.plan.loops.values()}
        if len(used) > 1 or self.parts.flexible or isinstance(o.clock, VirtualClock):
            return self._on_cores()
        return Scheduler(nodes, self.feeder, policy(o.policy, o.seed, nodes), check=o.check)

    def _on_cores(self) -> Threads | VirtualCores:
        o, parts = self.options, self.parts
        cores = {node: self.plan.loops[node.segment].core.value for node in parts.nodes}
        merges: dict[Any, Sequence[Any]] = {}
        for made in parts.flexible:
            cores |= made.cores
            merges[made.split] = made.merges
        for made in parts.flexible:
            made.look_around(cores)

        def choose(nodes: Sequence[Node], thread: int) -> Policy:
            return policy(o.policy, o.seed + thread, nodes)

        given = (parts.nodes, self.feeder, cores, self._leaving(), choose, merges)
        if not isinstance(o.clock, VirtualClock):
            return Threads(*given, check=o.check)
        times = Times(o.clock, *o.clock.prices(self.plan.segments))
        if o.clock.memory_blocks is None:
            return VirtualCores(times, *given, check=o.check)
        held = self.trace.held if o.trace else None
        return BoundedCores(times, self.plan.sizes.channel_items, held, *given, check=o.check)

    def _leaving(self) -> Mapping[Node, list[tuple[Crossing, Node]]]:
        """For each node the channels that lead from it to another core, with the node there."""
        by_segment = {node.segment: node for node in self.parts.nodes if not node.segment.copies}
        readers = {fed: split for made in self.parts.flexible for fed, split in made.readers.items()}
        leaving: dict[Node, list[tuple[Crossing, Node]]] = {}
        for fed, crossing in self.parts.crossings.items():
            assert fed.feeder is not None
            receiver = readers[fed] if fed in readers else by_segment[self.plan.receiver(fed)]
            leaving.setdefault(by_segment[fed.feeder], []).append((crossing, receiver))
        for made in self.parts.flexible:
            for sender, crossing, receiver in made.crossings:
                leaving.setdefault(sender, []).append((crossing, receiver))
        return leaving
