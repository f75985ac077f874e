"""Run a graph: plan it, make its nodes and channels, fire them, and gather the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.codegen.outlets import Sink
from penstock.engine.actor import Beat
from penstock.engine.auto import Chooser
from penstock.engine.bounded import BoundedCores
from penstock.engine.channel import Channel
from penstock.engine.clock import VirtualClock
from penstock.engine.crossing import Crossing
from penstock.engine.intake import Batch, Feeder, Reader, Skipped, batches
from penstock.engine.joint import JointNode, Sides
from penstock.engine.loop import Memory, RunningLoop
from penstock.engine.node import RunningNode
from penstock.engine.options import Options
from penstock.engine.placing import place
from penstock.engine.remember import remembering
from penstock.engine.scheduler import Policy, Scheduler, policy
from penstock.engine.sinks import ChannelSink, fields_of
from penstock.engine.statistics import Firing, Held, Statistics
from penstock.engine.threads import Threads
from penstock.engine.virtual import Times, VirtualCores
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.letters import first_of_each, table_of
from penstock.graph.needs import at_field
from penstock.graph.placing import resolved
from penstock.graph.reference import Result
from penstock.graph.tides import renamed, warn_late, with_tides
from penstock.graph.tree import At, Delivery, Places, Tree, check_signals
from penstock.kernels.protocol import protocol
from penstock.plan.balance import blocks
from penstock.plan.passes.assign_cores import mapped
from penstock.plan.passes.contexts import INTERPRETED, Costs, Decision, decide
from penstock.plan.passes.heartbeats import heartbeats, is_central
from penstock.plan.passes.size import MANY, SHARED, Bounds, Wanted, bounds, capacity_within, loop_width
from penstock.plan.plan import plan
from penstock.plan.segment import Segment, fed_segments
from penstock.text import distinct

Runner = Scheduler | Threads | VirtualCores


class Run:
    """One run of some results of a graph, with its options. It can be run once."""

    def __init__(
        self,
        leaves: tuple[n.GraphNode, ...],
        control: Sequence[At] = (),
        *,
        batches_in: Iterator[Batch] | None = None,
        is_open: bool = False,
        places: Places | None = None,
        slots: Sequence[int] | None = None,
        letters_to: Callable[[pa.Table], None] | None = None,
        **options: Any,
    ) -> None:
        """With `is_open` the batches need not end the stream: what the run remembers then is in `kept`.

        `places`, where given, stand for what the graph asks for with `on_core` and `flexible`. `slots` are the numbers
        under which is kept what nodes remember, in their order; by default from 0 on. `letters_to` takes the letters of
        all items that were skipped, when the run has ended.
        """
        leaves, made = with_tides(leaves)
        options |= {
            name: renamed(options[name], made) for name in ("mapping", "flexible", "context") if name in options
        }
        self.options, self.batches_in, self.is_open = Options.of(options), batches_in, is_open
        if places is not None and made:
            places = Places(*({made[node]: at for node, at in each.items()} for each in (places.cores, places.copies)))
        placed, self.profile, self.options = place(leaves, self.options, places)
        self.tree = Tree(leaves, placed, self.options.on_error == "skip")
        nodes = remembering(self.tree)
        self.slots = dict(zip(nodes, range(len(nodes)) if slots is None else slots, strict=True))
        self.control = check_signals(self.tree, control)
        self.planned = plan(self.tree, is_fused=self.options.fuse, trace=self.options.trace)
        self.blocks: dict[Segment, int] = {}
        if self.profile is not None and options.get("width") is None and options.get("block_items") is None:
            self.blocks = blocks(leaves, self.planned.segments, self.profile)
        self.contexts = self._contexts()
        self.bounds = self._bounds()
        self.cores = self._mapped()
        if self.options.cores > 1 and is_open:
            raise GraphError("run: a running stream has one core for each task; leave out cores=")
        self.heartbeats = heartbeats(self.planned, self.bounds, self.options.heartbeat)
        self.deliveries: list[Delivery] = []
        self.firings: list[Firing] = []
        self.held: list[Held] = []
        self.nodes: list[RunningNode | JointNode] = []
        self.channels: dict[Segment, Channel] = {}
        self.crossings: dict[Segment, Crossing] = {}
        self.flexible: list[Any] = []
        self.choosers: dict[Segment, Chooser] = {}
        self.memory = Memory(self.options.hash_seed)
        self.has_begun, self.seconds, self.letters_to = False, 0.0, letters_to

    def _bounds(self) -> dict[Segment, Bounds]:
        """The bounds of every channel, by the segment that it feeds."""
        o, planned = self.options, self.planned
        capacity = o.capacity if o.memory is None and o.delay is None else capacity_within(planned, o.memory, o.delay)
        if capacity != o.capacity:
            width = o.width or max(1, (capacity or 2) // 2)
            self.options = o = replace(o, capacity=capacity, width=width, memory=None, delay=None)
        many = SHARED if self.blocks else MANY
        wanted = Wanted(o.channel_width, o.capacity, o.capacity_signals, o.credit == "balance", o.threshold, many)
        found = {}
        for segment in planned.segments:
            for sink in planned.codes[segment].sinks:
                if sink.feeds is not None:
                    found[sink.feeds] = bounds(segment, sink, replace(wanted, width=self.width_of(sink.feeds)))
        return found

    def width_of(self, segment: Segment) -> int:
        """The most items that a loop takes at a time: where it is known what they cost, as many as make a block."""
        if segment in self.blocks:
            return self.blocks[segment]
        o = self.options
        return loop_width(segment, o.width, None if o.cores == 1 else o.block_items, o.source_items)

    def _mapped(self) -> dict[Segment, int]:
        """The core of each loop."""
        segments, cores, given = self.planned.segments, self.options.cores, self.options.mapping
        if cores == 1:
            return dict.fromkeys(segments, 0)
        if not isinstance(given, Statistics):
            return mapped(segments, cores, self.tree.places.cores)
        names = [node.name for node in given.nodes]
        if names != distinct(segment.name for segment in segments):
            raise GraphError(
                f"run: mapping= must be the statistics of a run of the same graph; got those of {', '.join(names)}"
            )
        return mapped(segments, cores, {}, [node.seconds for node in given.nodes])

    @property
    def columns(self) -> frozenset[str]:
        """The fields of the source that are used."""
        return self.planned.needed[self.tree.source]

    def _contexts(self) -> dict[n.GraphNode, str]:
        """The context that was asked for on the channels behind each node, where it was asked for one by one."""
        fed = fed_segments(self.planned.segments)
        given, edges = self.options.context, {segment.edge for segment in (*self.planned.segments, *fed)}
        if isinstance(given, str):
            return dict.fromkeys(edges, given)
        found = dict.fromkeys(edges, "auto")
        for stream, context in given.items():
            node = getattr(stream, "node", None)
            if not isinstance(node, n.GraphNode):
                raise GraphError(f"run: context= takes a dict from streams to contexts; got the key {stream!r}")
            if node not in edges:
                fused = " run with fuse=False to have one on every edge" if self.options.fuse else " is it a result?"
                raise GraphError(f"run: context= names {node.label}, which no channel of this run leaves;{fused}")
            found[node] = context
        return found

    # Results

    def collect(self) -> pa.Table:
        """The first result, whole."""
        return self.tables()[0]

    def tables(self) -> tuple[pa.Table, ...]:
        """All results, whole."""
        found: list[list[pa.RecordBatch]] = [[] for _ in self.tree.leaves]
        for made in self.batches():
            for gathered, batch in zip(found, made, strict=True):
                gathered.append(batch)
        self.warn_late()
        return tuple(
            pa.Table.from_batches(batches, _schema(leaf)) for leaf, batches in zip(self.tree.leaves, found, strict=True)
        )

    def warn_late(self) -> None:
        """Warn of items that came too late, unless they are a result."""
        from penstock.engine.account import late_in

        warn_late(self.tree, late_in(self))

    def result(self) -> Result:
        """All results and, with `trace=True`, every signal with the place where it was handed to a node."""
        tables = self.tables()
        return Result(tables, tuple(self.deliveries), tuple(first_of_each(self.memory.letters)))

    def batches(self) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """The results as they come: each time a batch for every result."""
        scheduler = self.scheduler()
        started = self.options.clock()
        for _, output in scheduler.run():
            if output.deliveries:
                self.deliveries += output.deliveries
            if output.batches:
                for found in _in_turn(output.batches):
                    yield tuple(found[leaf] if leaf in found else _nothing(leaf) for leaf in self.tree.leaves)
        self.seconds = self.options.clock() - started
        if self.letters_to is not None:
            self.letters_to(self.dead_letters())

    @property
    def skipped(self) -> int:
        """How many letters there are so far."""
        return len(first_of_each(self.memory.letters))

    def dead_letters(self) -> pa.Table:
        """The items that were skipped with `on_error="skip"`, so far: one row for each, in the order of the source.

        >>> import penstock as ps
        >>> run = ps.from_items([{"v": v} for v in (2, 0, 4)]).map(w=lambda v: 8 // v).prepare(on_error="skip")
        >>> run.collect()["w"].to_pylist()
        [4, 2]
        >>> run.dead_letters().select(["index", "node", "message", "fields"]).to_pylist()
        [{'index': 1, 'node': "map 'w'", 'message': 'ZeroDivisionError: ...', 'fields': '{"v": 0}'}]
        """
        return table_of(first_of_each(self.memory.letters))

    def steps(self) -> Iterator[str]:
        """Fire one node at a time, to look at the channels in between with `show`; each time the node's name.

        >>> import penstock as ps
        >>> numbers = ps.from_items([{"v": v} for v in range(5)]).filter(lambda v: v > 1).map(w=lambda v: -v)
        >>> run = numbers.prepare(fuse=False, width=4, compile=False)
        >>> next(run.steps())
        'filter'
        >>> print(run.show())
        filter → map 'w'
          items   2 of 256  2 3
          marks   0 of 256
          credit  0
        """
        for node, output in self.scheduler().run():
            self.deliveries += output.deliveries
            yield node.name

    def show(self) -> str:
        """What lies in the channels: items, marks with the credit that each carries, and the receiver's credit."""
        from penstock.engine.account import shown

        return shown(self)

    # The running parts

    def scheduler(self) -> Runner:
        """All nodes with their channels, ready to be fired. For a run, once."""
        if self.has_begun:
            raise GraphError("run: a run can be run once; prepare another")
        self.has_begun = True
        o = self.options
        given = self.batches_in or self._batches()
        skipped = Skipped(self.memory.letters, self.tree.number) if self.tree.is_guarded else None
        feeder = Feeder(given, self.planned.signals, is_open=self.is_open, skipped=skipped)
        from penstock.engine.flexible.align_copies import flexible

        for segment in self.planned.segments:
            sinks = [self._channel(sink) for sink in self.planned.codes[segment].sinks if sink.is_cut]
            if segment.copies:
                for made in flexible(self, segment, sinks):
                    self.nodes += made.nodes
                    self.flexible.append(made)
                continue
            if segment.sides:
                self.nodes.append(self._joint(segment, sinks))
                continue
            loop = RunningLoop(
                self.planned.codes[segment],
                self.memory,
                self.planned.signals,
                sinks,
                compile=o.compile,
                is_prompt=self.is_open,
            )
            source = self._input(feeder, segment)
            width = self.width_of(segment)
            node = RunningNode(segment, loop, source, width, o.clock, self.firings if o.trace else None)
            node.beats = [Beat(sink.channel, *each) for sink in sinks for each in self._beats(segment, sink)]
            self.nodes.append(node)
        for each, name in zip(self.nodes, distinct(node.name for node in self.nodes), strict=True):
            each.name = name
        if len(set(self.cores.values())) > 1 or self.flexible or isinstance(o.clock, VirtualClock):
            return self._on_cores(feeder)
        return Scheduler(self.nodes, feeder, policy(o.policy, o.seed, self.nodes), check=o.check)

    def _on_cores(self, feeder: Feeder) -> Threads | VirtualCores:
        o, by_segment = self.options, {node.segment: node for node in self.nodes if not node.segment.copies}
        leaving: dict[RunningNode | JointNode, list[tuple[Crossing, RunningNode | JointNode]]] = {}
        readers = {fed: split for made in self.flexible for fed, split in made.readers.items()}
        for fed, crossing in self.crossings.items():
            assert fed.feeder is not None
            receiver = readers[fed] if fed in readers else by_segment[self._taker(fed)]
            leaving.setdefault(by_segment[fed.feeder], []).append((crossing, receiver))
        cores = {node: self.cores[node.segment] for node in self.nodes}
        merges: dict[Any, Sequence[Any]] = {}
        for made in self.flexible:
            cores |= made.cores
            merges[made.split] = made.merges
            for sender, crossing, receiver in made.crossings:
                leaving.setdefault(sender, []).append((crossing, receiver))
        for made in self.flexible:
            made.look_around(cores)

        def choose(nodes: Sequence[RunningNode | JointNode], thread: int) -> Policy:
            return policy(o.policy, o.seed + thread, nodes)

        given = (self.nodes, feeder, cores, leaving, choose, merges)
        if not isinstance(o.clock, VirtualClock):
            return Threads(*given, check=o.check)
        times = Times(o.clock, *o.clock.prices(self.planned.segments))
        if o.clock.memory_blocks is None:
            return VirtualCores(times, *given, check=o.check)
        return BoundedCores(times, o.channel_width, self.held if o.trace else None, *given, check=o.check)

    def sender_core(self, fed: Segment) -> int:
        """Where that is at work which writes into a channel: behind copies, where what they give is put in order."""
        assert fed.feeder is not None
        return self.receiver_core(fed) if fed.feeder.copies else self.cores[fed.feeder]

    def receiver_core(self, fed: Segment) -> int:
        """Where that is at work which reads from a channel: before copies, where their feeder is.

        Of a join whose sides are shared out together, it is that of the first side.
        """
        taker = self._taker(fed)
        if taker.copies:
            fed = taker.sides[0] if taker.sides and is_central(self.planned, self.heartbeats, taker) else fed
            assert fed.feeder is not None
            return self.cores[fed.feeder]
        return self.cores[taker]

    def _taker(self, fed: Segment) -> Segment:
        """What takes from a channel: a loop, or where its stream meets others."""
        return next(segment for segment in self.planned.segments if fed is segment or fed in segment.sides)

    def _joint(self, segment: Segment, sinks: list[ChannelSink]) -> JointNode:
        assert segment.meet is not None
        clock = at_field(self.tree, n.stem(segment.meet.sides[0]))
        sides, o = Sides([self.channels[side] for side in segment.sides], clock), self.options
        node = JointNode(self.tree, segment, sides, sinks, o.channel_width, o.clock, self.firings if o.trace else None)
        node.beats = [Beat(sink.channel, *each) for sink in sinks for each in self._beats(segment, sink)]
        return node

    def _beats(self, segment: Segment, sink: ChannelSink) -> Iterator[tuple[str, int, int | None, bool]]:
        """The clocks by which a node is to tell how far it has come, how often, and where the loop counts for it."""
        fed = sink.sink.feeds
        assert fed is not None
        for beats in self.heartbeats:
            if fed in beats.intervals:
                counter = self.planned.clocks.counter(segment, sink.sink.node, beats.clock)
                integers = self.planned.codes[segment].integers
                at = None if counter is None else integers.index(counter)
                yield beats.clock, beats.intervals[fed], at, bool(self.options.heartbeat)

    def _batches(self) -> Iterator[Batch]:
        """What the source gives, with the signals from outside at their places."""
        source = self.tree.source
        given = (source, resolved(self.control, source), self.options.source_items, self.columns)
        return batches(*given, is_tolerant=self.tree.is_guarded)

    def _channel(self, sink: Sink) -> ChannelSink:
        assert sink.feeds is not None
        parents = [fields_of(outlet) for outlet in sink.parents]
        signals = [signal.layout.dtype for signal in self.planned.signals]
        functions, context = protocol(self.options.compile), self.decision(sink).context
        bounds = self.bounds[sink.feeds]
        try:
            clocks = {clock: self.planned.clocks.done(sink.node, clock) for clock in sink.clocks}
            given = (fields_of(sink.items), parents, signals, bounds, functions, context, clocks)
            channel = Channel(*given, check=self.options.check)
        except (MemoryError, ValueError):
            raise GraphError(
                f"run: the channel behind {sink.node.label} is to hold {bounds.items:,} items and {bounds.signals:,} "
                f"signals and boundaries, for which there is no memory; lower width=, capacity=, capacity_signals= or "
                f"at_most="
            ) from None
        self.channels[sink.feeds] = channel
        if self.sender_core(sink.feeds) != self.receiver_core(sink.feeds):
            crossing = self.crossings[sink.feeds] = Crossing(channel, self.options.clock)
            self.channels[sink.feeds] = crossing.receiving
            return ChannelSink(sink, crossing.sending)
        if context == "auto" and channel.depth:
            self.choosers[sink.feeds] = Chooser(channel, self.options.channel_width, self._costs)
        return ChannelSink(sink, channel, self.choosers.get(sink.feeds))

    def decision(self, sink: Sink) -> Decision:
        """How regions travel on the channel behind a cut, and why."""
        wanted, has_places = self.contexts[sink.node], bool(sink.clocks)
        return decide(wanted, has_regions=bool(sink.parents), has_places=has_places, cores=self.options.cores)

    def _costs(self) -> Costs:
        if not self.options.compile:
            return INTERPRETED
        from penstock.engine.context_costs import costs

        return costs()

    def _input(self, feeder: Feeder, segment: Segment) -> Channel | Reader:
        if segment.feeder is not None:
            return self.channels[segment]
        spans = self.contexts[segment.edge] != "sparse"
        return Reader(feeder, segment.edge, self.planned.needed_at(segment.edge), spans=spans)

    # What was planned, and seen

    def explain(self) -> str:
        """The graph and its plan as text: loops and channels, with what was chosen for each so far, and why.

        >>> import penstock as ps
        >>> blobs = ps.from_items([{"values": [1, 2]}], name="blobs")
        >>> run = blobs.enumerate("values", as_="v").aggregate(total=ps.sum("v")).prepare(fuse=False, capacity=8)
        >>> print(run.explain().splitlines()[-3])
        channel loop 1 → loop 2: holds 8 items, 131,072 signals and boundaries; one item sends at most 1 and 1
        """
        from penstock.engine.account import explained

        return explained(self)

    def statistics(self) -> Statistics:
        """What was counted, so far."""
        from penstock.engine.account import statistics

        return statistics(self)


def _in_turn(
    batches: list[tuple[n.GraphNode, pa.RecordBatch]],
) -> Iterator[dict[n.GraphNode, pa.RecordBatch]]:
    """Groups with at most one batch of each result, in order."""
    found: dict[n.GraphNode, pa.RecordBatch] = {}
    for leaf, batch in batches:
        if leaf in found:
            yield found
            found = {}
        found[leaf] = batch
    yield found


def _schema(leaf: n.GraphNode) -> pa.Schema:
    return pa.schema(list(leaf.shape.fields.items()))


def _nothing(leaf: n.GraphNode) -> pa.RecordBatch:
    schema = _schema(leaf)
    return pa.RecordBatch.from_arrays([pa.array([], t) for t in schema.types], schema=schema)
