"""Virtual cores: nodes on several cores, in one thread and a time of their own, event by event.

A core that is free chooses one of its nodes, and is busy with it for as long as the clock says. The firing itself is
done when that time has passed: so what comes of it, and the room that it makes, is seen when it ends and not before,
and what it works on stays in its channel until then. How many items it is to take is settled when it begins.

Nodes that take no time fire whenever they may, on a core that is busy too. All of that happens before a core chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.actor import Several
from penstock.engine.clock import Prices, VirtualClock
from penstock.engine.cores import Cores
from penstock.engine.crossing import Crossing, CrossingBlock
from penstock.engine.loop import FiringOutput
from penstock.engine.scheduler import Node, refuse_stuck

Fired = Iterator[tuple[Node, FiringOutput]]


@dataclass(frozen=True)
class Times:
    """The clock, how long a node takes for so many items, and which nodes never take any time."""

    clock: VirtualClock
    prices: Prices
    is_free: Callable[[Node], bool]


@dataclass(frozen=True)
class Work:
    """A firing under way: a node, the most items that it takes, when it began, and when it ends."""

    node: Node
    items: int
    start: float
    stop: float


class VirtualCores(Cores):
    """Fires nodes on virtual cores until all have finished.

    Invariant: nothing that takes no time is left to do when the clock goes on; it goes on to the next end of a firing.
    """

    def __init__(self, times: Times, *given: Any, check: bool) -> None:
        super().__init__(*given, check=check)
        self.clock, self.prices = times.clock, times.prices
        self.free = [node for node in reversed(self.nodes) if times.is_free(node)]
        """The nodes that take no time, those nearest to the results first."""
        self.busy: dict[int, Work] = {}
        self.width = {node: node.width for node in self.nodes}

    def run(self) -> Fired:
        """Each time a node has fired and something came of it but what went into channels."""
        self.clock.now = 0
        while True:
            yield from self._settle()
            if not self.busy:
                break
            yield from self._go_on()
        refuse_stuck(self.nodes)

    def _go_on(self) -> Fired:
        """Go on to the next time at which firings end, and end them."""
        self.clock.now = min(work.stop for work in self.busy.values())
        for core in [core for core, work in self.busy.items() if work.stop == self.clock.now]:
            yield from self._end(self.busy.pop(core))

    def _settle(self) -> Fired:
        """Do all that takes no time, and let each core that is free begin what it may, until nothing is left."""
        while True:
            self.feeder.advance()
            node = self._at_once()
            if node is not None:
                yield from self._end(self._work(node, is_free=True))
                continue
            for core in range(len(self.own)):
                node = None if core in self.busy else self._chosen(core)
                if node is not None:
                    yield from self._begin(core, node)
                    break
            else:
                return

    def _at_once(self) -> Node | None:
        """A node that may fire and takes no time, whatever its core is busy with."""
        return next((node for node in self.free if node.is_fireable), None)

    def _chosen(self, core: int) -> Node | None:
        """The node that a core that is free goes on with."""
        return self.choose[core]()

    def _begin(self, core: int, node: Node) -> Fired:
        work = self._work(node)
        if work.stop > work.start:
            self.busy[core] = work
        else:
            yield from self._end(work)

    def _work(self, node: Node, *, is_free: bool = False) -> Work:
        items, now = at_hand(node), self.clock.now
        return Work(node, items, now, now if is_free else now + self.prices(node, items))

    def _end(self, work: Work) -> Fired:
        """Do a firing whose time has passed, and tell everybody."""
        node, full, noted = work.node, work.node.counter.full, len(work.node.trace or ())
        if work.stop > work.start:
            node.width = work.items or node.width
        output = self.fire(node)
        if node.width < self.width[node]:
            node.width, node.counter.full = self.width[node], full
        node.counter.seconds += float(work.stop - work.start)
        if node.trace and len(node.trace) > noted:
            node.trace[-1] = replace(node.trace[-1], start_s=float(work.start), seconds=float(work.stop - work.start))
        for receiver, crossing, block in self.blocks(node):
            self._send(receiver, crossing, block)
        for _, message in self.words(node):
            message()
        if output.batches or output.deliveries:
            yield node, output

    def _send(self, receiver: int, crossing: Crossing, block: CrossingBlock) -> None:
        crossing.receive(block)


def at_hand(node: Node) -> int:
    """How many items a firing is to take: those that are there, as far as there is room for what comes of them."""
    source = node.input
    if isinstance(source, Several):
        return min(node.width, sum(channel.ready() for channel in source.channels))
    room = [
        (queue.avail() - kept) // least for sink in node.sinks for queue, least, kept in sink.channel.needs if least
    ]
    return max(0, min(source.ready(), node.width, *room))
