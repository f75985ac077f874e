"""A plan as text, with every decision and its reason."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.plan import ChannelPlan, LoopPlan, Plan


def describe(plan: Plan) -> str:
    """All that is decided so far: what reads the source, then loops, then channels."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    asked, sizes, stage = plan.request, plan.sizes, plan.request.stage
    over = "" if stage.buckets is None else f" on {stage.buckets:,} buckets"
    yield f"stage {stage.number + 1}{over}: {stage.reason}"
    yield f"{asked.cores} core{'' if asked.cores == 1 else 's'}; {sizes.source_items:,} items of the source at a time"
    for segment in plan.segments:
        kind = "meet" if segment.sides else "loop"
        yield f"{kind} {segment.number + 1}, {segment.name}: {segment.reason}"
        if segment.sides:
            sides = (side.feeder.number + 1 for side in segment.sides if side.feeder is not None)
            yield f"  sides: loops {', '.join(map(str, sides))}"
        if segment in plan.sharings:
            shared = plan.sharings[segment]
            yield f"  shared out: {'together' if shared.is_central else 'side by side'}; {shared.reason}"
        if segment in plan.loops:
            yield from _loop(plan, plan.loops[segment])
    for channel in plan.channels.values():
        yield from _channel(plan, channel)


def _loop(plan: Plan, loop: LoopPlan) -> Iterator[str]:
    yield f"  width: {loop.width.value:,}; {loop.width.reason}"
    yield f"  core: {loop.core.value}; {loop.core.reason}"
    if loop.copies:
        yield f"  copies: on core {', '.join(map(str, loop.copies))}"
    if not loop.spans:
        yield "  spans: no signal; as asked for"


def _channel(plan: Plan, channel: ChannelPlan) -> Iterator[str]:
    bounds = channel.bounds.value
    yield f"channel {channel.feeder.number + 1} → {plan.receiver(channel.fed).number + 1}, {channel.sink.node.label}"
    yield f"  holds: {bounds.items:,} items, {bounds.signals:,} marks; {channel.bounds.reason}"
    yield f"  one item sends: {channel.items:,} items, {channel.marks:,} marks"
    if bounds.threshold is not None:
        yield f"  without credit: {bounds.threshold:,} items"
    yield f"  context: {channel.context.value}; {channel.context.reason}"
    yield f"  cores: {channel.sender_core} → {channel.receiver_core}"
    for beats in plan.heartbeats:
        if channel.fed in beats.intervals:
            yield f"  heartbeat: {beats.explain(channel.fed)}"
