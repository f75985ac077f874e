"""The merge behind a flexible node: the runs of all copies in the order of the select stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from penstock.engine.actor import Actor, Several
from penstock.engine.channel import Channel
from penstock.engine.ensemble import Ensemble
from penstock.engine.flexible.select_stream import CopyRun, End, Entry, Reached, Until
from penstock.engine.loop import FiringOutput
from penstock.engine.piece import Piece, piece_of, put
from penstock.engine.sinks import ChannelSink
from penstock.engine.statistics import Firing
from penstock.errors import InternalError
from penstock.kernels.credit import CREDIT, SIGNAL
from penstock.plan.heartbeat.clocks import BEFORE, STEPS
from penstock.plan.segment import Segment


class Copies(Several):
    """The channels that lead from the copies to the merge, and the select stream, as one input."""

    def __init__(self, channels: Sequence[Channel], counted: Sequence[str] = ()) -> None:
        """`counted` are the clocks by which the node numbers what it gives: each copy begins with 1."""
        super().__init__(channels)
        self.entries: deque[Entry] = deque()
        self.places = dict.fromkeys(channels[0].progress.clocks, 0)
        self.counted = list(counted)

    def reached(self, clock: str) -> int:
        if clock in self.counted:
            return STEPS * (self.consumed + 1) + BEFORE
        return max(self.places[clock], self._told(clock))

    def _told(self, clock: str) -> int:
        """How far the run under way has come, where its copy says so, and all that it gave before has been taken."""
        first = self.entries[0] if self.entries else None
        copy = self.channels[first.copy] if isinstance(first, CopyRun) else None
        return copy.progress.told[clock] if copy is not None and copy.is_all(copy.data.start, copy.control.start) else 0

    @property
    def consumed(self) -> int:
        return sum(channel.consumed for channel in self.channels)

    def renumbered(self, piece: Piece, copy: Channel) -> Piece:
        """A piece of a copy with the numbers that its items have among those of all copies."""
        others, items, by_clock = self.consumed - copy.consumed, dict(piece.items), list(piece.by_clock)
        for clock in self.counted:
            at = copy.progress.clocks.index(clock)
            by_clock[at] = by_clock[at] + STEPS * others
            if clock in items:
                items[clock] = [part + others for part in items[clock]]
        return replace(piece, items=items, by_clock=by_clock)


class FlexMerge(Actor):
    """Takes from the copies, one run after the other, and writes into the channel behind the node.

    Invariant: the run that is under way is the first of the select stream, and the next item of the copy that has it is
    its next item.
    """

    role = "merge"

    def __init__(
        self,
        segment: Segment,
        copies: Copies,
        sink: ChannelSink,
        run_end: int,
        width: int,
        clock: Callable[[], float],
        trace: list[Firing] | None,
    ) -> None:
        super().__init__(segment, f"merge of {segment.name}", width, clock, trace)
        self.input, self.sinks, self.run_end = copies, [sink], run_end
        self.known = 0
        """How many marks of the run under way are yet to be left out."""
        self.is_begun = False

    def select(self, entry: Entry) -> None:
        """The select stream goes on."""
        if not isinstance(entry, Until):
            self.input.entries.append(entry)

    # When it may fire

    @property
    def channel(self) -> Channel:
        return self.sinks[0].channel

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return not self.channel.is_full

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        if self.is_finished or not self.input.entries:
            return False
        entry = self.input.entries[0]
        if not isinstance(entry, CopyRun):
            return True
        copy = self.input.channels[entry.copy]
        return copy.ready() > 0 or copy.has_marks

    @property
    def is_ready(self) -> bool:
        return self.is_fireable

    @property
    def awaited(self) -> int | None:
        """The copy that has the run under way; None where the select stream has to go on first."""
        first = self.input.entries[0] if self.input.entries else None
        return first.copy if isinstance(first, CopyRun) else None

    # A firing

    def fire(self) -> FiringOutput:
        """Go on with the first run of the select stream, or with what is told behind it."""
        started, output = self.clock(), FiringOutput()
        items = marks = 0
        if self.has_work and self.has_room:
            entry = self.input.entries[0]
            if isinstance(entry, CopyRun):
                items, marks = self._go_on(entry)
            else:
                self.input.entries.popleft()
                self._hear(entry)
        self.tell()
        output.rows = items
        self.count(started, items, items == self.width, marks, items)
        return output

    def _hear(self, entry: Entry) -> None:
        if isinstance(entry, Reached):
            self.input.places[entry.clock] = entry.place
        elif isinstance(entry, End):
            self.is_finished = True
            self.channel.end()

    def _go_on(self, entry: CopyRun) -> tuple[int, int]:
        """Hand on what there is of a run, as far as there is room."""
        if not self.is_begun:
            self.is_begun, self.known = True, entry.known
        copy = self.input.channels[entry.copy]
        taken = copy.take(self.width)
        row, mark, is_end = self._reach(taken, copy, entry)
        kinds = taken.kinds[taken.first_mark : mark]
        first = taken.first_mark if self._is_own(kinds) else mark  # most runs have no mark but the one at their end
        piece, self.known = self._own(piece_of(copy, taken, taken.start, row, first, mark), self.known)
        put(self.channel, self.input.renumbered(piece, copy) if self.input.counted else piece)
        copy.consume(row - taken.start, mark - taken.first_mark)
        if is_end:
            self.input.entries.popleft()
            self.is_begun = False
        return row - taken.start, len(piece.kinds)

    def _reach(self, taken: Ensemble, copy: Channel, entry: CopyRun) -> tuple[int, int, bool]:
        """How far to go: to the end of the run, or as far as there is room."""
        kinds = taken.kinds[taken.first_mark : taken.last_mark]
        (ends,) = np.nonzero(kinds == SIGNAL + self.run_end)
        last, row, is_end = taken.last_mark, taken.stop, len(ends) > 0
        if is_end:
            last = taken.first_mark + int(ends[0]) + 1
            row = int(taken.places[last - 1])
            number = int(copy.records[self.run_end].array[taken.references[last - 1]]["number"])
            if number != entry.number:
                raise InternalError(f"{self.name}: run {entry.number} was to come, and run {number} came")
        room = self.channel.avail()
        if row - taken.start > room:
            row = taken.start + room
            last, is_end = taken.first_mark + int(np.searchsorted(taken.places[taken.first_mark : last], row)), False
        if not self._is_own(kinds):
            return row, last, is_end
        most = min(queue.avail() - kept for queue, _, kept in self.channel.needs[1:])
        handed_on = np.cumsum(self._kept(kinds[: last - taken.first_mark], self.known))
        if len(handed_on) and handed_on[-1] > most:
            last = taken.first_mark + int(np.searchsorted(handed_on, most, side="right"))
            row, is_end = min(row, int(taken.places[last])), False
        return row, last, is_end

    def _is_own(self, kinds: np.ndarray) -> bool:
        """Whether there are marks that are the stream's own."""
        return bool(np.any((kinds != CREDIT) & (kinds != SIGNAL + self.run_end)))

    def _kept(self, kinds: np.ndarray, known: int) -> np.ndarray:
        """Which marks are handed on: those of the stream itself that were not told before."""
        kept: np.ndarray = (kinds != CREDIT) & (kinds != SIGNAL + self.run_end)
        kept[_of_regions(kinds)[:known]] = False
        return kept

    def _own(self, piece: Piece, known: int) -> tuple[Piece, int]:
        """A piece without the end of its run, messages of credit, and marks that everybody has heard of."""
        if not len(piece.kinds):
            return piece, known
        kept = self._kept(piece.kinds, known)
        regions = _of_regions(piece.kinds)[:known]
        again = [int(np.sum(piece.kinds[regions] == 2 * depth)) for depth in range(len(piece.opened))]
        parents = [
            {name: column.slice(skip) for name, column in columns.items()}
            for columns, skip in zip(piece.parents, again, strict=True)
        ]
        signals = list(piece.signals)
        signals[self.run_end] = signals[self.run_end][:0]
        return (
            replace(
                piece,
                kinds=piece.kinds[kept],
                places=piece.places[kept],
                by_clock=[keys[kept] for keys in piece.by_clock],
                parents=parents,
                opened=[number - skip for number, skip in zip(piece.opened, again, strict=True)],
                signals=signals,
            ),
            known - len(regions),
        )


def _of_regions(kinds: np.ndarray) -> np.ndarray:
    """Where boundaries of regions are among marks."""
    return np.flatnonzero((kinds >= 0) & (kinds < SIGNAL))
