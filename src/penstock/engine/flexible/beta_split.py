"""The splits of a flexible join, one for each side: that of the first decides, and the others follow it.

So the sides need not come together before they are shared out (algorithm 4 of the paper on flexible filters). Sides
drop items, each its own: so it is not told how many items of a run there are, but at which place, by the clock of the
join, it ends. A side may have nothing there, or more than a copy has room for: then its split waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.engine.actor import Actor
from penstock.engine.ensemble import Ensemble
from penstock.engine.flexible.select_stream import CopyRun, End, Entry, Reached, Until
from penstock.engine.flexible.split_policy import Policy
from penstock.engine.flexible.split_side import LAST, Side
from penstock.engine.joint import Sides
from penstock.engine.loop import FiringOutput
from penstock.engine.statistics import Firing
from penstock.kernels.credit import CREDIT
from penstock.plan.heartbeat.clocks import BEFORE, ITEM, STEPS
from penstock.plan.segment import Segment


class BetaSplit(Actor):
    """The split of one side."""

    role = "split"

    def __init__(
        self,
        segment: Segment,
        name: str,
        side: Side,
        is_late: bool,
        width: int,
        clock: Callable[[], float],
        trace: list[Firing] | None,
    ) -> None:
        """With `is_late`, there may be signals behind an item that all sides have."""
        super().__init__(segment, name, width, clock, trace)
        self.is_late = is_late
        self.side, self.input, self.sinks = side, Sides([side.source], side.clock), list[Any]()
        self.run: CopyRun | None = None
        """The run that is under way."""

    @property
    def is_ready(self) -> bool:
        return self.is_fireable

    def _taken(self) -> Ensemble:
        return self.side.source.take(self.side.source.queued)

    def _next_place(self, taken: Ensemble, row: int, mark: int) -> int:
        """Before this place all has come, but for signals that all sides have."""
        return self.side.next_place(taken, row, mark, self.input.frontier(self.side.source, taken))

    def _next_end(self, taken: Ensemble, row: int, mark: int) -> int:
        """A run can end at this place: before it all has come.

        A side that has had an item says that it has come past what was emitted behind it. That does not hold for what
        was emitted before the streams parted, which all sides have.
        """
        reached = self.input.frontier(self.side.source, taken)
        if self.is_late and reached % STEPS == BEFORE:
            reached = max(reached - 1, self.side.last_place(taken))
        return self.side.next_place(taken, row, mark, reached)

    def _come_to(self, place: int) -> None:
        """Tell the copy whose run goes on how far this side has come: others may wait for that."""
        assert self.run is not None
        channel = self.side.copies[self.run.copy]
        if place > channel.progress.told[self.side.clock]:
            channel.tell(self.side.clock, place)

    def _end(self, place: int) -> None:
        assert self.run is not None
        self.side.end(self.run.copy, self.run.number, place)
        self.run = None

    def _finish(self) -> None:
        self.is_finished = True
        for copy in self.side.copies:
            copy.end()

    def _consume(self, started: float, taken: Ensemble, row: int, mark: int) -> FiringOutput:
        items = row - taken.start
        dealt = self.side.source.consume(items, mark - taken.first_mark)
        self.count(started, items, items >= self.width, dealt, items)
        return FiringOutput()


class FirstSplit(BetaSplit):
    """The split of the first side: it sends the join's own copy what it has room for, and the others the rest.

    Invariant: runs that have ended have all that stands before their ends, on any side; one that is under way has, up
    to now, what stands before `place`. It goes on to the next firing only where more may come, on this side too, that
    stands before `place`.
    """

    def __init__(self, segment: Segment, side: Side, is_told: bool, *given: Any) -> None:
        """With `is_told`, those behind the join want to know how far it has come."""
        super().__init__(segment, f"split of {segment.name}", side, *given)
        self.is_told, self.policy = is_told, Policy(self.width)
        self.selected: list[Entry] = []
        self.number = self.place = 0

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        """Whether there is something to send, or at least word that the side has come further."""
        if self.is_finished:
            return False
        source = self.side.source
        if source.ready() > 0 or source.has_marks:
            return True
        taken = self._taken()
        at = (taken.stop, taken.last_mark)
        return taken.is_last or self._next_place(taken, *at) > self.place or self._can_end(taken)

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return any(self._may_get(copy) for copy in self._in_order()) or self._can_end(self._taken())

    def _can_end(self, taken: Ensemble) -> bool:
        """Whether the run that is under way has all that it is to have."""
        return self.run is not None and self._next_end(taken, taken.start, taken.first_mark) >= self.place

    def _may_get(self, copy: int) -> bool:
        """Whether a copy may get what comes next: it goes on with its run, or may begin one."""
        if self.run is not None:
            return self.run.copy == copy and self.side.has_room(copy)
        has_room = self.policy.room(self.side.copies[copy]) > 0 and self.side.has_room(copy)
        return has_room and self.policy.may_get(copy)

    def _in_order(self) -> list[int]:
        return self.policy.in_order([self.policy.room(channel) for channel in self.side.copies])

    def fire(self) -> FiringOutput:
        """Hand out one ensemble, as far as there is room."""
        started, taken = self.clock(), self._taken()
        row, mark, most = taken.start, taken.first_mark, min(taken.stop, taken.start + self.width)
        if self._can_end(taken):
            self._close(self._next_end(taken, row, mark), self._next_place(taken, row, mark))
        for copy in self._in_order():
            if self._may_get(copy):
                row, mark = self._give(copy, taken, row, mark, most)
        is_through = taken.is_last and row == taken.stop and mark == taken.last_mark
        output = self._consume(started, taken, row, mark)
        if is_through and self.place == LAST:
            self.selected.append(End())
            self._finish()
        return output

    def _give(self, copy: int, taken: Ensemble, row: int, mark: int, most: int) -> tuple[int, int]:
        """Send a copy what it has room for, as a run; the row and the mark behind it."""
        side = self.side
        stop, last = side.reach(copy, taken, row, mark, most, LAST)
        end = self._next_end(taken, stop, last)
        clear = side.first_at(taken, mark, last, end)
        if stop > row or (taken.kinds[mark:clear] != CREDIT).any():
            self._send(copy, taken, row, stop, mark, clear)
            self._settle(end, self._next_place(taken, stop, clear))
            return stop, clear
        come = self._next_place(taken, stop, last)
        if clear < last:  # more stands, or may stand, at the place of the first mark
            self._send(copy, taken, row, stop, mark, last)
            self._go_on(end + 1, come)
        elif stop == taken.stop and last == taken.last_mark and come > self.place:
            self._send(copy, taken, row, stop, mark, last)
            self._settle(end, come)
        return stop, last

    def _send(self, copy: int, taken: Ensemble, row: int, stop: int, mark: int, last: int) -> None:
        if self.run is None:
            self.run = CopyRun(copy, self.number, self.side.begin(copy, self.place))
            self.selected.append(self.run)
        self.side.give(copy, taken, row, stop, mark, last)

    def _settle(self, end: int, come: int) -> None:
        """End the run under way at a place, unless more may come that stands before another."""
        if come > end:
            self._go_on(come, come)
        else:
            self._close(end, come)

    def _go_on(self, place: int, come: int) -> None:
        """The run under way has all that stands before a place, but this side has only come to another."""
        if place > self.place:
            self.place = place
            self.selected.append(Until(place, False))
        self._come_to(come)

    def _close(self, place: int, come: int) -> None:
        """The run under way ends at a place, when the side has come to another."""
        self._end(place)
        self.place, self.number = place, self.number + 1
        self.selected.append(Until(place, True))
        if self.is_told and come < LAST:
            self.selected.append(Reached(self.side.clock, come - ITEM + BEFORE if come % STEPS == ITEM else come))

    def letters(self) -> list[Entry]:
        """What is new in the select stream."""
        found, self.selected = self.selected, []
        return found


class NextSplit(BetaSplit):
    """The split of another side: it follows the select stream, and waits where a copy has no room."""

    def __init__(self, segment: Segment, number: int, *given: Any) -> None:
        super().__init__(segment, f"split of {segment.name} (side {number})", *given)
        self.entries: deque[Entry] = deque()
        self.until = Until(0, False)
        self.place = 0
        """Where the next run begins."""

    def select(self, entry: Entry) -> None:
        """The select stream goes on."""
        if not isinstance(entry, Reached):
            self.entries.append(entry)

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        """Whether something can be sent as far as it is known whose it is, or a run begins or ends."""
        if self.is_finished:
            return False
        if self.run is None or (self.entries and not self.until.is_end):
            return bool(self.entries)
        taken = self._taken()
        at = (taken.start, taken.first_mark)
        if self._next_end(taken, *at) >= self.until.place and self.until.is_end:
            return True
        come = min(self._next_place(taken, *at), self.until.place)
        is_sent = come == self.until.place or at == (taken.stop, taken.last_mark)
        return not is_sent or come > self._told

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        """Whether a run that begins has room for its first mark, or one that goes on for what comes next."""
        if self.run is not None:
            return self.side.has_room(self.run.copy) or self._is_through()
        first = self.entries[0] if self.entries else None
        return not isinstance(first, CopyRun) or self.side.room_marks(first.copy) >= 0

    @property
    def _told(self) -> int:
        assert self.run is not None
        return self.side.copies[self.run.copy].progress.told[self.side.clock]

    def _is_through(self) -> bool:
        """Whether all has been sent that the run under way has so far."""
        taken = self._taken()
        at = (taken.start, taken.first_mark)
        return self._next_place(taken, *at) >= self.until.place or at == (taken.stop, taken.last_mark)

    def fire(self) -> FiringOutput:
        """Follow the select stream as far as there is something to send, and room."""
        started, taken = self.clock(), self._taken()
        row, mark = taken.start, taken.first_mark
        while self._hear():
            assert self.run is not None
            copy = self.run.copy
            most = min(taken.stop, taken.start + self.width)
            stop, last = self.side.reach(copy, taken, row, mark, most, self.until.place)
            self.side.give(copy, taken, row, stop, mark, last)
            row, mark = stop, last
            if self._next_end(taken, row, mark) < self.until.place or not self.until.is_end:
                self._come_to(min(self._next_place(taken, row, mark), self.until.place))
                break
            self._end(self.until.place)
            self.place = self.until.place
        output = self._consume(started, taken, row, mark)
        if self.entries and isinstance(self.entries[0], End) and self.run is None:
            self._finish()
        return output

    def _hear(self) -> bool:
        """Take note of what has been selected; whether a run is under way."""
        while self.entries:
            entry = self.entries[0]
            if isinstance(entry, CopyRun) and self.run is None and self.side.room_marks(entry.copy) >= 0:
                self.run, self.until = entry, Until(0, False)
                self.side.begin(entry.copy, self.place)
            elif isinstance(entry, Until) and not self.until.is_end:
                self.until = entry
            else:
                break
            self.entries.popleft()
        return self.run is not None
