"""Nodes on several cores: which is where, and what passes between cores when one has fired.

Cores share nothing but messages: a block of items and marks that crosses from one to another, what was consumed of
such (`engine/crossing.py`), and what a split selects, for the merges. Two kinds of cores do so: threads
(`engine/threads.py`) and virtual ones (`engine/virtual.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.engine.actor import Several
from penstock.engine.crossing import Crossing, CrossingBlock
from penstock.engine.intake import Feeder
from penstock.engine.loop import FiringOutput
from penstock.engine.scheduler import Node, Policy
from penstock.plan.passes.size import AHEAD

Message = Callable[[], None]


class Cores:
    """The nodes of a run by core, with the channels that lead from one to another."""

    def __init__(
        self,
        nodes: Sequence[Node],
        feeder: Feeder,
        cores: Mapping[Node, int],
        crossings: Mapping[Node, Sequence[tuple[Crossing, Node]]],
        policy: Callable[[Sequence[Node], int], Policy],
        merges: Mapping[Node, Sequence[Any]],
        *,
        check: bool,
    ) -> None:
        """`cores` says where each node is at work, `crossings` which channels lead from it to a node elsewhere.

        `merges` are those that hear of what a split selects.
        """
        self.merges = merges
        self.nodes, self.feeder, self.is_checked = nodes, feeder, check
        used = sorted(set(cores.values()))
        self.thread = {node: used.index(core) for node, core in cores.items()}
        for node, core in cores.items():
            node.core = core
        self.out: dict[Node, list[tuple[Crossing, int]]] = {node: [] for node in nodes}
        self.into: dict[Node, list[tuple[Crossing, int]]] = {node: [] for node in nodes}
        for sender, leaving in crossings.items():
            for crossing, receiver in leaving:
                self.out[sender].append((crossing, self.thread[receiver]))
                self.into[receiver].append((crossing, self.thread[sender]))
        self.own = [[node for node in nodes if self.thread[node] == at] for at in range(len(used))]
        for own in self.own:
            self._look_ahead(own, crossings)
        self.choose = [policy(own, at) for at, own in enumerate(self.own)]

    def _look_ahead(self, own: Sequence[Node], crossings: Mapping[Node, Sequence[tuple[Crossing, Node]]]) -> None:
        """Note for each node of a core which others it leads to, straight or by those behind it."""
        readers = {channel: node for node in own for channel in _inputs(node)}
        for node in reversed(own):
            behind = [readers[sink.channel] for sink in node.sinks if sink.channel in readers]
            across = [(crossing.sending, AHEAD * receiver.width) for crossing, receiver in crossings.get(node, ())]
            node.leads = list(dict.fromkeys([*across, *(lead for each in behind for lead in each.leads)]))

    def fire(self, node: Node) -> FiringOutput:
        output = node.fire()
        if self.is_checked:
            node.input.check()
            for crossing, _ in self.out[node]:
                crossing.sending.check()
        return output

    def blocks(self, node: Node) -> Iterator[tuple[int, Crossing, CrossingBlock]]:
        """What a node has written for other cores since it was last asked, with the core that it is for."""
        for crossing, receiver in self.out[node]:
            block = crossing.block()
            if block is not None:
                yield receiver, crossing, block

    def words(self, node: Node) -> Iterator[tuple[int, Message]]:
        """What else a node has for others, with the core that it is for: what it has selected, and consumed."""
        for entry in node.letters():
            for merge in self.merges.get(node, ()):
                yield self.thread[merge], lambda merge=merge, entry=entry: merge.select(entry)  # type: ignore[misc]
        for crossing, sender in self.into[node]:
            taken = crossing.taken()
            if taken is not None:
                yield sender, lambda crossing=crossing, taken=taken: crossing.forget(taken)  # type: ignore[misc]


def _inputs(node: Node) -> Sequence[Any]:
    return node.input.channels if isinstance(node.input, Several) else [node.input]
