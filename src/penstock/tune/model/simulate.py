"""Runs of a net: what happened in how much time; where every time is constant, up to a state that comes back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.errors import ModelError, quoted
from penstock.tune.model import event_loop
from penstock.tune.model.net import LONGEST, Net, lacking
from penstock.tune.model.wiring import tables, with_more_events

FIRINGS = 200_000
BURST = 1_000_000
"""So many firings of a transition at one instant mean that time no longer passes."""
SUMMABLE = float(1 << 62)


@dataclass(frozen=True, slots=True)
class TransitionFiring:
    """One firing of a transition, with its start and its end."""

    transition: str
    start: Fraction
    end: Fraction


@dataclass(frozen=True, eq=False)
class NetRun:
    """What a net did between two instants of a run, `begin` and `end`.

    Where `is_periodic`, the states at both are equal, so that all numbers hold for ever from `begin` on, exactly.
    Where `has_stopped`, nothing could fire any more at the end.
    """

    net: Net
    begin: Fraction
    end: Fraction
    is_periodic: bool
    has_stopped: bool
    firings: int
    """All firings of the run, those before `begin` too."""
    log_who: Any
    log_starts: Any
    log_ends: Any
    _finished: Any
    _busy: Any
    _areas: Any
    _empty: Any
    _most: Any
    _tokens: Any

    @property
    def time(self) -> Fraction:
        return self.end - self.begin

    @property
    def log(self) -> tuple[TransitionFiring, ...]:
        """The firings that were kept, in the order of their starts."""
        names, ticks = self.net.transitions, self.net.ticks
        rows = zip(self.log_who.tolist(), self.log_starts.tolist(), self.log_ends.tolist(), strict=True)
        return tuple(
            TransitionFiring(names[who].name, Fraction(begin, ticks), Fraction(end, ticks)) for who, begin, end in rows
        )

    def count(self, transition: str) -> int:
        """How many firings of a transition ended in that time."""
        return int(self._finished[self._at(transition)])

    def rate(self, transition: str) -> Fraction:
        """Firings of a transition in one unit of time."""
        return self.count(transition) / self.time

    def running(self, transition: str) -> Fraction:
        """How many firings of a transition ran at a time, in the mean: for one that excludes itself, its share."""
        return Fraction(int(self._busy[self._at(transition)]), self.net.ticks) / self.time

    def utilisation(self, core: str) -> Fraction:
        """The share of the time in which a core was busy."""
        of_core = [t.name for t in self.net.transitions if t.core == core]
        if not of_core:
            raise ModelError(f"utilisation: {core!r} must be a core of the net; it has {quoted(self.net.cores)}")
        return sum(map(self.running, of_core), Fraction(0))

    def mean(self, place: str) -> Fraction:
        """The mean number of tokens in a place."""
        return Fraction(int(self._areas[self._at(place)]), self.net.ticks) / self.time

    def most(self, place: str) -> int:
        """The most tokens that a place held for any time, since the start of the run."""
        return int(self._most[self._at(place)])

    def empty(self, place: str) -> Fraction:
        """The share of the time in which a place held no token."""
        return Fraction(int(self._empty[self._at(place)]), self.net.ticks) / self.time

    def tokens_left(self, place: str) -> int:
        """The tokens in a place at the end."""
        return int(self._tokens[self._at(place)])

    def _at(self, name: str) -> int:
        if name not in self.net.number:
            raise ModelError(f"run: {name!r} must be a place or a transition of the net, and is none of them")
        return self.net.number[name]


def simulate(
    net: Net,
    *,
    firings: int = FIRINGS,
    seed: int = 0,
    until: int | Fraction | None = None,
    may_stop: bool = False,
    log: int = 0,
    logged: Iterable[str] | None = None,
) -> NetRun:
    """Run a net from its first marking.

    Where every time is constant, the run ends as soon as a state has come back, and tells about one period. Else it
    ends after so many firings, and tells about all but the first fifth. With `until` it tells about the time from 0 to
    then. `log` keeps the first so many firings, of all transitions or of those `logged`. A net that stops is an
    error, unless it `may_stop`; then the run tells about the time from 0 to its end.

    >>> from penstock.tune.model.net import Place, Transition
    >>> net = Net((Place("idle", 1),), (Transition("work", 3, {"idle": 1}, {"idle": 1}),))
    >>> simulate(net).rate("work")
    Fraction(1, 3)
    """
    _check(net, firings, seed, logged)
    names = frozenset(logged) if logged is not None else frozenset(t.name for t in net.transitions)
    machine = NetSimulation(net, seed, names, log)
    if until is not None:
        return machine.through(until, may_stop)
    if may_stop:
        return machine.whole(firings)
    if net.is_deterministic:
        return machine.period(firings)
    return machine.stretch(firings)


def _check(net: Net, firings: int, seed: int, logged: Iterable[str] | None) -> None:
    if firings < 1:
        raise ModelError(f"simulate: there must be at least one firing; got firings={firings}")
    if not 0 <= seed < 1 << 64:
        raise ModelError(f"simulate: the seed must be in 0 … 2⁶⁴ - 1; got {seed}")
    unknown = set(logged or ()) - {t.name for t in net.transitions}
    if unknown:
        raise ModelError(f"simulate: only transitions of the net can be logged; got {quoted(sorted(unknown))}")


@dataclass(frozen=True, slots=True)
class Mark:
    """The accounts of a run at an instant, and all that its future depends on."""

    now: int
    finished: Any
    busy: Any
    areas: Any
    empty: Any
    tokens: Any
    held: Any
    """How long each place has had its tokens."""
    running: Any
    order: Any

    def is_state_of(self, other: Mark) -> bool:
        """Whether both have the same future."""
        return (
            np.array_equal(self.tokens, other.tokens)
            and np.array_equal(self.running, other.running)
            and np.array_equal(self.order, other.order)
        )


class NetSimulation:
    """A net that runs."""

    def __init__(self, net: Net, seed: int, logged: frozenset[str], log: int) -> None:
        self.net = net
        self.tables = tables(net, seed, logged, log)
        self.burst = BURST + 16 * len(net.transitions)

    @property
    def firing_count(self) -> int:
        return int(self.tables.numbers[event_loop.SEQUENCE]) - len(self.net.transitions)

    def advance(self, firings: int, latest: int = LONGEST, instants: int = LONGEST, sought: int | None = None) -> int:
        """Run on until the loop comes back for a reason that is the caller's."""
        most, seeks = firings + len(self.net.transitions), sought is not None
        while True:
            why = event_loop.advance(most, latest, instants, self.burst, seeks, sought or 0, *self.tables)
            if why == event_loop.ENDLESS:
                raise self.endless()
            if why == event_loop.LATE and latest == LONGEST:
                raise ModelError(
                    "simulate: a run must end before 2⁵⁰ ticks; it did not; count in a coarser unit of time"
                )
            if why != event_loop.FULL:
                return int(why)
            self.tables = with_more_events(self.tables)

    def period(self, firings: int) -> NetRun:
        """Run until a state comes back. Brent's way: look for one state only, and for a later one ever more rarely."""
        kept, instants = self.mark(), 1
        sought: int | None = None
        half: Mark | None = None
        while True:
            why = self.advance(firings, instants=instants, sought=sought)
            if why == event_loop.STOPPED:
                raise self.deadlock_error()
            now = self.mark()
            if why == event_loop.SEEN and now.is_state_of(kept):
                return self.run(kept, now, is_periodic=True)
            if why == event_loop.FIRED:
                return self.run(half or kept, now)
            if why == event_loop.TOLD:
                half, kept, instants = kept if self.firing_count > firings // 64 else None, now, 2 * instants
                sought = int(event_loop.fingerprint(self.tables.numbers))

    def stretch(self, firings: int) -> NetRun:
        """Run so long, and leave the beginning out of the account."""
        begin = self.mark_after(firings // 5)
        return self.run(begin, self.mark_after(firings))

    def mark_after(self, firings: int) -> Mark:
        """The mark after so many firings of a net that must not stop."""
        if self.advance(firings) == event_loop.STOPPED:
            raise self.deadlock_error()
        return self.mark()

    def whole(self, firings: int) -> NetRun:
        """Run until nothing is left to fire, and tell about all of it."""
        begin = self.mark()
        if self.advance(firings) != event_loop.STOPPED:
            raise ModelError(
                f"simulate: a net that may stop must do so; this one still ran after {self.firing_count:,} "
                "allow it more firings, or give it a finite supply"
            )
        return self.run(begin, self.mark(), has_stopped=True)

    def through(self, until: int | Fraction, may_stop: bool) -> NetRun:
        begin = self.mark()
        ticks = int(Fraction(until) * self.net.ticks)
        if not 0 < ticks < LONGEST:  # nothing can be said of no time
            raise ModelError(f"simulate: it must run until a time in 0 … 2⁵⁰ ticks; got until={until}")
        why = self.advance(LONGEST, ticks)
        if why == event_loop.STOPPED and not may_stop:
            raise self.deadlock_error()
        self.tables.numbers[event_loop.NOW] = max(int(self.tables.numbers[event_loop.NOW]), ticks)
        return self.run(begin, self.mark(), has_stopped=why == event_loop.STOPPED)

    def mark(self) -> Mark:
        numbers, transitions, places = self.tables[:3]
        transitions, places = transitions[:-1], places[:-1]
        now = int(numbers[event_loop.NOW])
        ends, who = self.tables.events[: numbers[event_loop.RUNNING]].T
        by_transition = np.lexsort((ends, who))
        yet = np.zeros(len(transitions), np.int64)
        np.add.at(yet, who, ends - now)
        passed, tokens = now - places[:, event_loop.CHANGED], places[:, event_loop.TOKENS]
        return Mark(
            now,
            transitions[:, event_loop.FINISHED].copy(),
            transitions[:, event_loop.BUSY] - yet,
            places[:, event_loop.AREA] + tokens * passed,
            places[:, event_loop.EMPTY] + np.where(tokens == 0, passed, 0),
            tokens.copy(),
            passed,
            np.stack([who[by_transition], ends[by_transition] - now]),
            np.argsort(transitions[:, event_loop.KEY]),
        )

    def run(self, begin: Mark, end: Mark, is_periodic: bool = False, has_stopped: bool = False) -> NetRun:
        if end.now == begin.now and not has_stopped:
            raise ModelError(
                f"simulate: there must be enough firings for time to pass; {self.firing_count:,} were too few; "
                "allow more"
            )
        most = np.maximum(self.tables.places[:-1, event_loop.MOST], np.where(end.held > 0, end.tokens, 0))
        if float(most.max(initial=0)) * end.now > SUMMABLE:
            raise ModelError(
                f"simulate: tokens times ticks must stay below 2⁶² to be summed; got {most.max():,} tokens in a place "
                f"and {end.now:,} ticks; count in a coarser unit of time, or in larger tokens"
            )
        ticks = self.net.ticks
        who, starts, ends = self.tables.log[: self.tables.numbers[event_loop.LOGGED]].T
        return NetRun(
            net=self.net,
            begin=Fraction(begin.now, ticks),
            end=Fraction(end.now, ticks),
            is_periodic=is_periodic,
            has_stopped=has_stopped,
            firings=self.firing_count,
            log_who=who,
            log_starts=starts,
            log_ends=ends,
            _finished=end.finished - begin.finished,
            _busy=end.busy - begin.busy,
            _areas=end.areas - begin.areas,
            _empty=end.empty - begin.empty,
            _most=most,
            _tokens=end.tokens,
        )

    def deadlock_error(self) -> ModelError:
        """What to say of a net in which nothing can fire any more."""
        waiting = lacking(self.net, self.tables.places[:-1, event_loop.TOKENS].tolist())
        at = Fraction(int(self.tables.numbers[event_loop.NOW]), self.net.ticks)
        listed = [f"{place!r} (for {quoted(names[:3])})" for place, names in list(waiting.items())[:8]]
        more = f", and {len(waiting) - 8} more" if len(waiting) > 8 else ""
        return ModelError(
            f"net: some transition must always be able to fire; at time {at} none can, after {self.firing_count:,} "
            f"firings; these places lack tokens: {', '.join(listed)}{more}; enlarge a buffer, or put tokens on a cycle"
        )

    def endless(self) -> ModelError:
        at = Fraction(int(self.tables.numbers[event_loop.NOW]), self.net.ticks)
        instant = {t.name for t in self.net.transitions if 0 in t.time.values}
        return ModelError(
            f"net: time must pass; at time {at} more than {self.burst:,} firings took no time; "
            f"of the transitions without a time, {quoted(sorted(instant)[:8])}, give one of each cycle a time"
        )
