"""A net as the tables of `event_loop`, in the state in which it starts."""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np

from penstock.errors import ModelError
from penstock.tune.model import event_loop
from penstock.tune.model.net import LONGEST, Constant, Net, Number, Traced

FIRST_EVENTS = 256


def tables(net: Net, seed: int, logged: frozenset[str], log: int) -> event_loop.Tables:
    """The tables of a net before its first firing, with room for a log of so many firings."""
    takes = [_private_first(net, [(net.number[name], w) for name, w in t.takes]) for t in net.transitions]
    gives = [(net.number[name], w) for t in net.transitions for name, w in t.gives]
    kinds = sorted({arc for arcs in takes for arc in arcs})
    number = {arc: at for at, arc in enumerate(kinds)}
    flat = [(*arc, number[arc]) for arcs in takes for arc in arcs]
    places = _places(net, kinds)
    made = event_loop.Tables(
        _numbers(net, places),
        _transitions(net, seed, logged),
        places,
        _classes(kinds, [group for _, _, group in flat]),
        _rows(flat, 3),
        _rows(gives, 2),
        np.array([in_ticks(net, value) for t in net.transitions for value in t.time.values], np.int64),
        np.zeros((len(net.transitions) + 1, 2), np.int64),
        np.zeros((len(flat) + 1, 2), np.int64),
        np.zeros((FIRST_EVENTS, 2), np.int64),
        np.zeros((log, 3), np.int64),
    )
    event_loop.prepare(*made)
    return made


def with_more_events(made: event_loop.Tables) -> event_loop.Tables:
    """The same state, with room for twice as many running firings."""
    return made._replace(events=np.concatenate([made.events, np.zeros_like(made.events)]))


def in_ticks(net: Net, value: Number) -> int:
    """A time in ticks of the net."""
    ticks = value * net.ticks if isinstance(value, int) else (Fraction(value) * net.ticks).numerator
    if ticks > LONGEST:
        raise ModelError(
            f"net: its times, counted in the largest unit that divides them all, must be at most 2⁵⁰; got {ticks}; "
            "round them to fewer digits, or to a coarser unit"
        )
    return ticks


def _numbers(net: Net, places: Any) -> Any:
    numbers = np.zeros(11, np.int64)
    numbers[event_loop.SEQUENCE] = numbers[event_loop.BURST] = len(net.transitions)
    numbers[event_loop.MARKED] = (places[:, event_loop.HASH] * places[:, event_loop.TOKENS]).sum()
    return numbers


def _transitions(net: Net, seed: int, logged: frozenset[str]) -> Any:
    many = len(net.transitions)
    table = np.zeros((many + 1, 13), np.int64)
    priorities = np.array([t.priority for t in net.transitions], np.int64)
    table[:many, event_loop.KEY] = (priorities << event_loop.PRIORITY_SHIFT) | np.arange(many)
    table[:, event_loop.HOME] = -1
    table[:, event_loop.TAKES] = _starts(len(t.takes) for t in net.transitions)
    table[:, event_loop.GIVES] = _starts(len(t.gives) for t in net.transitions)
    table[:, event_loop.TIMES] = _starts(len(t.time.values) for t in net.transitions)
    table[:many, event_loop.COUNT] = np.diff(table[:, event_loop.TIMES])
    table[:many, event_loop.KIND] = [_kind(t.time) for t in net.transitions]
    table[:many, event_loop.STREAM] = np.array([_stream(t.name, seed) for t in net.transitions], np.uint64).view(
        np.int64
    )
    table[:many, event_loop.MIX] = _hashes(1, many)
    table[:many, event_loop.LOG] = [t.name in logged for t in net.transitions]
    return table


def _places(net: Net, kinds: list[tuple[int, int]]) -> Any:
    many = len(net.places)
    table = np.zeros((many + 1, 7), np.int64)
    table[:many, event_loop.TOKENS] = [place.tokens for place in net.places]
    table[:, event_loop.CLASSES] = _starts(np.bincount([place for place, _ in kinds], minlength=many).tolist())
    table[:many, event_loop.HASH] = _hashes(0, many)
    return table


def _classes(kinds: list[tuple[int, int]], members: list[int]) -> Any:
    table = np.zeros((len(kinds), 4), np.int64)
    table[:, [event_loop.PLACE, event_loop.WEIGHT]] = kinds
    table[:, event_loop.FIRST] = _starts(np.bincount(members, minlength=len(kinds)).tolist())[:-1]
    return table


def _kind(time: object) -> int:
    return (
        event_loop.CONSTANT
        if isinstance(time, Constant)
        else event_loop.TRACED
        if isinstance(time, Traced)
        else event_loop.DRAWN
    )


def _private_first(net: Net, arcs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Look at a place last that many take from: one that lacks its own tokens need not wait in the queue there."""
    return sorted(arcs, key=lambda arc: len(net.consumers[arc[0]]))


def _hashes(which: int, many: int) -> Any:
    """Odd numbers that nothing in the net has anything to do with."""
    return np.random.default_rng(which).integers(-(1 << 62), 1 << 62, many) * 2 + 1


def _stream(name: str, seed: int) -> int:
    """The random stream of a transition, which other transitions and their order do not change."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest(), "little")


def _rows(rows: list[Any], columns: int) -> Any:
    return np.array(rows, np.int64).reshape(-1, columns)


def _starts(lengths: Any) -> Any:
    return np.array([0, *accumulate(lengths)], np.int64)
