"""One thread: while there is work, choose a node that should fire, and fire it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from penstock.engine.blocking import stuck_error
from penstock.engine.intake import Feeder
from penstock.engine.joint import JointNode
from penstock.engine.loop import FiringOutput
from penstock.engine.node import RunningNode
from penstock.errors import InternalError

Node = RunningNode | JointNode
Policy = Callable[[], Node | None]
"""Chooses a node that is ready, or one that may fire where none is; None where none may."""


def in_order(nodes: Sequence[Node]) -> Node | None:
    """The first that is ready; where none is, the first that may fire."""
    for node in nodes:
        if node.is_ready:
            return node
    for node in nodes:
        if node.is_fireable:
            return node
    return None


def awaited_first(nodes: Sequence[Node]) -> Node | None:
    """As `in_order`, but first those on which another core waits."""
    ready = None
    for node in nodes:
        if node.is_ready:
            if node.is_awaited:
                return node
            ready = ready or node
    return ready or next((node for node in nodes if node.is_fireable), None)


def nearest_first(nodes: Sequence[Node]) -> list[Node]:
    """Nodes from the results on; before all loops what only hands on, so that others have theirs before they fire."""
    return [
        *(node for node in nodes[::-1] if node.role != "loop"),
        *(node for node in nodes[::-1] if node.role == "loop"),
    ]


def policy(name: str, seed: int, nodes: Sequence[Node]) -> Policy:
    """The policy of a name for nodes from the source on: `downstream`, `upstream`, or `random` from a seed."""
    if name == "upstream":
        return partial(in_order, nodes)
    if name == "downstream":
        return partial(awaited_first if any(node.leads for node in nodes) else in_order, nearest_first(nodes))
    random = Random(seed)

    def choose() -> Node | None:
        """Any that may fire, and now and then one that is not ready."""
        fireable = [node for node in nodes if node.is_fireable]
        ready = [node for node in fireable if node.is_ready]
        among = ready if ready and random.random() < 0.5 else fireable
        return random.choice(among) if among else None

    return choose


def refuse_stuck(nodes: Sequence[Node]) -> None:
    """Raise where a node has not finished, though none may fire: who waits for whom."""
    if not all(node.is_finished for node in nodes):
        raise stuck_error(nodes)


class Scheduler:
    """Fires nodes until all have finished.

    Invariants, verified with `check`: every firing consumes something, sends something or finishes its node, so that
    the run ends (Lemma 2); while a node is unfinished, some node may fire.
    """

    def __init__(self, nodes: Sequence[Node], feeder: Feeder, choose: Policy, *, check: bool) -> None:
        self.nodes, self.feeder, self.choose, self.is_checked = nodes, feeder, choose, check
        self.is_flushed = False
        """Whether the stream pauses, and nodes tell at once how far they have come: nothing waits in a channel then."""

    def resume(self) -> None:
        """Go on behind a pause, with batches that have come since."""
        self.feeder.is_paused = self.is_flushed = False

    def run(self) -> Iterator[tuple[Node, FiringOutput]]:
        """Fire until nothing can: each time the node, and what came of it."""
        while (node := self.next()) is not None:
            yield node, self.fire(node)

    def next(self) -> Node | None:
        """The node to fire next; None when all have finished, or the stream pauses and nothing is left to do."""
        self.feeder.advance()
        node = self.choose()
        if node is None and self.feeder.is_paused and not self.is_flushed:
            self.is_flushed = True
            for each in self.nodes:
                each.tell_all()
            node = self.choose()
        if node is None and not self.feeder.is_paused:
            refuse_stuck(self.nodes)
        return node

    def fire(self, node: Node) -> FiringOutput:
        if not self.is_checked:
            return node.fire()
        before = self.progress(node)
        output = node.fire()
        for each in self.nodes:
            each.input.check()
        if self.progress(node) == before:
            raise InternalError(f"{node.name}: a firing did nothing")
        return output

    def progress(self, node: Node) -> tuple[int, ...]:
        """What must change with a firing."""
        counter, first = node.counter, isinstance(node, RunningNode) and node.loop.is_first
        sent = sum(sink.channel.sent + sink.channel.sent_marks + sink.channel.counts.beats for sink in node.sinks)
        marks = node.input.consumed_marks
        return counter.items, counter.signals, marks, counter.outputs, sent, int(first), int(node.is_finished)
