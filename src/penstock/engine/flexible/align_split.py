"""The split before a flexible join that shares out all its sides: one copy gets the same indices of all of them.

It goes by the room before the copies as the split of a node with one input does (`copy_split.py`); but what is sent to
one is a piece of each side, and there must be room for it on all (algorithm 3 of the paper on flexible filters). It
ends where nothing of any side stands before it that has not been sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.engine.actor import Actor
from penstock.engine.ensemble import Ensemble
from penstock.engine.flexible.select_stream import CopyRun, End, Entry, Reached
from penstock.engine.flexible.split_policy import Policy
from penstock.engine.flexible.split_side import Side, frontier
from penstock.engine.joint import Sides
from penstock.engine.loop import FiringOutput
from penstock.engine.statistics import Firing
from penstock.kernels.credit import CREDIT
from penstock.plan.heartbeat.clocks import BEFORE, ITEM, STEPS
from penstock.plan.segment import Segment


@dataclass(frozen=True)
class SidesCut:
    """A place in all sides: the row and the mark that come next in each."""

    rows: tuple[int, ...]
    marks: tuple[int, ...]


class JoinSplit(Actor):
    """Takes from the sides of a join and writes into the channels of the copies, the join's own first.

    Invariant: between two firings no run is under way. So all that a copy has can be decided by it, and none waits for
    what others have.
    """

    role = "split"

    def __init__(
        self,
        segment: Segment,
        source: Sides,
        sides: Sequence[Side],
        sharing: np.ndarray,
        told: Sequence[str],
        width: int,
        clock: Callable[[], float],
        trace: list[Firing] | None,
    ) -> None:
        """`told` are the clocks by which those behind the join want to know how far it has come."""
        super().__init__(segment, f"split of {segment.name}", width, clock, trace)
        self.input, self.sides, self.sharing = source, list(sides), sharing
        self.policy = Policy(width)
        self.selected: list[Entry] = []
        self.number = self.place = 0
        """The number of the next run, and the place at which it begins."""
        self.told = dict.fromkeys(told, 0)
        self.sinks: list[Any] = []
        self._seen: tuple[Any, ...] | None = None
        self._has_work = False

    # When it may fire

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        """Whether some of what the sides have is decided, or all have ended."""
        if self.is_finished:
            return False
        seen = tuple(channel.news for channel in self.input.channels)
        if seen != self._seen:
            self._seen, taken = seen, self._taken()
            start = _start(taken)
            found = self._decided(taken, start, *_limits(taken, self.width))
            self._has_work = found != start or _is_end(taken, found)
            self._come_to(taken, start)
        return self._has_work

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return any(self._may_get(copy) for copy in self._copies)

    @property
    def has_to_tell(self) -> bool:
        """Whether those behind want to know that it has come further."""
        return not self.is_finished and any(self.input.reached(clock) > place for clock, place in self.told.items())

    @property
    def is_ready(self) -> bool:
        return self.is_fireable

    @property
    def _copies(self) -> range:
        return range(len(self.sides[0].copies))

    def _may_get(self, copy: int) -> bool:
        has_room = min(self._room(copy)) > 0 and all(side.has_room(copy) for side in self.sides)
        return has_room and self.policy.may_get(copy)

    def _room(self, copy: int) -> list[int]:
        """How many items of each side a copy has room for."""
        return [self.policy.room(side.copies[copy]) for side in self.sides]

    # A firing

    def fire(self) -> FiringOutput:
        """Hand out an ensemble of each side, as far as it is decided and there is room."""
        started, taken = self.clock(), self._taken()
        start = at = _start(taken)
        for copy in self.policy.in_order([min(self._room(copy)) for copy in self._copies]):
            if self._may_get(copy):
                at = self._give(copy, taken, at)
        self._come_to(taken, at)
        dealt = 0
        for channel, each, row, mark in zip(self.input.channels, taken, at.rows, at.marks, strict=True):
            dealt += channel.consume(row - each.start, mark - each.first_mark)
        self._seen = None
        self._tell()
        if _is_end(taken, at):
            self._finish()
        items = sum(at.rows) - sum(start.rows)
        self.count(started, items, items >= self.width, dealt, items)
        return FiringOutput()

    def _give(self, copy: int, taken: Sequence[Ensemble], at: SidesCut) -> SidesCut:
        """Send a copy what it has room for, as a run; where that ends."""
        stops, lasts = _limits(taken, self.width)
        for number, (side, room) in enumerate(zip(self.sides, self._room(copy), strict=True)):
            stops[number] = min(stops[number], at.rows[number] + room)
            last = at.marks[number] + side.room_marks(copy)
            if last < lasts[number]:  # what stands behind a mark does not pass it
                lasts[number], stops[number] = last, min(stops[number], int(taken[number].places[last]))
        cut = self._decided(taken, at, stops, lasts)
        if not _holds_something(taken, at, cut):
            return cut
        known = [side.begin(copy, self.place) for side in self.sides]
        self.selected.append(CopyRun(copy, self.number, known[0]))
        for number, side in enumerate(self.sides):
            side.give(copy, taken[number], at.rows[number], cut.rows[number], at.marks[number], cut.marks[number])
        self.place = max(self.place, self._next_place(taken, cut))
        for side in self.sides:
            side.end(copy, self.number, self.place)
        self.number += 1
        return cut

    # What is decided

    def _taken(self) -> list[Ensemble]:
        return [channel.take(channel.queued) for channel in self.input.channels]

    def _decided(self, taken: Sequence[Ensemble], at: SidesCut, stops: Sequence[int], lasts: Sequence[int]) -> SidesCut:
        """How far all sides can go together, up to these rows and marks."""
        channels = self.input.channels
        numbers = [channel.progress.clocks.index(self.input.clock) for channel in channels]
        count, marked = 1 + sum(stops) - sum(at.rows), 1 + sum(lasts) - sum(at.marks)
        rows, marks = np.array(at.rows), np.array(at.marks)
        channels[0].form.protocol.align(
            tuple(channel.data.array_of(self.input.clock) for channel in channels),
            np.array(stops),
            tuple(channel.control.kinds for channel in channels),
            tuple(channel.control.keys[number] for channel, number in zip(channels, numbers, strict=True)),
            tuple(channel.control.places for channel in channels),
            tuple(channel.control.emitted for channel in channels),
            np.array(lasts),
            np.array([frontier(self.input, *each) for each in zip(self.sides, taken, stops, lasts, strict=True)]),
            self.sharing,
            False,
            False,
            np.empty((count, len(channels)), np.int64),
            np.empty(count, np.int64),
            np.empty((marked, 3), np.int64),
            rows,
            marks,
        )
        return SidesCut(tuple(rows.tolist()), tuple(marks.tolist()))

    def _next_place(self, taken: Sequence[Ensemble], at: SidesCut) -> int:
        """Where the first stands of what any side has next."""
        found = []
        for side, each, row, mark in zip(self.sides, taken, at.rows, at.marks, strict=True):
            found.append(side.next_place(each, row, mark, self.input.frontier(side.source, each)))
        return min(found)

    # What is told

    def _come_to(self, taken: Sequence[Ensemble], at: SidesCut) -> None:
        """All before a cut has been dealt with."""
        place = self._next_place(taken, at)
        self.input.place = max(self.input.place, place - ITEM + BEFORE if place % STEPS == ITEM else place)

    def _tell(self) -> None:
        """Say how far the sides have come, where that is asked for."""
        for clock, place in self.told.items():
            now = self.input.reached(clock)
            if now > place:
                self.selected.append(Reached(clock, now))
                self.told[clock] = now

    def _finish(self) -> None:
        self.selected.append(End())
        self.is_finished = True
        for side in self.sides:
            for copy in side.copies:
                copy.end()

    def letters(self) -> list[Entry]:
        """What is new in the select stream."""
        found, self.selected = self.selected, []
        return found


def _start(taken: Sequence[Ensemble]) -> SidesCut:
    return SidesCut(tuple(each.start for each in taken), tuple(each.first_mark for each in taken))


def _limits(taken: Sequence[Ensemble], width: int) -> tuple[list[int], list[int]]:
    """How far a firing goes at most."""
    return [min(each.stop, each.start + width) for each in taken], [each.last_mark for each in taken]


def _is_end(taken: Sequence[Ensemble], at: SidesCut) -> bool:
    """Whether all sides have ended, and nothing is left of them."""
    stops, lasts = tuple(each.stop for each in taken), tuple(each.last_mark for each in taken)
    return all(each.is_last for each in taken) and at == SidesCut(stops, lasts)


def _holds_something(taken: Sequence[Ensemble], at: SidesCut, cut: SidesCut) -> bool:
    """Whether between two cuts there is more than messages of credit."""
    marks = (each.kinds[mark:last] for each, mark, last in zip(taken, at.marks, cut.marks, strict=True))
    return at.rows != cut.rows or any((kinds != CREDIT).any() for kinds in marks)
