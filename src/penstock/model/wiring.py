"""A net as the arrays of `model.loop`, and the state in which it starts."""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np

from penstock.errors import ModelError
from penstock.model import loop
from penstock.model.net import LONGEST, Constant, Net, Number, Traced

FIRST_EVENTS = 256


def wiring(net: Net, seed: int, logged: frozenset[str]) -> loop.Wiring:
    """The arrays that do not change."""
    places, transitions = len(net.places), len(net.transitions)
    takes = [_private_first(net, [(net.number[name], w) for name, w in t.takes]) for t in net.transitions]
    gives = [[(net.number[name], w) for name, w in t.gives] for t in net.transitions]
    classes = sorted({arc for arcs in takes for arc in arcs})
    number = {arc: at for at, arc in enumerate(classes)}
    flat = [arc for arcs in takes for arc in arcs]
    members = np.bincount([number[arc] for arc in flat], minlength=len(classes))
    of_place = np.bincount([place for place, _ in classes], minlength=places)
    hashes = np.random.default_rng(0).integers(1, 1 << 63, places + transitions).astype(np.uint64)
    return loop.Wiring(
        _starts(map(len, takes)),
        _integers(place for place, _ in flat),
        _integers(weight for _, weight in flat),
        _integers(number[arc] for arc in flat),
        _starts(map(len, gives)),
        _integers(place for arcs in gives for place, _ in arcs),
        _integers(weight for arcs in gives for _, weight in arcs),
        _starts(of_place.tolist()),
        _integers(place for place, _ in classes),
        _integers(weight for _, weight in classes),
        _starts(members.tolist()),
        *_times(net),
        np.array([_stream(t.name, seed) for t in net.transitions], np.uint64),
        hashes[:places],
        hashes[places:],
        np.array([t.name in logged for t in net.transitions], np.bool_),
    )


def start(net: Net, wires: loop.Wiring, log: int) -> loop.State:
    """The state before the first firing, with room for a log of so many firings."""
    places, transitions, classes = len(net.places), len(net.transitions), len(wires.class_places)
    tokens = _integers(place.tokens for place in net.places)
    priorities = _integers(t.priority for t in net.transitions)
    numbers = np.zeros(8, np.int64)
    numbers[loop.SEQUENCE] = numbers[loop.BURST] = transitions
    hashes = np.zeros(3, np.uint64)
    hashes[loop.MARKING] = (wires.place_hashes * tokens.astype(np.uint64)).sum(dtype=np.uint64)
    zeros = [np.zeros(size, np.int64) for size in (places, places, places)]
    state = loop.State(
        numbers,
        hashes,
        tokens,
        tokens.copy(),
        *zeros,
        (priorities << loop.PRIORITY_SHIFT) | np.arange(transitions),
        np.full(transitions, -1, np.int64),
        *(np.zeros(transitions, np.int64) for _ in range(3)),
        *(np.zeros(transitions, np.int64) for _ in range(2)),
        *(np.zeros(len(wires.take_places), np.int64) for _ in range(2)),
        np.zeros(classes, np.int64),
        *(np.zeros(FIRST_EVENTS, np.int64) for _ in range(2)),
        *(np.zeros(log, np.int64) for _ in range(3)),
    )
    loop.prepare(wires, state)
    return state


def with_more_events(state: loop.State) -> loop.State:
    """The same state, with room for twice as many running firings."""
    ends, who = (np.concatenate([array, np.zeros_like(array)]) for array in (state.event_ends, state.event_who))
    return state._replace(event_ends=ends, event_who=who)


def in_ticks(net: Net, value: Number) -> int:
    """A time in ticks of the net."""
    ticks = Fraction(value) * net.ticks
    if ticks.denominator != 1 or ticks > LONGEST:
        raise ModelError(
            f"net: its times, counted in the largest unit that divides them all, must be at most 2⁵⁰; got {ticks}; "
            "round them to fewer digits, or to a coarser unit"
        )
    return ticks.numerator


def _times(net: Net) -> tuple[Any, Any, Any, Any]:
    kinds = [0 if isinstance(t.time, Constant) else 1 if isinstance(t.time, Traced) else 2 for t in net.transitions]
    counts = [len(t.time.values) for t in net.transitions]
    values = [in_ticks(net, value) for t in net.transitions for value in t.time.values]
    return _integers(kinds), _starts(counts)[:-1], _integers(counts), _integers(values)


def _private_first(net: Net, arcs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Look at a place last that many take from: one that lacks its own tokens need not wait in the queue there."""
    return sorted(arcs, key=lambda arc: len(net.consumers[arc[0]]))


def _stream(name: str, seed: int) -> int:
    """The random stream of a transition, which other transitions and their order do not change."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest(), "little")


def _integers(values: Any) -> Any:
    return np.fromiter(values, np.int64)


def _starts(lengths: Any) -> Any:
    return np.array([0, *accumulate(lengths)], np.int64)
