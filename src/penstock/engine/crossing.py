"""A channel between two threads: each has a side of its own, and what was written passes between them in blocks.

The sender's kernel writes into its side, and nobody else touches that; the receiver's reads from the other. After a
firing the sender copies what is new into a block, and posts it; the receiver takes it over when it comes to it, and
posts back how much it has consumed. What the sender has not heard to be consumed stays on its side, which so holds all
that is under way: the capacity of the channel is that of the sender's side.

The receiver's side is a channel like any other, with its policy of credit: a block comes to it as from a sender.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.codegen.outlets import INDEX
from penstock.engine.channel import Channel
from penstock.engine.piece import Piece, last_items, put, taken_rows, unmarked
from penstock.engine.store import Records, Rows
from penstock.kernels.credit import SIGNAL


@dataclass(frozen=True)
class CrossingBlock:
    """What a sender has written since the block before, how far it has come by each clock, and whether it has ended."""

    piece: Piece
    told: dict[str, int]
    is_end: bool


@dataclass(frozen=True)
class CrossingRoom:
    """What a receiver has consumed since it said so before."""

    items: int
    marks: int


class Crossing:
    """The two sides of a channel that passes from one thread to another.

    Invariant: each side is touched by its own thread only; blocks and what was taken pass by the post.
    """

    def __init__(self, given: Channel, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.receiving, self.sending = _receiver_of(given), _sender_of(given)
        self.items = self.marks = self.taken_items = self.taken_marks = 0
        self.told = dict(self.sending.progress.told)
        self.is_ended = False
        self.blocks = 0
        """How many have passed."""
        self.sending_s = self.receiving_s = 0.0
        """What each side has spent on that."""

    # In the sender's thread

    def block(self) -> CrossingBlock | None:
        """What was written since the last block; None where there is nothing."""
        channel, started = self.sending, self.clock()
        count, marks = channel.sent - self.items, channel.sent_marks - self.marks
        told = {clock: place for clock, place in channel.progress.told.items() if place != self.told[clock]}
        is_end = channel.is_ended and not self.is_ended
        if not (count or marks or told or is_end):
            return None
        self.items, self.marks, self.is_ended = channel.sent, channel.sent_marks, channel.is_ended
        self.told.update(told)
        self.blocks += 1
        made = CrossingBlock(self._piece(count, marks), told, is_end)
        self.sending_s += self.clock() - started
        return made

    def _piece(self, count: int, marks: int) -> Piece:
        """The last items and marks, copied."""
        channel, control, data = self.sending, self.sending.control, self.sending.data
        items = last_items(data, count) if count else {}
        follows = int(data.array_of(INDEX)[data.stop]) if INDEX in data.stores else 0
        if not marks:
            return unmarked(channel, items, count, follows)
        some = slice(control.stop - marks, control.stop)
        kinds = control.kinds[some].copy()
        opened = [int(np.sum(kinds == 2 * depth)) for depth in range(channel.depth)]
        return Piece(
            items,
            count,
            kinds,
            control.sent_at[some] - (channel.sent - count),
            [keys[some].copy() for keys in (*control.keys, control.emitted)] if control.keys else [],
            [_last_rows(rows, number) for rows, number in zip(channel.parents, opened, strict=True)],
            opened,
            [records.array[records.stop - number : records.stop].copy() for records, number in self._signals(kinds)],
            follows,
        )

    def _signals(self, kinds: np.ndarray) -> list[tuple[Records, int]]:
        return [(each, int(np.sum(kinds == SIGNAL + at))) for at, each in enumerate(self.sending.records)]

    def forget(self, taken: CrossingRoom) -> None:
        """What the receiver has consumed makes room."""
        started = self.clock()
        self.sending.consume(taken.items, taken.marks)
        self.sending_s += self.clock() - started

    # In the receiver's thread

    def receive(self, block: CrossingBlock) -> None:
        """Take over a block, as if its sender had written here."""
        channel, started = self.receiving, self.clock()
        put(channel, block.piece)
        for clock, place in block.told.items():
            channel.tell(clock, place)
        if block.is_end:
            channel.end()
        self.receiving_s += self.clock() - started

    def taken(self) -> CrossingRoom | None:
        """What was consumed since it was last said; None where nothing was."""
        channel = self.receiving
        found = CrossingRoom(channel.consumed - self.taken_items, channel.dealt_marks - self.taken_marks)
        if not (found.items or found.marks):
            return None
        self.taken_items, self.taken_marks = channel.consumed, channel.dealt_marks
        return found


def _last_rows(rows: Rows, count: int) -> dict[str, pa.Array]:
    return taken_rows(rows, slice(rows.stop - count, rows.stop))


def _receiver_of(given: Channel) -> Channel:
    """The receiver's side: with places for the messages of credit, of which the sender's side knows nothing."""
    form = given.form
    if form.bounds.threshold is None:
        return given
    return Channel(replace(form, bounds=replace(form.bounds, signals=2 * form.bounds.signals)))


def _sender_of(given: Channel) -> Channel:
    """The sender's side: it keeps count of room only, and leaves the place that a message of credit may need."""
    form, bounds = given.form, given.form.bounds
    room = replace(bounds, signals=bounds.signals - (bounds.threshold is not None), threshold=None)
    return Channel(replace(form, bounds=room, is_checked=False, keeps=True))
