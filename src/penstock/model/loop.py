"""The event loop of a net, compiled: the rules of `model.net` on arrays.

A transition that is not enabled *waits* at one place that lacks tokens for it, in the queue of those that take the same
number of tokens there (a *class*). Tokens that arrive at a place wake only the first of each class, in the order in
which transitions start; when that one has started or gone to wait elsewhere, it is the turn of the next. So a token
that a thousand transitions compete for costs the logarithm of a thousand, and a firing costs its arcs times the
logarithm of the net.

Invariant, whenever the loop looks for what to start: a transition is either in the queue `ready`, or it waits at a place
that lacks tokens for it, or it waits in a class behind one that is ready and comes before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

# What `numbers` holds.
NOW, SEQUENCE, RUNNING, READY, INSTANTS, LOGGED, SETTLED, BURST = range(8)
# What `hashes` holds: of the marking, of the running firings, and of them times their ends.
MARKING, FIRINGS, ENDS = range(3)
# Why the loop came back.
FIRED, LATE, STOPPED, FULL, ENDLESS, SEEN, TOLD = range(7)

PRIORITY_SHIFT = 48
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Wiring(NamedTuple):
    """What does not change: arcs by transition, classes by place, times, and the numbers that make fingerprints."""

    take_starts: Any
    take_places: Any
    take_weights: Any
    take_classes: Any
    give_starts: Any
    give_places: Any
    give_weights: Any
    place_classes: Any
    """The classes of place p are `place_classes[p]` up to `place_classes[p + 1]`."""
    class_places: Any
    class_weights: Any
    class_starts: Any
    time_kinds: Any
    time_starts: Any
    time_counts: Any
    time_values: Any
    streams: Any
    place_hashes: Any
    transition_hashes: Any
    is_logged: Any


class State(NamedTuple):
    """What changes. All arrays; `numbers` and `hashes` hold the single values."""

    numbers: Any
    hashes: Any
    tokens: Any
    most: Any
    areas: Any
    """For each place, its tokens summed over the time up to `changed`."""
    empty: Any
    """For each place, the time that it held no token, up to `changed`."""
    changed: Any
    keys: Any
    """For each transition its place in the order of starting: the priority, then when it last fired."""
    homes: Any
    """For each ready transition, the class that it was woken from, or -1."""
    started: Any
    finished: Any
    busy: Any
    ready_keys: Any
    ready_who: Any
    waiting_keys: Any
    waiting_who: Any
    waiting: Any
    """How many wait in each class."""
    event_ends: Any
    event_who: Any
    log_who: Any
    log_starts: Any
    log_ends: Any


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _push(keys: Any, who: Any, first: Any, size: Any, key: Any, one: Any) -> None:
    """Put one into a heap that lies from `first` on and has `size` members."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if keys[first + above] <= key:
            break
        keys[first + at] = keys[first + above]
        who[first + at] = who[first + above]
        at = above
    keys[first + at] = key
    who[first + at] = one


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _pop(keys: Any, who: Any, first: Any, size: Any) -> Any:
    """Take the first out of a heap of `size` members."""
    taken = who[first]
    last = size - 1
    key, one = keys[first + last], who[first + last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and keys[first + below + 1] < keys[first + below]:
            below += 1
        if keys[first + below] >= key:
            break
        keys[first + at] = keys[first + below]
        who[first + at] = who[first + below]
        at = below
    keys[first + at] = key
    who[first + at] = one
    return taken


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _lacks(wiring: Wiring, state: State, transition: Any) -> Any:
    """The first arc on which the transition lacks tokens, or -1 where it is enabled."""
    for arc in range(wiring.take_starts[transition], wiring.take_starts[transition + 1]):
        if state.tokens[wiring.take_places[arc]] < wiring.take_weights[arc]:
            return arc
    return -1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _settle(wiring: Wiring, state: State, transition: Any, home: Any) -> Any:
    """Put a transition into `ready` where it is enabled, else let it wait; tell which."""
    arc = _lacks(wiring, state, transition)
    key = state.keys[transition]
    if arc < 0:
        _push(state.ready_keys, state.ready_who, 0, state.numbers[READY], key, transition)
        state.numbers[READY] += 1
        state.homes[transition] = home
        return True
    group = wiring.take_classes[arc]
    _push(state.waiting_keys, state.waiting_who, wiring.class_starts[group], state.waiting[group], key, transition)
    state.waiting[group] += 1
    return False


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _wake(wiring: Wiring, state: State, group: Any) -> None:
    """Make the first of a class ready, if the place has the tokens; those that lack others go to wait for them."""
    while state.waiting[group] > 0 and state.tokens[wiring.class_places[group]] >= wiring.class_weights[group]:
        one = _pop(state.waiting_keys, state.waiting_who, wiring.class_starts[group], state.waiting[group])
        state.waiting[group] -= 1
        if _settle(wiring, state, one, group):
            break


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _change(wiring: Wiring, state: State, place: Any, by: Any) -> None:
    """Change the tokens of a place, and keep its account."""
    now = state.numbers[NOW]
    held = state.tokens[place]
    passed = now - state.changed[place]
    if passed > 0:
        state.areas[place] += held * passed
        if held == 0:
            state.empty[place] += passed
        state.changed[place] = now
    held += by
    state.tokens[place] = held
    if held > state.most[place]:
        state.most[place] = held
    state.hashes[MARKING] += wiring.place_hashes[place] * np.uint64(by)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _give(wiring: Wiring, state: State, transition: Any) -> None:
    state.finished[transition] += 1
    for arc in range(wiring.give_starts[transition], wiring.give_starts[transition + 1]):
        place = wiring.give_places[arc]
        _change(wiring, state, place, wiring.give_weights[arc])
        for group in range(wiring.place_classes[place], wiring.place_classes[place + 1]):
            if state.waiting[group] > 0:
                _wake(wiring, state, group)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _time(wiring: Wiring, state: State, transition: Any) -> Any:
    """How long the next firing takes. A draw depends on the seed, the transition's name and the firing's number only."""
    kind, start = wiring.time_kinds[transition], wiring.time_starts[transition]
    if kind == 0:
        return wiring.time_values[start]
    count, many = state.started[transition], wiring.time_counts[transition]
    if kind == 1:
        return wiring.time_values[start + count % many]
    word = wiring.streams[transition] + np.uint64(count + 1) * _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    word = word ^ (word >> np.uint64(31))
    return wiring.time_values[start + np.int64(((word >> np.uint64(33)) * np.uint64(many)) >> np.uint64(31))]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fire(wiring: Wiring, state: State, transition: Any) -> None:
    numbers, now = state.numbers, state.numbers[NOW]
    for arc in range(wiring.take_starts[transition], wiring.take_starts[transition + 1]):
        _change(wiring, state, wiring.take_places[arc], -wiring.take_weights[arc])
    time = _time(wiring, state, transition)
    state.started[transition] += 1
    state.busy[transition] += time
    state.keys[transition] = (state.keys[transition] >> PRIORITY_SHIFT << PRIORITY_SHIFT) | numbers[SEQUENCE]
    numbers[SEQUENCE] += 1
    if wiring.is_logged[transition] and numbers[LOGGED] < len(state.log_who):
        at = numbers[LOGGED]
        state.log_who[at], state.log_starts[at], state.log_ends[at] = transition, now, now + time
        numbers[LOGGED] += 1
    if time == 0:
        _give(wiring, state, transition)
        return
    _push(state.event_ends, state.event_who, 0, numbers[RUNNING], now + time, transition)
    numbers[RUNNING] += 1
    state.hashes[FIRINGS] += wiring.transition_hashes[transition]
    state.hashes[ENDS] += wiring.transition_hashes[transition] * np.uint64(now + time)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _finish(wiring: Wiring, state: State) -> None:
    """Go to the next instant, and let all firings that end there give their tokens."""
    numbers = state.numbers
    numbers[NOW] = state.event_ends[0]
    numbers[SETTLED], numbers[BURST] = 0, numbers[SEQUENCE]
    while numbers[RUNNING] > 0 and state.event_ends[0] == numbers[NOW]:
        transition = _pop(state.event_ends, state.event_who, 0, numbers[RUNNING])
        numbers[RUNNING] -= 1
        state.hashes[FIRINGS] -= wiring.transition_hashes[transition]
        state.hashes[ENDS] -= wiring.transition_hashes[transition] * np.uint64(numbers[NOW])
        _give(wiring, state, transition)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def prepare(wiring: Wiring, state: State) -> None:
    """Put every transition where it belongs at the start."""
    for transition in range(len(wiring.take_starts) - 1):
        _settle(wiring, state, transition, -1)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def fingerprint(state: State) -> Any:
    """A number that two equal states share: of the marking, and of what runs and for how long yet."""
    return state.hashes[MARKING] + state.hashes[ENDS] - state.hashes[FIRINGS] * np.uint64(state.numbers[NOW])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def advance(
    wiring: Wiring, state: State, firings: int, latest: int, instants: int, burst: int, seeks: bool, sought: Any
) -> Any:
    """Run until one of these: so many firings or instants, a later time, nothing left that runs, no room for another
    event, more than `burst` firings at one instant, or an instant with the fingerprint sought."""
    numbers = state.numbers
    while True:
        while numbers[READY] > 0:
            if numbers[RUNNING] == len(state.event_who):
                return FULL
            if numbers[SEQUENCE] - numbers[BURST] > burst:
                return ENDLESS
            transition = _pop(state.ready_keys, state.ready_who, 0, numbers[READY])
            numbers[READY] -= 1
            home = state.homes[transition]
            if _lacks(wiring, state, transition) < 0:
                _fire(wiring, state, transition)
            _settle(wiring, state, transition, -1)
            if home >= 0:
                _wake(wiring, state, home)
        if numbers[SETTLED] == 0:
            numbers[SETTLED] = 1
            numbers[INSTANTS] += 1
            if seeks and fingerprint(state) == sought:
                return SEEN
        if numbers[RUNNING] == 0:
            return STOPPED
        if numbers[SEQUENCE] >= firings:
            return FIRED
        if numbers[INSTANTS] >= instants:
            return TOLD
        if state.event_ends[0] > latest:
            return LATE
        _finish(wiring, state)
