"""From node to node: what leaves one, where it is written, and the code of the nodes downstream that it comes to.

Where streams part and meet again within the loop, nothing waits in a channel: what one item becomes on all sides is
made in one turn. Each side notes that it was reached, and its values, in variables; after the last side stands the code
of what follows. The variables are reset where the streams part. Signals that were emitted on the way are noted too, and
handed on after the item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from penstock.codegen.loop_context import LoopContext
from penstock.codegen.meetings import Meeting
from penstock.codegen.site import Local, Site
from penstock.codegen.travel import Boundary, Mark, MeetRules, Rules, SignalAt, Travel
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph.needs import at_field, needed_after, numbered_at
from penstock.graph.record import Signal
from penstock.graph.tree import signals_at
from penstock.graph.window import WATERMARKS
from penstock.plan.heartbeat.clocks import counter_of

# An item


def send(loop: LoopContext, node: n.GraphNode, site: Site) -> None:
    """An item has left `node`: write it where the node is a result or a cut, and go on with the nodes downstream."""
    site = _numbered(loop, node, site)
    for sink in loop.exits.sinks.get(node, ()):
        loop.exits.item(sink, site)
    with parting(loop, node, site):
        for child in loop.tree.children[node]:
            if child not in loop.members:
                continue
            if isinstance(child, n.Meet):
                loop.meetings[child].note_item(loop, node, site)
            else:
                item(loop, child, site)


def _numbered(loop: LoopContext, node: n.GraphNode, site: Site) -> Site:
    """The item with its index, where that counts the items that leave this node."""
    if not isinstance(loop.rules[type(node)], (Rules, MeetRules)) or node is loop.segment.entry:
        return site
    needed = needed_after(loop.tree, node, loop.needed)
    for stem in numbered_at(node):
        clock = at_field(loop.tree, stem)
        if clock in needed:
            counter = loop.carried.integer(counter_of(loop.tree, node, stem))
            loop.out.line(f"{counter} += 1")
            site = site.with_own(site.own | {clock: Local(counter)})
    return site


def item(loop: LoopContext, node: n.GraphNode, site: Site) -> None:
    """An item comes to a node."""
    rules = loop.rules[type(node)]
    if not isinstance(rules, Rules):
        raise InternalError(f"{node.label}: no rule for an item within a loop")
    if _is_logged(loop, node) and signals_at(node):
        loop.out.line(f"{loop.carried.integer(f'seen{loop.number(node)}')} += 1")
    loop.out.comment(node.label)
    rule = rules.guarded if loop.tree.is_guarded and rules.guarded is not None else rules.item
    rule(loop, node, site)


# Openings, closings and signals


def arrive(loop: LoopContext, node: n.GraphNode, mark: Mark, site: Site) -> None:
    """A mark comes to a node."""
    rules = loop.rules[type(node)]
    assert isinstance(rules, (Rules, MeetRules))
    if isinstance(mark, SignalAt):
        if rules.signal is not None:
            loop.out.comment(f"{node.label}: {loop.signals[mark.number].__name__}")
            rules.signal(loop, node, mark)
        _log(loop, node, mark, site)
        hand_on(loop, node, mark, site)
        return
    if mark.travel is Travel.CLOSE and mark.region is None:
        site = replace(site, phase=loop.end.phase)
    rule = rules.open if mark.travel is Travel.OPEN else rules.close
    (rule or hand_on)(loop, node, mark, site)


def name_boundary(loop: LoopContext, node: n.GraphNode, boundary: Boundary) -> None:
    """Name, for readers of the loop, the node that something is done at where a region opens or closes."""
    region = "the stream" if boundary.region is None else boundary.region.opener.label
    loop.out.comment(f"{node.label}: {boundary.travel.value} {region}")


def hand_on(loop: LoopContext, node: n.GraphNode, mark: Mark, site: Site) -> None:
    """Hand a mark to the nodes downstream, and to the cuts after this node."""
    for sink in loop.exits.sinks.get(node, ()):
        if sink.is_cut:
            _write_once(loop, partial(loop.exits.mark, sink, mark), mark, site)
    is_of_stream = isinstance(mark, Boundary) and mark.region is None
    with nullcontext() if is_of_stream else parting(loop, node, site):
        for child in loop.tree.children[node]:
            if child not in loop.members:
                continue
            if not isinstance(child, n.Meet):
                arrive(loop, child, mark, site)
            elif isinstance(mark, SignalAt):
                loop.meetings[child].note_signal(loop, node, mark, site)
            elif node is child.sides[0]:  # all sides have it
                arrive(loop, child, mark, site)


def _write_once(loop: LoopContext, write: Callable[[Site], None], mark: Mark, site: Site) -> None:
    """Write what is done with a mark that is not to be done again when the loop goes on with the same mark.

    That may be where a watermark has come as a mark, because windows that it closes may stop halfway for room.
    """
    is_watermark = isinstance(mark, SignalAt) and issubclass(loop.signals[mark.number], WATERMARKS)
    if not is_watermark or not site.phase.startswith("mark"):
        write(site)
        return
    is_done = loop.carried.integer(f"td{len(loop.done_once)}")
    loop.done_once.append(is_done)
    site = replace(site, phase=f"mark_{is_done}")
    with loop.out.block(f"if {is_done} == 0"):
        loop.room.checked(site.phase, lambda: write(site))
        loop.out.line(f"{is_done} = 1")


def _log(loop: LoopContext, node: n.GraphNode, signal: SignalAt, site: Site) -> None:
    """Log a signal that a node handles or hands on, but no watermark at windows that it closes."""
    kind = loop.signals[signal.number]
    if _is_logged(loop, node) and kind in signals_at(node) and not is_advanced_by(node, kind):
        _write_once(loop, partial(loop.exits.log, node, signal), signal, site)


def _is_logged(loop: LoopContext, node: n.GraphNode) -> bool:
    """Whether signals that reach the node are noted with their indices."""
    return loop.trace or isinstance(node, n.Send)


def is_advanced_by(node: n.GraphNode, kind: type[Signal]) -> bool:
    """Whether a signal is the watermark by which windows of a node close."""
    window = n.timed_of(node)
    return window is not None and window.closes and kind is window.signal


# Where streams part, and meet again


@contextmanager
def parting(loop: LoopContext, node: n.GraphNode, site: Site) -> Iterator[None]:
    """What a node hands on to several streams; then what follows where they meet again."""
    meetings = [Meeting(meet, loop.out.fresh("j")) for meet in loop.tree.meets_at(node) if meet in loop.members]
    if not meetings:
        yield
        return
    around = loop.meetings
    loop.meetings = around | {meeting.meet: meeting for meeting in meetings}
    with loop.out.aside() as lines:
        yield
        for meeting in meetings:
            _settle(loop, meeting, site)
    for meeting in meetings:
        for name, value in meeting.inits.items():
            loop.out.line(f"{name} = {value}")
    loop.out.put(lines)
    loop.meetings = around


def _settle(loop: LoopContext, meeting: Meeting, fork: Site) -> None:
    rules = loop.rules[type(meeting.meet)]
    assert isinstance(rules, MeetRules)
    loop.out.comment(meeting.meet.label)
    rules.settle(loop, meeting, fork)
    for signal in meeting.signals_in_order():
        with loop.out.block(f"if {meeting.flag(signal.array)}"):
            arrive(loop, meeting.meet, signal, meeting.signal_sites[signal.array].fork(aligned=False))
