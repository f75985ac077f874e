"""What a run tells of itself: its plan with what was chosen so far, what lies in its channels, what was counted."""

from __future__ import annotations

from penstock.codegen.outlets import Sink
from penstock.engine.auto import FIRST
from penstock.engine.channel import Channel
from penstock.engine.run import Run
from penstock.engine.show import lines
from penstock.engine.statistics import EdgeStatistics, Statistics
from penstock.engine.windows import LATE, TimedCells
from penstock.graph import nodes as n
from penstock.plan.passes.heartbeats import is_central
from penstock.plan.passes.size import ChannelPlan, least
from penstock.plan.segment import Segment


def explained(run: Run) -> str:
    """The graph and its plan as text."""
    from penstock.report.graph import explain

    channels = [_channel_plan(run, fed) for fed in run.bounds]
    places = {segment: _place(run, segment) for segment in run.planned.segments} if run.options.cores > 1 else {}
    return explain(run.tree, run.planned.segments, channels, places, compile=run.options.compile)


def _place(run: Run, segment: Segment) -> str:
    """Where a loop is at work, how many copies it has, and how the sides of a join come to them."""
    found = f"on core {run.cores[segment]}"
    if segment.copies:
        found += f", and {segment.copies} {'copy' if segment.copies == 1 else 'copies'} on others"
    if not segment.copies or not isinstance(segment.meet, n.Join) or not segment.sides:
        return found
    if not is_central(run.planned, run.heartbeats, segment):
        return f"{found}, each side shared out by itself"
    waits = ", because what is behind waits to hear how far all have come" if segment.meet.split == "beta" else ""
    return f"{found}, its sides shared out together{waits}"


def _channel_plan(run: Run, fed: Segment) -> ChannelPlan:
    assert fed.feeder is not None
    sink = next(sink for sink in run.planned.codes[fed.feeder].sinks if sink.feeds is fed)
    items, marks = least(sink)
    context, reason = _context_of(run, fed, sink)
    told = tuple(beats.explain(fed) for beats in run.heartbeats if fed in beats.intervals)
    return ChannelPlan(fed, run.bounds[fed], items, marks, context, reason, told)


def _context_of(run: Run, fed: Segment, sink: Sink) -> tuple[str, str]:
    """How regions travel on a channel, and why."""
    decision = run.decision(sink)
    if decision.context != "auto":
        return decision.context, decision.reason
    chooser = run.choosers.get(fed)
    if chooser is None or chooser.choice is None:
        return "lane", f"auto, until {FIRST} ensembles have been seen"
    return chooser.choice.context, f"auto: {chooser.choice.reason}"


def shown(run: Run) -> str:
    """What lies in the channels: items, marks with the credit that each carries, and the receiver's credit."""
    names = [signal.__name__ for signal in run.planned.signals]
    found = []
    for segment, channel in run.channels.items():
        assert segment.feeder is not None
        found += [f"{segment.feeder.name} → {segment.name}", *(f"  {line}" for line in lines(channel, names))]
    return "\n".join(found)


def statistics(run: Run) -> Statistics:
    """What was counted, so far."""
    nodes = tuple(node.counter.record(node.name, node.width, node.outputs_per_input()) for node in run.nodes)
    edges = tuple(_edge(run, segment, channel) for segment, channel in run.channels.items())
    held = (tuple(run.firings), tuple(run.held))
    return Statistics(run.options.channel_width, run.seconds, nodes, edges, *held, late_in(run), run.skipped)


def late_in(run: Run) -> int:
    """How many items came after their windows had closed."""
    return sum(int(cells.counts[LATE]) for cells in run.memory.cells.values() if isinstance(cells, TimedCells))


def _edge(run: Run, segment: Segment, channel: Channel) -> EdgeStatistics:
    """What was counted of a channel; where it crosses threads, what its sender knows of it."""
    assert segment.feeder is not None
    sender = run.crossings[segment].sending if segment in run.crossings else channel
    return EdgeStatistics(
        segment.feeder.name,
        segment.name,
        channel.context,
        run.bounds[segment].items,
        run.bounds[segment].signals,
        sender.highest_items,
        sender.highest_signals,
        channel.sent,
        channel.granted,
        channel.messages,
        sender.stalls,
        sender.beats,
        run.choosers[segment].switches if segment in run.choosers else 0,
    )
