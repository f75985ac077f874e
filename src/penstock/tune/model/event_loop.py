"""The event loop of a net, compiled: the rules of `net` on tables of whole numbers.

A transition that is not enabled *waits* at one place that lacks tokens for it, in the queue of those that take the same
number of tokens there (a *class*). Tokens that arrive at a place wake only the first of each class, in the order in
which transitions start; when that one has started or gone to wait elsewhere, it is the turn of the next. So a token
that a thousand transitions compete for costs the logarithm of a thousand, and a firing costs its arcs times the
logarithm of the net.

Invariant, whenever the loop looks for what to start: a transition is either in the queue `ready`, or it waits at a
place that lacks tokens for it, or it waits in a class behind one that is ready and comes before it.

A table has a row for each thing and a column for each fact, so that what is used together lies together. The functions
take the tables one by one, as arrays: handing them on as one record costs more than a firing. That is why
`advance` is long: it has a line for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

# Columns of `transitions`. KEY is the place in the order of starting: the priority, then when it last fired. HOME is
# the class that a ready one was woken from, or -1. The rest does not change.
KEY, HOME, STARTED, FINISHED, BUSY, TAKES, GIVES, KIND, TIMES, COUNT, STREAM, MIX, LOG = range(13)
# Columns of `places`: tokens now, and the most that were there for any time; tokens summed over time, and time without
# any, up to CHANGED.
TOKENS, MOST, AREA, EMPTY, CHANGED, CLASSES, HASH = range(7)
# Columns of `classes`: who takes WEIGHT tokens from PLACE; WAITING of them are in the queue, from FIRST on.
PLACE, WEIGHT, FIRST, WAITING = range(4)
# Columns of `takes` and `gives`: PLACE, WEIGHT, and the class of what is taken.
CLASS = 2
# `TAKES`, `GIVES` and `CLASSES` are where the rows begin; they end where those of the next row begin.

# What `numbers` holds. The last three are hashes: of the marking, of what runs, and of that times its ends.
NOW, SEQUENCE, RUNNING, READY, INSTANTS, LOGGED, SETTLED, BURST, MARKED, RUNS, ENDS = range(11)
# Why the loop came back.
FIRED, LATE, STOPPED, FULL, ENDLESS, SEEN, TOLD = range(7)
# Kinds of times.
CONSTANT, TRACED, DRAWN = range(3)

PRIORITY_SHIFT = 48
_Function = TypeVar("_Function", bound=Callable[..., Any])
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _compile(function: _Function) -> _Function:
    """Compile without counting who uses an array: nothing here makes one, and counting costs more than the work."""
    return cast(_Function, numba.njit(cache=True, nogil=True, _nrt=False)(function))


class Tables(NamedTuple):
    """A net that runs. A queue is a heap of rows (key, who)."""

    numbers: Any
    transitions: Any
    places: Any
    classes: Any
    takes: Any
    gives: Any
    times: Any
    ready: Any
    waiting: Any
    events: Any
    log: Any
    """Rows of (who, start, end)."""


@_compile
def _push(heap: Any, first: Any, size: Any, key: Any, one: Any) -> None:
    """Put one into a heap that lies from `first` on and has `size` members."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap[first + above, 0] <= key:
            break
        heap[first + at, 0] = heap[first + above, 0]
        heap[first + at, 1] = heap[first + above, 1]
        at = above
    heap[first + at, 0] = key
    heap[first + at, 1] = one


@_compile
def _pop(heap: Any, first: Any, size: Any) -> Any:
    """Take the first out of a heap of `size` members."""
    taken = heap[first, 1]
    last = size - 1
    key, one = heap[first + last, 0], heap[first + last, 1]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and heap[first + below + 1, 0] < heap[first + below, 0]:
            below += 1
        if heap[first + below, 0] >= key:
            break
        heap[first + at, 0] = heap[first + below, 0]
        heap[first + at, 1] = heap[first + below, 1]
        at = below
    heap[first + at, 0] = key
    heap[first + at, 1] = one
    return taken


@_compile
def _lacks(transitions: Any, places: Any, takes: Any, one: Any) -> Any:
    """The first arc on which a transition lacks tokens, or -1 where it is enabled."""
    for arc in range(transitions[one, TAKES], transitions[one + 1, TAKES]):
        if places[takes[arc, PLACE], TOKENS] < takes[arc, WEIGHT]:
            return arc
    return -1


@_compile
def _settle(
    numbers: Any, transitions: Any, places: Any, classes: Any, takes: Any, ready: Any, waiting: Any, one: Any, home: Any
) -> Any:
    """Put a transition into `ready` where it is enabled, else let it wait; tell which."""
    arc = _lacks(transitions, places, takes, one)
    key = transitions[one, KEY]
    if arc < 0:
        _push(ready, 0, numbers[READY], key, one)
        numbers[READY] += 1
        transitions[one, HOME] = home
        return True
    group = takes[arc, CLASS]
    _push(waiting, classes[group, FIRST], classes[group, WAITING], key, one)
    classes[group, WAITING] += 1
    return False


@_compile
def _wake(
    numbers: Any, transitions: Any, places: Any, classes: Any, takes: Any, ready: Any, waiting: Any, group: Any
) -> None:
    """Make the first of a class ready, if the place has the tokens; those that lack others go to wait for them."""
    while classes[group, WAITING] > 0 and places[classes[group, PLACE], TOKENS] >= classes[group, WEIGHT]:
        one = _pop(waiting, classes[group, FIRST], classes[group, WAITING])
        classes[group, WAITING] -= 1
        if _settle(numbers, transitions, places, classes, takes, ready, waiting, one, group):
            break


@_compile
def _change(numbers: Any, places: Any, place: Any, by: Any) -> None:
    """Change the tokens of a place, and keep its account."""
    held = places[place, TOKENS]
    passed = numbers[NOW] - places[place, CHANGED]
    if passed > 0:
        places[place, AREA] += held * passed
        if held == 0:
            places[place, EMPTY] += passed
        if held > places[place, MOST]:
            places[place, MOST] = held
        places[place, CHANGED] = numbers[NOW]
    places[place, TOKENS] = held + by
    numbers[MARKED] += places[place, HASH] * by


@_compile
def _give(
    numbers: Any,
    transitions: Any,
    places: Any,
    classes: Any,
    takes: Any,
    gives: Any,
    ready: Any,
    waiting: Any,
    one: Any,
) -> None:
    """Let a firing give its tokens, and wake who waits for them."""
    transitions[one, FINISHED] += 1
    for arc in range(transitions[one, GIVES], transitions[one + 1, GIVES]):
        place = gives[arc, PLACE]
        _change(numbers, places, place, gives[arc, WEIGHT])
        for group in range(places[place, CLASSES], places[place + 1, CLASSES]):
            if classes[group, WAITING] > 0:
                _wake(numbers, transitions, places, classes, takes, ready, waiting, group)


@_compile
def _time(transitions: Any, times: Any, one: Any) -> Any:
    """How long the next firing takes. A draw depends on the seed, the transition's name and the firing's number."""
    kind, first = transitions[one, KIND], transitions[one, TIMES]
    if kind == CONSTANT:
        return times[first]
    count, many = transitions[one, STARTED], transitions[one, COUNT]
    if kind == TRACED:
        return times[first + count % many]
    word = np.uint64(transitions[one, STREAM]) + np.uint64(count + 1) * _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    word = word ^ (word >> np.uint64(31))
    return times[first + np.int64(((word >> np.uint64(33)) * np.uint64(many)) >> np.uint64(31))]


@_compile
def _start(numbers: Any, transitions: Any, places: Any, takes: Any, times: Any, events: Any, log: Any, one: Any) -> Any:
    """Start a firing; tell whether it takes no time, so that it gives its tokens at once."""
    now, time = numbers[NOW], _time(transitions, times, one)
    for arc in range(transitions[one, TAKES], transitions[one + 1, TAKES]):
        _change(numbers, places, takes[arc, PLACE], -takes[arc, WEIGHT])
    transitions[one, STARTED] += 1
    transitions[one, BUSY] += time
    transitions[one, KEY] = (transitions[one, KEY] >> PRIORITY_SHIFT << PRIORITY_SHIFT) | numbers[SEQUENCE]
    numbers[SEQUENCE] += 1
    if transitions[one, LOG] and numbers[LOGGED] < len(log):
        at = numbers[LOGGED]
        log[at, 0], log[at, 1], log[at, 2] = one, now, now + time
        numbers[LOGGED] += 1
    if time == 0:
        return True
    _push(events, 0, numbers[RUNNING], now + time, one)
    numbers[RUNNING] += 1
    numbers[RUNS] += transitions[one, MIX]
    numbers[ENDS] += transitions[one, MIX] * (now + time)
    return False


@_compile
def prepare(
    numbers: Any,
    transitions: Any,
    places: Any,
    classes: Any,
    takes: Any,
    gives: Any,
    times: Any,
    ready: Any,
    waiting: Any,
    events: Any,
    log: Any,
) -> None:
    """Put every transition where it belongs at the start."""
    for one in range(len(transitions) - 1):
        _settle(numbers, transitions, places, classes, takes, ready, waiting, one, -1)


@_compile
def fingerprint(numbers: Any) -> Any:
    """A number that two equal states share: of the marking, and of what runs and for how long yet."""
    return numbers[MARKED] + numbers[ENDS] - numbers[RUNS] * numbers[NOW]


@_compile
def advance(
    firings: int,
    latest: int,
    instants: int,
    burst: int,
    seeks: bool,
    sought: int,
    numbers: Any,
    transitions: Any,
    places: Any,
    classes: Any,
    takes: Any,
    gives: Any,
    times: Any,
    ready: Any,
    waiting: Any,
    events: Any,
    log: Any,
) -> Any:
    """Run until one of these: so many firings or instants, a later time, nothing left that runs, no room for another
    event, more than `burst` firings at one instant, or an instant with the fingerprint sought."""
    while True:
        while numbers[READY] > 0:
            if numbers[RUNNING] == len(events):
                return FULL
            if numbers[SEQUENCE] - numbers[BURST] > burst:
                return ENDLESS
            one = _pop(ready, 0, numbers[READY])
            numbers[READY] -= 1
            home = transitions[one, HOME]
            if _lacks(transitions, places, takes, one) < 0 and _start(
                numbers, transitions, places, takes, times, events, log, one
            ):
                _give(numbers, transitions, places, classes, takes, gives, ready, waiting, one)
            _settle(numbers, transitions, places, classes, takes, ready, waiting, one, -1)
            if home >= 0:
                _wake(numbers, transitions, places, classes, takes, ready, waiting, home)
        if numbers[SETTLED] == 0:
            numbers[SETTLED] = 1
            numbers[INSTANTS] += 1
            if seeks and fingerprint(numbers) == sought:
                return SEEN
        if numbers[RUNNING] == 0:
            return STOPPED
        if numbers[SEQUENCE] >= firings:
            return FIRED
        if numbers[INSTANTS] >= instants:
            return TOLD
        if events[0, 0] > latest:
            return LATE
        numbers[NOW] = events[0, 0]
        numbers[SETTLED], numbers[BURST] = 0, numbers[SEQUENCE]
        while numbers[RUNNING] > 0 and events[0, 0] == numbers[NOW]:
            one = _pop(events, 0, numbers[RUNNING])
            numbers[RUNNING] -= 1
            numbers[RUNS] -= transitions[one, MIX]
            numbers[ENDS] -= transitions[one, MIX] * numbers[NOW]
            _give(numbers, transitions, places, classes, takes, gives, ready, waiting, one)
