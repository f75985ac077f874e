"""A running node at which streams meet: it takes from several channels, by index, and writes into others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codegen.outlets import INDEX
from penstock.engine.actor import Actor, Several
from penstock.engine.channel import Channel
from penstock.engine.ensemble import Ensemble
from penstock.engine.loop import FiringOutput
from penstock.engine.sinks import ChannelSink
from penstock.engine.statistics import Firing
from penstock.engine.tags import LINK, TAG
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.hidden import is_hidden
from penstock.graph.source import to_plain
from penstock.graph.tree import Tree
from penstock.kernels.align_sides import NEVER
from penstock.kernels.credit import CREDIT, SIGNAL
from penstock.plan.heartbeat.clocks import BEFORE, STEPS
from penstock.plan.segment import Segment


@dataclass
class _Look:
    """What would come of a firing: rows and marks, and how far each side would be consumed."""

    ensembles: list[Ensemble]
    rows: np.ndarray
    found: np.ndarray
    marks: np.ndarray
    items: list[int]
    passed: list[int]
    is_last: bool

    @property
    def does_something(self) -> bool:
        return any(self.items) or any(self.passed) or self.is_last


class Sides(Several):
    """The channels that lead to where streams meet, as one input."""

    def __init__(self, channels: Sequence[Channel], clock: str) -> None:
        super().__init__(channels)
        self.clock = clock
        self.place = 0
        """All that stands before this place, by the clock of the stem, has been dealt with."""
        self.numbered = 0
        """How many items have left, which the node numbers itself where it merges."""

    def reached(self, clock: str) -> int:
        if clock == self.clock:
            return self.place
        if clock not in self.channels[0].progress.clocks:
            return STEPS * (self.numbered + 1) + BEFORE
        return int(min(channel.reached(clock) for channel in self.channels))

    def frontier(self, channel: Channel, taken: Ensemble) -> int:
        """How far a side has come: nothing more will come of it that stands before this place."""
        if taken.is_last:
            return NEVER
        keys = channel.control.keys[channel.progress.clocks.index(self.clock)]
        found = [channel.progress.passed[self.clock], *keys[taken.first_mark : taken.last_mark].tolist()]
        if taken.stop > taken.start:
            last = int(channel.data.array_of(self.clock)[taken.stop - 1])
            found.append(STEPS * (last + 1) + channel.progress.done[self.clock])
        if channel.is_all(taken.stop, taken.last_mark):
            found.append(channel.progress.told[self.clock])
        return int(max(found))


class JointNode(Actor):
    """Streams that meet, at work.

    Invariant: an item, or a mark, is consumed on all sides that have it, and sent on once. What is not decided, because
    a side may yet have something before it, waits in the channels.
    """

    def __init__(
        self,
        tree: Tree,
        segment: Segment,
        sides: Sides,
        sinks: list[ChannelSink],
        width: int,
        clock: Callable[[], float],
        trace: list[Firing] | None,
    ) -> None:
        assert segment.meet is not None
        super().__init__(segment, segment.name, width, clock, trace)
        self.meet, self.input, self.sinks = segment.meet, sides, sinks
        self.sharing = sharing(tree, self.meet)
        self._seen: tuple[Any, ...] | None = None
        self._look: _Look | None = None
        self._looking_s = 0.0
        """What it took to look since the last firing: it is work of the next one."""

    # When it may fire

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return not any(sink.channel.is_full for sink in self.sinks)

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        return not self.is_finished and self._looked() is not None

    @property
    def is_ready(self) -> bool:
        """Whether it should fire: on many items, or because a side is full, or has ended."""
        sides = self.input.channels
        forced = any(each.is_full or each.is_ended for each in sides)
        if self.is_finished or not (forced or max(each.queued for each in sides) >= self.width):
            return False  # to look takes as long as there are items
        look = self._looked()
        return look is not None and self.has_room and (forced or max(look.items) >= self.width)

    def _looked(self) -> _Look | None:
        """What can be done now; it is looked for again when something has changed."""
        sides = [channel.news for channel in self.input.channels]
        room = [(s.channel.consumed, s.channel.consumed_marks, s.channel.sent) for s in self.sinks]
        seen = (sides, room)
        if seen != self._seen:
            self._seen, started = seen, self.clock()
            found = self._find()
            self._looking_s += self.clock() - started
            self._look = found if found.does_something else None
            if self._look is None:  # but the sides may have said that they have come further
                self.input.place = max(self.input.place, min(self._heads))
        return self._look

    def _find(self) -> _Look:
        channels = self.input.channels
        taken = [channel.take(channel.queued) for channel in channels]
        at = np.array([each.start for each in taken])
        at_mark = np.array([each.first_mark for each in taken])
        rows = np.empty((self._room_items(), len(taken)), np.int64)
        found, marks = np.empty(len(rows), np.int64), np.empty((self._room_marks(), 3), np.int64)
        by_clock = [channel.progress.clocks.index(self.input.clock) for channel in channels]
        frontiers = [self.input.frontier(channel, each) for channel, each in zip(channels, taken, strict=True)]
        count, marked = channels[0].form.protocol.align(
            tuple(channel.data.array_of(self.input.clock) for channel in channels),
            np.array([each.stop for each in taken]),
            tuple(channel.control.kinds for channel in channels),
            tuple(channel.control.keys[number] for channel, number in zip(channels, by_clock, strict=True)),
            tuple(channel.control.places for channel in channels),
            tuple(channel.control.emitted for channel in channels),
            np.array([each.last_mark for each in taken]),
            np.array(frontiers),
            self.sharing,
            isinstance(self.meet, n.Merge),
            isinstance(self.meet, n.Join) and self.meet.is_outer,
            rows,
            found,
            marks,
            at,
            at_mark,
        )
        items = [int(now) - each.start for now, each in zip(at, taken, strict=True)]
        passed = [int(now) - each.first_mark for now, each in zip(at_mark, taken, strict=True)]
        is_last = all(
            each.is_last and each.start + done == each.stop and each.first_mark + gone == each.last_mark
            for each, done, gone in zip(taken, items, passed, strict=True)
        )
        self._heads = [
            self._next_place(channel, each, done, gone, frontier)
            for channel, each, done, gone, frontier in zip(channels, taken, items, passed, frontiers, strict=True)
        ]
        return _Look(taken, rows[:count], found[:count], marks[:marked], items, passed, is_last)

    def _next_place(self, channel: Channel, taken: Ensemble, items: int, marks: int, frontier: int) -> int:
        """The place of what a side has next; where it has nothing, how far it has come."""
        row, found, control = taken.start + items, [frontier], channel.control
        left = slice(taken.first_mark + marks, taken.last_mark)
        keys = control.keys[channel.progress.clocks.index(self.input.clock)][left][control.kinds[left] != CREDIT]
        found += keys[:1].tolist()
        if row < taken.stop:
            found.append(STEPS * int(channel.data.array_of(self.input.clock)[row]) + BEFORE)
        return min(found)

    def _room_items(self) -> int:
        for sink in self.sinks:
            sink.channel.data.make_room()
        return min(sink.channel.data.avail() for sink in self.sinks)

    def _room_marks(self) -> int:
        found = []
        for sink in self.sinks:
            for queue, _, kept in sink.channel.needs[1:]:
                queue.make_room()
                found.append(queue.avail() - kept)
        return max(min(found), 0)

    # A firing

    def fire(self) -> FiringOutput:
        """Send on what is decided."""
        look, output = self._looked() if self.has_room else None, FiringOutput()
        started = self.clock()
        if look is None:
            self.tell()
            return output
        for sink in self.sinks:
            self._send(sink, look)
        for channel, items, marks in zip(self.input.channels, look.items, look.passed, strict=True):
            channel.consume(items, marks)
        self.input.numbered += len(look.rows)
        self.input.place = max(self.input.place, min(self._heads))
        self._seen = None
        output.rows = len(look.rows)
        if look.is_last:
            self.is_finished = True
            for sink in self.sinks:
                sink.channel.end()
        self.tell()
        items, started, self._looking_s = sum(look.items), started - self._looking_s, 0.0
        self.count(started, items, items >= self.width, len(look.marks), output.rows)
        return output

    def _send(self, sink: ChannelSink, look: _Look) -> None:
        channel, count = sink.channel, len(look.rows)
        data = channel.data
        if count:
            for name, each in data.stores.items():
                if name != TAG:
                    each.put(data.stop, self._column(name, each.type, look))  # type: ignore[attr-defined]
        if INDEX in data.stores and count:
            data.array_of(INDEX)[data.stop + count] = data.array_of(INDEX)[data.stop + count - 1] + 1
        parents, signals = self._send_marks(channel, look)
        channel.send(data.stop + count, channel.control.stop + len(look.marks), parents, signals)

    def _send_marks(self, channel: Channel, look: _Look) -> tuple[list[int], list[int]]:
        """Copy marks, with the parents of regions that open, and the signals."""
        control = channel.control
        parents, signals = [rows.stop for rows in channel.parents], [records.stop for records in channel.records]
        for number, (side, mark, before) in enumerate(look.marks.tolist()):
            given, at = self.input.channels[side], control.stop + number
            kind, reference = int(given.control.kinds[mark]), int(given.control.references[mark])
            control.kinds[at], control.credits[at] = kind, channel.data.stop + before
            for clock, keys in zip(channel.progress.clocks, control.keys, strict=True):
                keys[at] = self._mark_place(given, clock, mark, before)
            if control.keys:
                control.emitted[at] = given.control.emitted[mark]
            if kind >= SIGNAL:
                channel.records[kind - SIGNAL].array[signals[kind - SIGNAL]] = given.records[kind - SIGNAL].array[
                    reference
                ]
                signals[kind - SIGNAL] += 1
            elif kind % 2 == 0:
                rows = channel.parents[kind // 2]
                for name, each in rows.stores.items():
                    if name != LINK:  # like the tags of items, it is written when they are sent
                        each.put(parents[kind // 2], given.column(kind // 2, name).slice(reference, 1))
                parents[kind // 2] += 1
        return parents, signals

    def _mark_place(self, given: Channel, clock: str, mark: int, before: int) -> int:
        if clock in given.progress.clocks:
            return int(given.control.keys[given.progress.clocks.index(clock)][mark])
        return STEPS * (self.input.numbered + before + 1) + BEFORE

    # Columns

    def _column(self, name: str, t: pa.DataType, look: _Look) -> pa.Array:
        """A field of the rows: where a side lacks it, of the next that has it, or what stands for it."""
        meet = self.meet
        if name == self.input.clock:
            return pa.array(look.found)
        if is_hidden(name, "at"):
            return pa.array(np.arange(1, 1 + len(look.rows)) + self.input.numbered)
        if isinstance(meet, n.Join) and name in meet.present:
            return pa.array(look.rows[:, meet.present.index(name)] >= 0)
        sides = [at for at, side in enumerate(meet.sides) if is_hidden(name) or name in side.shape.fields]
        fill = to_plain(meet.fill[name])[0] if isinstance(meet, n.Join) and name in meet.fill else 0
        if not types.is_scalar(t):
            return self._long_column(name, t, look, sides)
        found = np.full(len(look.rows), fill, types.storage(t))
        for side in reversed(sides):
            rows = look.rows[:, side]
            has = rows >= 0
            found[has] = self._values(side, name)[rows[has]]
        if pa.types.is_boolean(t):
            return pa.array(found)
        return pa.Array.from_buffers(t, len(found), [None, pa.py_buffer(found)])

    def _values(self, side: int, name: str) -> np.ndarray:
        channel = self.input.channels[side]
        if name == INDEX and INDEX not in channel.data.stores:
            return np.arange(channel.data.stop) + int(channel.indices()[0])
        return channel.data.array_of(name)

    def _long_column(self, name: str, t: pa.DataType, look: _Look, sides: Sequence[int]) -> pa.Array:
        """A field of texts or lists, of which no item lacks it: piece by piece from the sides that have it."""
        columns = [self.input.channels[side].column(None, name).cast(t) for side in sides]
        starts = np.concatenate(([0], np.cumsum([len(column) for column in columns])))
        at = np.zeros(len(look.rows), np.int64)
        for number, side in reversed(list(enumerate(sides))):
            rows = look.rows[:, side]
            at = np.where(rows >= 0, rows + starts[number], at)
        return pa.concat_arrays(columns).take(pa.array(at))


def sharing(tree: Tree, meet: n.Meet) -> np.ndarray:
    """For each node that may have emitted a signal, and for the source, the sides that it comes from, as bits."""
    found = np.zeros(len(tree.nodes), np.int64)
    for side, node in enumerate(meet.sides):
        for above in tree.nodes:
            if above is node or node in tree.below(above):
                found[tree.number[above]] |= 1 << side
    return found
