"""The split before a flexible node: to the node what fits, the rest to its copies.

The split asks how much room there is before the node's own copy, sends it that, and sends the others what is left
(section 3 of the paper on flexible filters). A node that keeps up gets everything; where it falls behind, its queue is
full, and the copies help. What is beside the split, on its core, is asked otherwise (`split_policy.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.engine.actor import Actor
from penstock.engine.channel import Channel
from penstock.engine.ensemble import Ensemble
from penstock.engine.flexible.open_regions import Opened, followed, opening
from penstock.engine.flexible.select_stream import CopyRun, End, Entry, Reached
from penstock.engine.flexible.split_policy import Policy
from penstock.engine.loop import FiringOutput
from penstock.engine.piece import Piece, marked, piece_of, put, put_signal, without_credit
from penstock.engine.statistics import Firing
from penstock.plan.segment import Segment


class FlexSplit(Actor):
    """Takes from one channel and writes into those of the copies, the node's own first.

    Invariant: every item goes to one copy; the select stream has the runs in the order of the stream. What a copy has
    of the regions that are open is in `views`.
    """

    role = "split"

    def __init__(
        self,
        segment: Segment,
        source: Channel,
        copies: Sequence[Channel],
        run_end: int,
        width: int,
        clock: Callable[[], float],
        trace: list[Firing] | None,
    ) -> None:
        super().__init__(segment, f"split of {segment.name}", width, clock, trace)
        self.input, self.copies, self.run_end = source, list(copies), run_end
        self.policy = Policy(width)
        self.selected: list[Entry] = []
        self.current: int | None = None
        """The copy that has the run that is under way."""
        self.number = 0
        self.depth = source.depth
        self.open_rows: list[Piece] = []
        """The openings of the regions that are open, from the outermost in."""
        self.views: list[list[int]] = [[] for _ in copies]
        self.opened: list[int] = []
        self.regions = 0
        self.told = dict.fromkeys(source.progress.clocks, 0)
        self.sinks: list[Any] = []

    # When it may fire

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        source = self.input
        return not self.is_finished and (source.ready() > 0 or source.has_marks or source.is_ended)

    @property
    def is_fireable(self) -> bool:
        """Whether a copy has room for an item and the marks around it, or only how far the stream has come is new."""
        if self.is_finished:
            return False
        return (self.has_work and any(self._may_get(copy) for copy in range(len(self.copies)))) or self._is_ahead()

    @property
    def is_ready(self) -> bool:
        return self.is_fireable

    def _may_get(self, copy: int) -> bool:
        channel = self.copies[copy]
        return self.policy.room(channel) > 0 and self._room_marks(channel) > 0 and self.policy.may_get(copy)

    def _room_marks(self, copy: Channel) -> int:
        """How many marks a copy can be sent, when it has been told of the regions, and its run is to end with one."""
        room = min((rows.avail() for rows in (*copy.parents, *copy.records)), default=copy.avail_signals())
        return int(min(room, copy.avail_signals())) - 2 * self.depth - 1

    def _is_ahead(self) -> bool:
        return any(self.input.reached(clock) > place for clock, place in self.told.items())

    # A firing

    def fire(self) -> FiringOutput:
        """Hand out one ensemble, as far as there is room."""
        started, output = self.clock(), FiringOutput()
        taken = self.input.take(self._most())
        row, mark = taken.start, taken.first_mark
        for copy in self.policy.in_order([self.policy.room(channel) for channel in self.copies]):
            row, mark = self._give(copy, taken, row, mark)
            if row == taken.stop and mark == taken.last_mark:
                break
        items, marks = row - taken.start, mark - taken.first_mark
        dealt = self.input.consume(items, marks)
        self._tell()
        if taken.is_last and row == taken.stop and mark == taken.last_mark:
            self._finish()
        self.count(started, items, items == self.width, dealt, items)
        return output

    def _most(self) -> int:
        if self.is_gentle and self.input.is_ended:
            self.policy.lessen(self.input.ready(), len(self.copies))
        return self.policy.block

    def _give(self, copy: int, taken: Ensemble, row: int, mark: int) -> tuple[int, int]:
        """Send a copy what it has room for; the row and the mark behind it."""
        channel = self.copies[copy]
        if not self._may_get(copy):
            return row, mark
        stop = min(taken.stop, row + self.policy.room(channel))
        last = mark + int(np.searchsorted(taken.places[mark : taken.last_mark], stop, side="right"))
        most = self._room_marks(channel)
        if last - mark > most:
            last = mark + most
            stop = min(stop, int(taken.places[last]))
        if stop == taken.stop and last < taken.last_mark and last - mark < most:
            last = mark + min(most, taken.last_mark - mark)
        if stop == row and last == mark:
            return row, mark
        self._begin(copy)
        piece = without_credit(piece_of(self.input, taken, row, stop, mark, last))
        self._note_regions(piece, copy)
        put(channel, piece)
        return stop, last

    # Runs

    def _begin(self, copy: int) -> None:
        """From here on a copy has the stream."""
        if self.current == copy:
            return
        self._end_run()
        self.current = copy
        known = self._catch_up(copy)
        self.selected.append(CopyRun(copy, self.number, known))

    def _end_run(self) -> None:
        if self.current is not None:
            put_signal(self.copies[self.current], self.run_end, (self.number,))
            self.number += 1
            self.current = None

    def _catch_up(self, copy: int) -> int:
        """Tell a copy of the regions that have closed and opened while others had the stream; how many marks."""
        view, channel = self.views[copy], self.copies[copy]
        same = 0
        while same < min(len(view), len(self.opened)) and view[same] == self.opened[same]:
            same += 1
        for depth in reversed(range(same, len(view))):
            put(channel, self._marked(2 * depth + 1))
        for depth in range(same, len(self.opened)):
            put(channel, self.open_rows[depth])
        count = len(view) - same + len(self.opened) - same
        self.views[copy] = list(self.opened)
        return count

    def _note_regions(self, piece: Piece, copy: int) -> None:
        """Follow the regions through a piece."""
        passed = followed(piece.kinds, self.depth)
        if passed is not None:
            self.opened = [*self.opened[: passed.kept], *(self.regions + each.before for each in passed.opened)]
            rows = (self._opening(piece, each) for each in passed.opened)
            self.open_rows = [*self.open_rows[: passed.kept], *rows]
            self.regions += passed.count
        self.views[copy] = list(self.opened)

    def _opening(self, piece: Piece, opened: Opened) -> Piece:
        """The opening of a region, to be told again."""
        made, mark = self._marked(int(piece.kinds[opened.mark])), opened.mark
        by_clock = [keys[mark : mark + 1] for keys in piece.by_clock]
        return replace(opening(made, piece, opened), by_clock=by_clock)

    def _marked(self, kind: int) -> Piece:
        """A piece that is one mark; by every clock it stands nowhere."""
        clocks = self.input.progress.clocks
        return marked(self.input, kind, [np.zeros(1, np.int64) for _ in range(len(clocks) + bool(clocks))])

    # What is told

    def _tell(self) -> None:
        """Say how far the stream has come, where that is asked for."""
        for clock, place in self.told.items():
            now = self.input.reached(clock)
            if now > place:
                self._end_run()
                self.selected.append(Reached(clock, now))
        self.told = {clock: max(place, self.input.reached(clock)) for clock, place in self.told.items()}

    def _finish(self) -> None:
        self._end_run()
        self.selected.append(End())
        self.is_finished = True
        for copy in self.copies:
            copy.end()

    def letters(self) -> list[Entry]:
        """What is new in the select stream."""
        found, self.selected = self.selected, []
        return found
