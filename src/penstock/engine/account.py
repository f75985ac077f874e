"""What a run reports of itself: its plan with what was chosen so far, what lies in its channels, what was counted."""

from __future__ import annotations

from penstock.engine.auto import FIRST
from penstock.engine.build import Parts
from penstock.engine.channel import Channel
from penstock.engine.run import Run
from penstock.engine.show import lines
from penstock.engine.statistics import EdgeStatistics, Statistics
from penstock.engine.windows import LATE, TimedCells
from penstock.plan.plan import ChannelPlan, Decision


def explain_run(run: Run) -> str:
    """The graph and its plan as text, with the contexts that were chosen so far."""
    from penstock.report.graph import explain

    return explain(run.plan, {fed: _context(run, each) for fed, each in run.plan.channels.items()})


def _context(run: Run, planned: ChannelPlan) -> Decision[str]:
    """How regions travel on a channel, and why."""
    if planned.context.value != "auto":
        return planned.context
    chooser = run.parts.choosers.get(planned.fed)
    if chooser is None or chooser.choice is None:
        return Decision("lane", f"auto, until {FIRST} ensembles have been seen")
    return Decision(chooser.choice.context, f"auto: {chooser.choice.reason}")


def show_channels(run: Run) -> str:
    """What lies in the channels: items, marks with the credit that each carries, and the receiver's credit."""
    names = [signal.__name__ for signal in run.plan.signals]
    found = []
    for segment, channel in run.parts.channels.items():
        assert segment.feeder is not None
        found += [f"{segment.feeder.name} → {segment.name}", *(f"  {line}" for line in lines(channel, names))]
    return "\n".join(found)


def statistics(run: Run) -> Statistics:
    """What was counted, so far."""
    parts, trace = run.parts, run.trace
    nodes = tuple(node.counter.record(node.name, node.width, node.outputs_per_input()) for node in parts.nodes)
    edges = tuple(_edge(run.plan.channels[fed], parts, channel) for fed, channel in parts.channels.items())
    noted = (tuple(trace.firings), tuple(trace.held))
    return Statistics(run.plan.sizes.channel_items, trace.seconds, nodes, edges, *noted, late_items(run), run.skipped)


def late_items(run: Run) -> int:
    """How many items came after their windows had closed."""
    return sum(int(cells.counts[LATE]) for cells in run.memory.cells.values() if isinstance(cells, TimedCells))


def _edge(planned: ChannelPlan, parts: Parts, channel: Channel) -> EdgeStatistics:
    """What was counted of a channel; where it crosses threads, what its sender knows of it."""
    fed, bounds = planned.fed, planned.bounds.value
    sender = parts.crossings[fed].sending if fed in parts.crossings else channel
    return EdgeStatistics(
        planned.feeder.name,
        fed.name,
        channel.context,
        bounds.items,
        bounds.signals,
        sender.counts.highest_items,
        sender.counts.highest_signals,
        channel.sent,
        channel.counts.granted,
        channel.counts.messages,
        sender.counts.stalls,
        sender.counts.beats,
        parts.choosers[fed].switches if fed in parts.choosers else 0,
    )
