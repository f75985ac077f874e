"""Virtual cores with a bounded memory: how many blocks each holds, as in section 3.1 of the paper on flexible filters.

A block is what a node that reads the source takes at a time, and what becomes of it. It is in the memory of a core from
when the core receives it, or begins to take it from the source, until it has passed to the next core: a block that is
done with takes memory while the next core has no room. It passes when that has, in no time, also while its core is
busy. A node works on one block at a time, in its place. What waits for no node that takes time is not counted: results
leave.

Where a node is flexible, the split asks how much room there is: before the node's own copy, for the whole block or for
nothing. A core that is free may work ahead: it then takes one item of the block, and while it is at work on it the rest
of the block stays.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from penstock.engine.channel import Channel
from penstock.engine.crossing import Crossing, CrossingBlock
from penstock.engine.loop import FiringOutput
from penstock.engine.scheduler import Node
from penstock.engine.statistics import HeldBlocks
from penstock.engine.virtual import Fired, Times, VirtualCores, Work, at_hand
from penstock.errors import GraphError

EVERYTHING = 1 << 48


class BoundedCores(VirtualCores):
    """Fires nodes on virtual cores of which each holds so many blocks.

    Invariant: `lots` has the items of each channel that is counted, in order: how many are of one block, and which.
    """

    def __init__(
        self, times: Times, block_items: int, history: list[HeldBlocks] | None, *given: Any, check: bool
    ) -> None:
        super().__init__(times, *given, check=check)
        if any(node.segment.meet is not None for node in self.nodes):
            raise GraphError("VirtualClock: memory_blocks is for graphs in which no streams meet; leave it out")
        if not all(channel.trusts for node in self.nodes for channel in _inputs(node)):
            raise GraphError(
                "VirtualClock: memory_blocks needs credit='queued', or nodes wait for credit for what they hold until "
                "more has come than there is memory for; got credit='balance'"
            )
        assert self.clock.memory_blocks is not None
        self.most, self.block_items, self.history = self.clock.memory_blocks, block_items, history
        crossings = [(crossing, self.thread[node]) for node in self.nodes for crossing, _ in self.out[node]]
        self.across = {crossing.sending: crossing for crossing, _ in crossings}
        self.sender = dict(crossings)
        self.leaving: dict[Crossing, deque[tuple[CrossingBlock, int]]] = {
            crossing: deque() for crossing, _ in crossings
        }
        self.takers = {channel: node for node in self.nodes for channel in _inputs(node)}
        self.lots: dict[Channel, deque[list[int]]] = {
            channel: deque() for channel in self.takers if self._is_counted(channel)
        }
        self.block = 0
        """The block that the last firing worked on."""
        self.sharing: int | None = None
        """The core that is free to work ahead."""
        for node in self.nodes:
            for copy, channel in enumerate(_outputs(node) if node.role == "split" else ()):
                channel.limit = partial(self._limit, node, copy, channel)

    def _is_counted(self, channel: Channel) -> bool:
        """Whether what lies in a channel waits, at last, for a node that takes time."""
        taker = self.takers[channel]
        if taker not in self.free:
            return True
        return any(self._is_counted(self._behind(each)) for each in _outputs(taker))

    def _behind(self, channel: Channel) -> Channel:
        """The side of a channel that the receiver has."""
        return self.across[channel].receiving if channel in self.across else channel

    # What cores hold

    def held(self, core: int) -> set[int]:
        """The blocks in the memory of a core."""
        found = {
            block
            for channel, lots in self.lots.items()
            if self.thread[self.takers[channel]] == core
            for _, block in lots
        }
        for crossing, waiting in self.leaving.items():
            if self.sender[crossing] == core:
                found |= {number for block, number in waiting if block.piece.count}
        work = self.busy.get(core)
        return found | {self._next(work.node)} if work is not None and work.node.reads_source else found

    def _has_room(self, core: int, block: int) -> bool:
        held = self.held(core)
        return block in held or len(held) < self.most

    def _next(self, node: Node) -> int:
        """The block of the source that a node is to take from next."""
        return node.counter.items // self.block_items

    def _limit(self, split: Node, copy: int, channel: Channel) -> int:
        """How much of the block at hand a copy has room for: its own all, or else one item where its core is free."""
        lots, behind = self.lots.get(_inputs(split)[0]), self._behind(channel)
        if not lots:
            return EVERYTHING
        (left, block), core = lots[0], self.thread[self.takers[behind]]
        if core != self.thread[split] and not self._has_room(core, block):
            return 0
        if copy == 0:
            return left
        is_idle = core not in self.busy and not behind.queued and not channel.queued
        return int(is_idle and self.sharing == self.thread[split])

    # What may fire

    def _at_once(self) -> Node | None:
        """A node that takes no time, or one that has marks before it, which take none."""
        self.sharing = None
        for node in reversed(self.nodes):
            self._narrow(node)
            work = self.busy.get(self.thread[node])
            is_busy = work is not None and (work.node is node or (node.role == "split" and _is_one(work.node, node)))
            if not is_busy and node.is_fireable:
                if node in self.free:
                    return node
                if node.role == "loop" and any(_has_marks_first(channel) for channel in _inputs(node)):
                    node.width = 0
                    return node
        return None

    def _chosen(self, core: int) -> Node | None:
        for node in self.own[core]:
            self._narrow(node)
        self.sharing = core
        return super()._chosen(core)

    def _narrow(self, node: Node) -> None:
        """Let a node take no more than is left of one block, and none of the source that there is no room for."""
        widths = [self.width[node], *(lots[0][0] for each in _inputs(node) if (lots := self.lots.get(each)))]
        if node.reads_source:
            widths.append(self.block_items - node.counter.items % self.block_items)
            node.is_held = at_hand(node) > 0 and not self._has_room(self.thread[node], self._next(node))
        node.width = min(widths)

    def _settle(self) -> Fired:
        yield from super()._settle()
        while not self.busy and self._pass_needed():
            yield from super()._settle()
        for core, own in enumerate(self.own):
            self._note(own[0].core, tuple(sorted(self.held(core))))

    def _note(self, core: int, blocks: tuple[int, ...]) -> None:
        """Note what a core holds, where that has changed."""
        if self.history is None:
            return
        last = next((each.blocks for each in reversed(self.history) if each.core == core), ())
        if blocks != last:
            self.history.append(HeldBlocks(float(self.clock.now), core, blocks))

    # What passes

    def fire(self, node: Node) -> FiringOutput:
        """Fire a node, and follow the blocks through it."""
        taken = [(channel, channel.consumed, self.lots.get(channel)) for channel in _inputs(node)]
        sent = [(channel, channel.sent) for channel in _outputs(node)]
        if node.reads_source:
            self.block = self._next(node)
        output = super().fire(node)
        for channel, before, lots in taken:
            if lots and channel.consumed > before:
                self.block = lots[0][1]
                _drop(lots, channel.consumed - before)
        for channel, before in sent:
            if channel in self.lots and channel.sent > before:
                self.lots[channel].append([channel.sent - before, self.block])
        return output

    def _send(self, receiver: int, crossing: Crossing, block: CrossingBlock) -> None:
        self.leaving[crossing].append((block, self.block))

    def _end(self, work: Work) -> Fired:
        yield from super()._end(work)
        while any(self._pass(crossing) for crossing in self.leaving):
            pass

    def _pass_needed(self) -> bool:
        """Let a block pass that a merge waits for, though there is no room: it is the next in the order."""
        needed = (each for each in self.leaving if _is_awaited(self.takers[each.receiving], each.receiving))
        return any(self._pass(crossing, is_needed=True) for crossing in needed)

    def _pass(self, crossing: Crossing, *, is_needed: bool = False) -> bool:
        """Let the first block pass that waits to, if the next core has room for it."""
        waiting, behind = self.leaving[crossing], crossing.receiving
        if not waiting:
            return False
        block, number = waiting[0]
        lots = self.lots.get(behind) if block.piece.count else None
        if lots is not None and not is_needed and not self._has_room(self.thread[self.takers[behind]], number):
            return False
        waiting.popleft()
        crossing.receive(block)
        if lots is not None:
            lots.append([block.piece.count, number])
        return True


def _is_one(node: Node, other: Node) -> bool:
    """Whether both are parts of one flexible node."""
    return node.segment is other.segment


def _is_awaited(node: Any, channel: Channel) -> bool:
    """Whether a merge can go on with nothing else but what comes through a channel."""
    return node.role == "merge" and not channel.queued and _inputs(node).index(channel) == node.awaited


def _has_marks_first(channel: Channel) -> bool:
    """Whether there are marks before the first item. They do not wait with it: those behind may wait for them."""
    taken = channel.take(0)
    return taken.last_mark > taken.first_mark


def _inputs(node: Any) -> list[Channel]:
    """The channels that a node takes from; none where it reads the source."""
    if node.reads_source:
        return []
    return list(getattr(node.input, "channels", [node.input]))


def _outputs(node: Any) -> list[Channel]:
    return list(node.copies) if node.role == "split" else [sink.channel for sink in node.sinks]


def _drop(lots: deque[list[int]], items: int) -> None:
    """Take items from the front."""
    while items:
        some = min(items, lots[0][0])
        lots[0][0] -= some
        items -= some
        if not lots[0][0]:
            lots.popleft()
