"""Who waits for whom where no node can fire: the blocking cycle of the paper on precise control (Definition 1).

A node waits for another upstream of it, for input; or for another downstream, for room in the channel to it. A run
stops for good exactly where nodes wait for each other in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.channel import Channel
from penstock.engine.intake import Reader
from penstock.engine.joint import JointNode
from penstock.engine.node import RunningNode
from penstock.errors import DeadlockError, InternalError, PenstockError
from penstock.kernels.credit import SIGNAL
from penstock.plan.heartbeat.clocks import BEFORE, STEPS, WITHIN
from penstock.plan.segment import Segment

Node = RunningNode | JointNode


@dataclass(frozen=True)
class Wait:
    """A node waits for another."""

    node: Node
    other: Node
    what: str
    is_within: bool = False
    """Whether it waits for room for signals, and those that are there were all emitted within one list or region.

    Where several sides do so, their signals are handed on side by side, and so have to wait until it ends.
    """


def stuck_error(nodes: Sequence[Node]) -> PenstockError:
    """What to raise where no node can fire and some have not finished: their fault who asked for it, or our own."""
    cycle, names = blocking_cycle(nodes), _names(nodes)
    if not cycle:
        stuck = ", ".join(names[node] for node in nodes if not node.is_finished)
        return InternalError(f"no node can fire, and {stuck} has not finished")
    told = "; ".join(f"{names[wait.node]} waits for {wait.what} {names[wait.other]}" for wait in cycle)
    if _is_asked_for(nodes):
        hint = "leave heartbeat= to the plan, or make capacity= and capacity_signals= larger"
    elif any(wait.is_within for wait in cycle):
        hint = "make capacity_signals= larger: a channel must hold the signals of one list, or of one region"
    else:
        return InternalError(f"no node can fire: {told}")
    return DeadlockError(
        f"run: all nodes must be able to go on until the stream ends; these wait for each other: {told}; {hint}"
    )


def blocking_cycle(nodes: Sequence[Node]) -> tuple[Wait, ...]:
    """Nodes that wait for each other in a circle, each for the next; none where there is no such circle."""
    waits = {node: list(_waits(node, nodes)) for node in nodes if not node.is_finished}
    done: set[Node] = set()
    for first in waits:
        path: list[Wait] = []
        found = _circle(first, waits, path, done)
        if found is not None:
            return tuple(path[found:])
    return ()


def _circle(node: Node, waits: dict[Node, list[Wait]], path: list[Wait], done: set[Node]) -> int | None:
    """Follow who waits for whom, up to a node that is on the path already: where on the path that is."""
    at = next((at for at, wait in enumerate(path) if wait.node is node), None)
    if at is not None or node in done:
        return at
    for wait in waits.get(node, ()):
        path.append(wait)
        found = _circle(wait.other, waits, path, done)
        if found is not None:
            return found
        path.pop()
    done.add(node)
    return None


def _waits(node: Node, nodes: Sequence[Node]) -> Iterator[Wait]:
    """All that a node waits for: room, where it has work; else input."""
    if node.segment.copies and not (node.has_work and node.role == "merge"):
        yield from _waits_among_copies(node, nodes)
    elif node.has_work:
        for sink in node.sinks:
            if sink.channel.is_full:
                taker = next(each for each in nodes if sink.sink.feeds in (each.segment, *each.segment.sides))
                what = f"room ({_held(sink.channel)}) in the channel to"
                yield Wait(node, taker, what, _is_within(sink.channel))
    elif isinstance(node, JointNode):
        for side, channel in zip(node.segment.sides, node.input.channels, strict=True):
            if not channel.ready() and not channel.has_marks and not channel.is_ended:
                yield Wait(node, _of(nodes, side.feeder), f"{_lacking(channel)} from")
    elif isinstance(node.input, Reader):
        for other in nodes:
            if isinstance(other.input, Reader) and not other.input.is_through:
                yield Wait(node, other, "the next batch of the source until it has gone through")
    else:
        yield Wait(node, _of(nodes, node.segment.feeder), f"{_lacking(node.input)} from")


def _waits_among_copies(node: Node, nodes: Sequence[Node]) -> Iterator[Wait]:
    """What a part of a flexible node waits for: the split for copies, these for merges, and the other way round."""
    parts = [each for each in nodes if (each.segment.joint or each.segment) is (node.segment.joint or node.segment)]
    loops = [each for each in parts if each.role == "loop"]
    splits = [each for each in parts if each.role == "split"]
    if node.role == "split":
        yield from _waits_of_split(node, [each for each in loops if each.segment is node.segment], splits, nodes)
    elif node.role == "merge":
        copy, ends = node.awaited, [each for each in loops if each.segment is node.segment]  # type: ignore[union-attr]
        what = "word from" if copy is None else "the end of a run of"
        yield Wait(node, splits[0] if copy is None else ends[copy], what)
    elif not node.has_work:
        before = [each for each in loops if node.input in [sink.channel for sink in each.sinks]]
        yield from (Wait(node, each, "items from") for each in before or splits)
    else:
        full = [sink for sink in node.sinks if sink.channel.is_full]
        behind = [each for each in loops if each.input in [sink.channel for sink in full]]
        merges = [each for each in parts if each.role == "merge" and each.sinks[0].sink in [sink.sink for sink in full]]
        yield from (Wait(node, each, "room in the channel to") for each in behind or merges)


def _waits_of_split(
    node: Node, copies: Sequence[Node], splits: Sequence[Node], nodes: Sequence[Node]
) -> Iterator[Wait]:
    """What a split waits for: room, or input of one of its sides; where others follow it, these wait for its word."""
    if node.has_work:
        yield from (Wait(node, copy, "room in the channel to") for copy in copies)
    elif not node.segment.sides:
        yield Wait(node, _of(nodes, node.segment.feeder), "items from")
    else:
        if node is not splits[0]:
            yield Wait(node, splits[0], "word from")
        for side, channel in _sides(node, splits):
            if not channel.ready() and not channel.has_marks and not channel.is_ended:
                yield Wait(node, _of(nodes, side.feeder), f"{_lacking(channel)} from")
            elif _is_within(channel):
                yield Wait(node, _of(nodes, side.feeder), "the rest of a list from", True)


def _sides(node: Node, splits: Sequence[Node]) -> Iterator[tuple[Segment, Channel]]:
    """The sides that a split takes from: all, or where each has a split of its own, that one."""
    sides = node.segment.sides if len(splits) == 1 else [node.segment.sides[splits.index(node)]]
    yield from zip(sides, node.input.channels, strict=True)  # type: ignore[union-attr]


def _of(nodes: Sequence[Node], segment: object) -> Node:
    """The node of a segment that has its outputs: where there are several, a merge, which comes last."""
    return [node for node in nodes if node.segment is segment][-1]


def _held(channel: Channel) -> str:
    """What fills a channel."""
    for queue, least, kept in channel.needs:
        if queue.avail() < least + kept:
            what = "items" if queue is channel.data else "signals and boundaries"
            return f"{len(queue)} of {queue.capacity} {what} are there, and one item may send {least}"
    raise InternalError("a channel that has room is waited for")


def _is_within(channel: Channel) -> bool:
    control = channel.control
    if not control.keys or control.avail() > 1:
        return False
    queued = slice(control.start, control.stop)
    places = {int(key) for key in control.keys[0][queued][control.kinds[queued] >= SIGNAL]}
    return len(places) == 1 and places.pop() % STEPS in (BEFORE, WITHIN)


def _lacking(channel: Channel) -> str:
    """What does not come through a channel."""
    if channel.queued:
        return f"credit (for {channel.queued} items that are there)"
    return "items, or word of how far it has come,"


def _is_asked_for(nodes: Sequence[Node]) -> bool:
    """Whether the heartbeats were chosen by hand, or left out where streams meet."""
    beats = [beat for node in nodes for beat in node.beats]
    if not beats:
        return any(isinstance(node, JointNode) for node in nodes)
    return any(beat.is_asked_for for beat in beats)


def _names(nodes: Sequence[Node]) -> dict[Node, str]:
    """What each node is called, with its number where several are called the same."""
    count = Counter(node.name for node in nodes)
    return {node: node.name if count[node.name] == 1 else f"{node.name} (loop {at})" for at, node in enumerate(nodes)}
