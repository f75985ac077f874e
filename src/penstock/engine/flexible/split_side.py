"""One side of a flexible join: the channel that leads to it, and those to the copies, among which it is shared out.

What goes to one copy in a row is a run. It begins with what the copy has missed of the regions that are open, and ends
with a mark, at a place by the clock of the join that is the same on all sides. So a copy knows when all sides have had
their say, and what comes of a run ends with one mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.engine.channel import Channel
from penstock.engine.ensemble import Ensemble
from penstock.engine.flexible.open_regions import followed, opening
from penstock.engine.joint import Sides
from penstock.engine.piece import Piece, marked, piece_of, put, without_credit
from penstock.kernels.align_sides import NEVER
from penstock.kernels.credit import CREDIT, SIGNAL
from penstock.plan.heartbeat.clocks import ITEM, STEPS

LAST = NEVER - 1
"""Where the last run ends: behind all that any side has."""


class Side:
    """A side of a flexible join, as one who shares it out sees it.

    Invariant: `views` are the regions that are open as each copy knows them, by their numbers; `opened` those that are,
    where the stream is now.
    """

    def __init__(self, source: Channel, copies: Sequence[Channel], clock: str, run_end: int) -> None:
        self.source, self.copies, self.clock, self.run_end = source, list(copies), clock, run_end
        self.depth, self.regions = source.depth, 0
        self.opened: list[int] = []
        self.openings: list[Piece] = []
        self.views: list[list[int]] = [[] for _ in copies]

    # Room

    def room_items(self, copy: int) -> int:
        return self.copies[copy].avail()

    def room_marks(self, copy: int) -> int:
        """How many marks a copy can be sent, when it has been told of the regions, and its run is to end with one."""
        channel = self.copies[copy]
        room = min((rows.avail() for rows in (*channel.parents, *channel.records)), default=channel.avail_signals())
        return int(min(room, channel.avail_signals())) - 2 * self.depth - 1

    def has_room(self, copy: int) -> bool:
        return self.room_items(copy) > 0 and self.room_marks(copy) > 0

    # Places

    def next_place(self, taken: Ensemble, row: int, mark: int, frontier: int) -> int:
        """The place of what comes at a row or a mark; where nothing is there, how far the side has come."""
        control, left = self.source.control, slice(mark, taken.last_mark)
        keys = control.keys[self.source.progress.clocks.index(self.clock)][left]
        found = keys[control.kinds[left] != CREDIT][:1].tolist()
        if row < taken.stop:
            found.append(STEPS * int(self.source.data.array_of(self.clock)[row]) + ITEM)
        return int(min(found, default=min(frontier, LAST)))

    def last_place(self, taken: Ensemble) -> int:
        """The place of the last mark that is there; 0 where there is none."""
        some = slice(taken.first_mark, taken.last_mark)
        keys = self.source.control.keys[self.source.progress.clocks.index(self.clock)][some]
        return int(keys.max(initial=0))

    def reach(self, copy: int, taken: Ensemble, row: int, mark: int, most: int, before: int) -> tuple[int, int]:
        """How far a copy can be sent what stands before a place, up to a row, as it has room: the row and the mark."""
        control, data = self.source.control, self.source.data
        left = slice(mark, taken.last_mark)
        keys = control.keys[self.source.progress.clocks.index(self.clock)][left]
        (beyond,) = np.nonzero((control.kinds[left] != CREDIT) & (keys >= before))
        last = mark + (int(beyond[0]) if len(beyond) else len(keys))
        indices = data.array_of(self.clock)[row:most]
        stop = row + int(np.searchsorted(indices, -(-(before - ITEM) // STEPS)))
        stop = min(stop, row + max(self.room_items(copy), 0))
        room = mark + max(self.room_marks(copy), 0)
        if room < last:  # what stands behind a mark does not pass it
            last, stop = room, min(stop, int(taken.places[room]))
        return stop, mark + int(np.searchsorted(taken.places[mark:last], stop, side="right"))

    def first_at(self, taken: Ensemble, mark: int, last: int, place: int) -> int:
        """The first of some marks that stands at a place or behind it."""
        keys = self.source.control.keys[self.source.progress.clocks.index(self.clock)][mark:last]
        (found,) = np.nonzero((taken.kinds[mark:last] != CREDIT) & (keys >= place))
        return mark + int(found[0]) if len(found) else last

    # Runs

    def begin(self, copy: int, place: int) -> int:
        """A run begins: tell the copy of the regions that have closed and opened without it; how many marks."""
        view, channel, same = self.views[copy], self.copies[copy], 0
        while same < min(len(view), len(self.opened)) and view[same] == self.opened[same]:
            same += 1
        for depth in reversed(range(same, len(view))):
            put(channel, self._marked(2 * depth + 1, place))
        for known in self.openings[same:]:
            put(channel, replace(known, by_clock=self._by_clock(place)))
        self.views[copy] = list(self.opened)
        return len(view) + len(self.opened) - 2 * same

    def give(self, copy: int, taken: Ensemble, row: int, stop: int, mark: int, last: int) -> None:
        """Send a copy what stands between two rows and between two marks."""
        piece = without_credit(piece_of(self.source, taken, row, stop, mark, last))
        self._follow(piece)
        self.views[copy] = list(self.opened)
        put(self.copies[copy], piece)

    def end(self, copy: int, number: int, place: int) -> None:
        """The run of a number ends at a place."""
        put(self.copies[copy], self._marked(SIGNAL + self.run_end, place, number))

    def _follow(self, piece: Piece) -> None:
        """Follow the regions through a piece."""
        passed = followed(piece.kinds, self.depth)
        if passed is not None:
            self.opened[passed.kept :] = [self.regions + each.before for each in passed.opened]
            self.openings[passed.kept :] = [
                opening(self._marked(2 * each.depth, 0), piece, each) for each in passed.opened
            ]
            self.regions += passed.count

    def _marked(self, kind: int, place: int, number: int | None = None) -> Piece:
        """A piece that is one mark, at a place; with a number, that of the run that it ends."""
        made = marked(self.source, kind, self._by_clock(place))
        if number is None:
            return made
        signals = list(made.signals)
        signals[self.run_end] = np.array([(number,)], signals[self.run_end].dtype)
        return replace(made, signals=signals)

    def _by_clock(self, place: int) -> list[np.ndarray]:
        """The place of a mark by each clock, as if it had come from the source: so all sides share it."""
        return [
            *(np.array([place if clock == self.clock else 0]) for clock in self.source.progress.clocks),
            np.zeros(1, np.int64),
        ]


def frontier(sides: Sides, side: Side, taken: Ensemble, stop: int, last: int) -> int:
    """How far a side has come if it is looked at only up to a row and a mark."""
    reached = sides.frontier(side.source, taken)
    if stop == taken.stop and last == taken.last_mark:
        return reached
    return side.next_place(taken, stop, last, reached)
