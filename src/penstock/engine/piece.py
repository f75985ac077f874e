"""A piece of what a channel holds, to be put into another: items, marks, parents and signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codegen.outlets import INDEX
from penstock.engine.channel import Channel
from penstock.engine.control import Control
from penstock.engine.ensemble import Ensemble
from penstock.engine.store import Parts, Rows
from penstock.kernels.credit import CREDIT, SIGNAL

Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Piece:
    """Some items with the marks among them. The items of one that was not copied last until its channel changes."""

    items: Mapping[str, Any]
    """By field, the parts that stores give and take."""
    count: int
    kinds: np.ndarray
    places: np.ndarray
    """How many items of the piece stand before each mark."""
    by_clock: list[np.ndarray]
    """The places of marks by each clock, and who has emitted them."""
    parents: list[Columns]
    opened: list[int]
    signals: list[np.ndarray]
    next_index: int


def piece_of(channel: Channel, taken: Ensemble, row: int, stop: int, mark: int, last: int) -> Piece:
    """The rows and marks of an ensemble between these; the items as views."""
    items = {name: each.parts(row, stop) for name, each in channel.data.stores.items()}
    follows = int(channel.data.array_of(INDEX)[stop]) if INDEX in channel.data.stores else 0
    if mark == last:
        return unmarked(channel, items, stop - row, follows)
    control, some = channel.control, slice(mark, last)
    kinds, references = taken.kinds[some].copy(), taken.references[some]
    opened = [references[kinds == 2 * depth] for depth in range(channel.depth)]
    signals = [references[kinds == SIGNAL + number] for number in range(len(channel.records))]
    return Piece(
        items,
        stop - row,
        kinds,
        taken.places[some] - row,
        [keys[some].copy() for keys in (*control.keys, control.emitted)] if control.keys else [],
        [taken_rows(rows, at) for rows, at in zip(channel.parents, opened, strict=True)],
        [len(at) for at in opened],
        [records.array[at] for records, at in zip(channel.records, signals, strict=True)],
        follows,
    )


def without_credit(piece: Piece) -> Piece:
    """The piece without messages of credit, which were for who took it."""
    kept = piece.kinds != CREDIT
    if kept.all():
        return piece
    by_clock = [keys[kept] for keys in piece.by_clock]
    return replace(piece, kinds=piece.kinds[kept], places=piece.places[kept], by_clock=by_clock)


def unmarked(channel: Channel, items: Mapping[str, Any], count: int, follows: int) -> Piece:
    """A piece without marks, for a channel like this one."""
    none = [records.array[:0] for records in channel.records]
    by_clock = [_NONE] * (len(channel.control.keys) + 1) if channel.control.keys else []
    return Piece(items, count, _NONE, _NONE, by_clock, [{}] * channel.depth, [0] * channel.depth, none, follows)


def marked(channel: Channel, kind: int, by_clock: list[np.ndarray]) -> Piece:
    """A piece that is one mark, which brings neither parent nor signal."""
    return replace(unmarked(channel, {}, 0, 0), kinds=np.array([kind]), places=np.zeros(1, np.int64), by_clock=by_clock)


_NONE = np.empty(0, np.int64)


def put(channel: Channel, piece: Piece) -> None:
    """Put a piece into a channel, as if its sender had written it there."""
    data, control = channel.data, channel.control
    data.make_room()
    if piece.count:
        for name, parts in piece.items.items():
            data.stores[name].paste(data.stop, parts)
        if INDEX in data.stores:
            data.array_of(INDEX)[data.stop + piece.count] = piece.next_index
    parents, numbers = _put_marks(channel, piece) if len(piece.kinds) else _filled(channel)
    channel.send(data.stop + piece.count, control.stop + len(piece.kinds), parents, numbers)


def _put_marks(channel: Channel, piece: Piece) -> tuple[list[int], list[int]]:
    """Write the marks of a piece; how far the tables of parents and of signals are then filled."""
    control = channel.control
    queues: list[Rows | Control] = [control, *channel.parents, *channel.records]
    for queue in queues:
        queue.make_room()
    some = slice(control.stop, control.stop + len(piece.kinds))
    control.kinds[some], control.credits[some] = piece.kinds, channel.data.stop + piece.places
    for mine, given in zip((*control.keys, control.emitted), piece.by_clock, strict=False):
        mine[some] = given
    for rows, columns in zip(channel.parents, piece.parents, strict=True):
        _put(rows, columns)
    for records, signals in zip(channel.records, piece.signals, strict=True):
        records.array[records.stop : records.stop + len(signals)] = signals
    parents, numbers = _filled(channel)
    return (
        [stop + number for stop, number in zip(parents, piece.opened, strict=True)],
        [stop + len(signals) for stop, signals in zip(numbers, piece.signals, strict=True)],
    )


def _filled(channel: Channel) -> tuple[list[int], list[int]]:
    return [rows.stop for rows in channel.parents], [records.stop for records in channel.records]


def put_signal(channel: Channel, number: int, values: tuple[Any, ...]) -> None:
    """Put one signal into a channel, behind all that is there; by every clock it stands nowhere."""
    control, records = channel.control, channel.records[number]
    control.make_room()
    records.make_room()
    control.kinds[control.stop], control.credits[control.stop] = SIGNAL + number, channel.data.stop
    for keys in (*control.keys, control.emitted) if control.keys else ():
        keys[control.stop] = 0
    records.array[records.stop] = values
    parents, numbers = _filled(channel)
    numbers[number] += 1
    channel.send(channel.data.stop, control.stop + 1, parents, numbers)


def last_items(rows: Rows, count: int) -> dict[str, Parts]:
    """Copies of the last rows, as parts."""
    start, stores = rows.stop - count, rows.stores
    return {name: [part.copy() for part in each.parts(start, rows.stop)] for name, each in stores.items()}


def taken_rows(rows: Rows, at: np.ndarray | slice) -> Columns:
    """Copies of some rows, as columns."""
    return {name: each.taken(at, rows.stop) for name, each in rows.stores.items()}


def _put(rows: Rows, columns: Columns) -> None:
    for name, column in columns.items():
        if len(column):
            rows.stores[name].put(rows.stop, column)
