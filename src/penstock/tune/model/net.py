"""Timed Petri nets: places that hold tokens, and transitions that take tokens, last for a time, and give tokens.

The rules, as section 4 of the paper on flexible filters states them, made exact where it leaves a choice:

1. A transition is *enabled* while each place it takes from holds at least the weight of the arc.
2. Whatever is enabled fires, at once and as often as its tokens allow: it takes its tokens when it starts and gives
   them when its execution time has passed. Nothing but tokens limits how often a transition runs at the same time.
3. At an instant, first all firings that end there give their tokens. Then transitions start one by one until none is
   enabled. One that takes no time gives its tokens in the same step.
4. Of several that are enabled, those of the lowest `priority` start first (a permanent priority, such as that of the
   original over its flexible copy), and among them the one that has fired least recently (round robin). Those that
   have never fired go in the order of the net.

Times are exact: integers or fractions of any unit. The simulator counts in ticks, of which a whole number makes each of
the net's times.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

from penstock.errors import ModelError, quoted

Number = int | Fraction
Role = Literal["data", "room", "core"]
Arcs = tuple[tuple[str, int], ...]

HIGHEST_PRIORITY = 1 << 14
LONGEST = 1 << 50
"""The longest time in ticks: sums of them must fit 64 bits."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Every firing takes this time."""

    value: Number

    def __post_init__(self) -> None:
        _check_time("a constant time", self.value)

    @property
    def values(self) -> tuple[Number, ...]:
        return (self.value,)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Every firing draws one of these measured times, all equally likely; the seed of the run decides which."""

    values: tuple[Number, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        _check_times("a drawn time", self.values)


@dataclass(frozen=True, slots=True)
class Traced:
    """The first firing takes the first of these times, and so on; behind the last it begins again."""

    values: tuple[Number, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        _check_times("a traced time", self.values)


Time = Constant | Drawn | Traced


def as_time(value: Time | Number) -> Time:
    """A time from a number: a constant one.

    >>> as_time(3)
    Constant(value=3)
    """
    return value if isinstance(value, Constant | Drawn | Traced) else Constant(value)


def mean_time(time: Time) -> Fraction:
    """The mean time of a firing.

    >>> mean_time(Drawn((1, 2)))
    Fraction(3, 2)
    """
    return sum(map(Fraction, time.values), Fraction(0)) / len(time.values)


@dataclass(frozen=True, slots=True)
class Place:
    """A container of tokens. `role` says what they stand for: data, room for data, or a core that is free."""

    name: str
    tokens: int = 0
    role: Role = "data"

    def __post_init__(self) -> None:
        if not isinstance(self.tokens, int) or isinstance(self.tokens, bool) or self.tokens < 0:
            raise ModelError(f"place {self.name!r}: it must hold 0 or more tokens; got {self.tokens!r}")
        if self.role not in ("data", "room", "core"):
            raise ModelError(f"place {self.name!r}: the role must be 'data', 'room' or 'core'; got {self.role!r}")


@dataclass(frozen=True, slots=True)
class Transition:
    """A step that takes tokens, lasts for a time and gives tokens.

    `takes` and `gives` map the names of places to the weights of the arcs. `core` names the core that it keeps busy.
    """

    name: str
    time: Time
    takes: Arcs
    gives: Arcs = ()
    priority: int = 0
    core: str | None = None

    def __init__(
        self,
        name: str,
        time: Time | Number,
        takes: Mapping[str, int] | Arcs,
        gives: Mapping[str, int] | Arcs = (),
        priority: int = 0,
        core: str | None = None,
    ) -> None:
        where = f"transition {name!r}"
        put = object.__setattr__
        put(self, "name", name)
        put(self, "time", as_time(time))
        put(self, "takes", _arcs(where, takes))
        put(self, "gives", _arcs(where, gives))
        put(self, "priority", priority)
        put(self, "core", core)
        if not self.takes:
            raise ModelError(
                f"{where}: it must take from at least one place, or it would fire without end at every instant; "
                "it takes from none; give it a place with one token that it returns"
            )
        if not isinstance(priority, int) or not 0 <= priority < HIGHEST_PRIORITY:
            raise ModelError(f"{where}: the priority must be in 0 … {HIGHEST_PRIORITY - 1}; got {priority!r}")


@dataclass(frozen=True)
class Net:
    """A timed Petri net, valid by construction: names are unique, and arcs lead to places of the net.

    >>> loop = Net((Place("idle", 1),), (Transition("work", 3, {"idle": 1}, {"idle": 1}),))
    >>> loop.is_choice_free, loop.ticks
    (True, 1)
    """

    places: tuple[Place, ...]
    transitions: tuple[Transition, ...]
    number: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The number of each place and of each transition, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", tuple(self.places))
        object.__setattr__(self, "transitions", tuple(self.transitions))
        _check_names("place", (place.name for place in self.places))
        _check_names("transition", (transition.name for transition in self.transitions))
        if not self.transitions:
            raise ModelError("net: it must have at least one transition; got none")
        at = {place.name: number for number, place in enumerate(self.places)}
        for transition in self.transitions:
            for name, _ in (*transition.takes, *transition.gives):
                if name not in at:
                    raise ModelError(
                        f"transition {transition.name!r}: its arcs must lead to places of the net; got {name!r}; "
                        f"the net has {_some(at)}"
                    )
        both = at.keys() & {transition.name for transition in self.transitions}
        if both:
            raise ModelError(f"net: a place and a transition must not share a name; both are called {_some(both)}")
        object.__setattr__(self, "number", at | {t.name: number for number, t in enumerate(self.transitions)})

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each place, the transitions that take from it."""
        return self._ends([transition.takes for transition in self.transitions])

    @cached_property
    def producers(self) -> tuple[tuple[int, ...], ...]:
        """For each place, the transitions that give to it."""
        return self._ends([transition.gives for transition in self.transitions])

    def _ends(self, arcs: list[Arcs]) -> tuple[tuple[int, ...], ...]:
        transitions: list[list[int]] = [[] for _ in self.places]
        for transition, ends in enumerate(arcs):
            for name, _ in ends:
                transitions[self.number[name]].append(transition)
        return tuple(map(tuple, transitions))

    @cached_property
    def is_choice_free(self) -> bool:
        """Whether no two transitions ever compete for a token."""
        return all(len(taking) <= 1 for taking in self.consumers)

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether every time is constant, so that the run repeats itself as soon as a state does."""
        return all(isinstance(transition.time, Constant) for transition in self.transitions)

    @cached_property
    def ticks(self) -> int:
        """How many ticks make one unit of time: the least number for which every time is a whole number of ticks."""
        times = (transition.time for transition in self.transitions)
        denominators = {value.denominator for time in times for value in time.values}
        return math.lcm(*denominators)

    @cached_property
    def cores(self) -> tuple[str, ...]:
        """The names of the cores, in the order of the transitions."""
        return tuple(dict.fromkeys(t.core for t in self.transitions if t.core is not None))


def lacking(net: Net, tokens: Iterable[int]) -> dict[str, list[str]]:
    """For each place that keeps a transition from firing, the names of those transitions."""
    marking = list(tokens)
    waiting: dict[str, list[str]] = {}
    for transition in net.transitions:
        for name, weight in transition.takes:
            if marking[net.number[name]] < weight:
                waiting.setdefault(name, []).append(transition.name)
    return waiting


def _arcs(where: str, given: Mapping[str, int] | Arcs) -> Arcs:
    pairs = tuple(given.items()) if isinstance(given, Mapping) else tuple(given)
    for name, weight in pairs:
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
            raise ModelError(f"{where}: the weight of an arc must be 1 or more; got {weight!r} at {name!r}")
    if len({name for name, _ in pairs}) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise ModelError(f"{where}: one arc must lead to each place; {_some(twice)} has several; add their weights")
    return pairs


def _check_names(what: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ModelError(f"net: each {what} must have a name of its own; {_some(twice)} is there several times")


def _check_times(what: str, values: tuple[Number, ...]) -> None:
    if not values:
        raise ModelError(f"{what}: there must be at least one measured time; got none")
    for value in values:
        _check_time(what, value)


def _check_time(what: str, value: Number) -> None:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ModelError(
            f"{what}: it must be an exact number, an int or a Fraction; got {value!r}, a {type(value).__name__}; "
            "count in a finer unit, such as nanoseconds, and round"
        )
    if value < 0:
        raise ModelError(f"{what}: it must not be negative; got {value}")


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return quoted(listed[:8]) + more
