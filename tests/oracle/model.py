"""What a graph means, a second time: plain dicts and lists, one item after the other, and nothing of Penstock.

Written from the definitions alone, so that a fault of the reference interpreter cannot be shared. A graph is a tuple of
steps (see `steps.py`); `run` reads the items first to last and returns the rows, the late items and the letters.

- A step that raises drops its item there: the state of its key is as before, and what it had yielded is gone.
- The watermark of a time field is the greatest value that its step has sent so far. Before an item leaves that step,
  every window downstream hears the new value and closes what it proves complete, whatever becomes of the item later.
- A window's rows have the time of its start; downstream of it, the watermark is lower by `late` and by its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.oracle import steps as s

Row = dict[str, Any]
Clock = tuple[int, str]
"""A watermark: the number of the step that sets the time field (-1 for the source), and the field."""


@dataclass
class Outcome:
    """What one thread makes of the items."""

    rows: list[Row] = field(default_factory=list)
    late: dict[int, list[Row]] = field(default_factory=dict)
    """The late items of each window, by the number of its step."""
    letters: list[tuple[int | None, int]] = field(default_factory=list)
    """The items that were skipped: index in the source, None downstream of a window, and step."""


def run(graph: s.Graph, items: list[Row], *, is_open: bool = False) -> Outcome:
    """Read the items first to last. With `is_open` the stream goes on, so that nothing closes at its end."""
    return _Thread(graph).run(items, is_open)


class _Thread:
    def __init__(self, graph: s.Graph) -> None:
        self.steps = list(s.numbered(graph))
        self.states: dict[tuple[int, Any], dict[str, int]] = {}
        self.windows = {number: _Windows(step) for number, step in self.steps if isinstance(step, s.Window)}
        self.outcome = Outcome(late={number: [] for number in self.windows})
        self.newest: dict[Clock, int] = {}
        self.clocks = s.clocks(graph)
        self.index = 0
        self.place = 0
        """The step of the chain that an item is at."""

    def run(self, items: list[Row], is_open: bool) -> Outcome:
        for self.index, item in enumerate(items):
            for name in item:
                self.moves((-1, name), item[name], 0)
            self.send(item, None, 0)
        self.index = len(items)
        if not is_open:
            for at, (number, step) in enumerate(self.steps):
                if isinstance(step, s.Window):
                    self.close(at, self.windows[number].close(None))
        return self.outcome

    # An item, with its key, at the step of a place in the chain

    def send(self, item: Row, key: Any, at: int) -> None:
        if at == len(self.steps):
            self.outcome.rows.append(item)
            return
        number, step = self.steps[at]
        self.place = at
        if isinstance(step, s.Window):
            self.into_windows(number, step, item, key)
        elif isinstance(step, s.KeyBy):
            self.send(item, tuple(item[name] for name in step.names), at + 1)
        elif isinstance(step, s.Align):
            self.both(step, item, key, at)
        else:
            for made in self.skipping(number, step, item, key):
                for name in s.sets(step):
                    self.moves((number, name), made[name], at + 1)
                self.send(made, key, at + 1)

    def skipping(self, number: int, step: s.Step, item: Row, key: Any) -> list[Row]:
        """What a step makes of an item: nothing, and no trace in its state, where it raises."""
        state = self.states.setdefault((number, key), {"n": 0, "total": 0})
        before = deepcopy(state)
        try:
            return list(_APPLY[type(step)](step, item, state))
        except _Raised:
            self.states[number, key] = before
            self.letter(number)
            return []

    def letter(self, number: int) -> None:
        """One letter for each index and step, or for each row of a window, which has no index."""
        if any(isinstance(step, s.Window) for at, step in self.steps if at < self.place):
            self.outcome.letters.append((None, number))
        elif (self.index, number) not in self.outcome.letters:
            self.outcome.letters.append((self.index, number))

    def both(self, align: s.Align, item: Row, key: Any, at: int) -> None:
        """Each side by itself, and one item where both have kept it."""
        if align.key:
            key = tuple(item[name] for name in align.key)
        sides = [self.through(side, item, key) for side in (align.left, align.right)]
        if all(side is not None for side in sides):
            joined = {name: value for side in sides for name, value in side.items()}
            self.send(joined, key, at + 1)

    def through(self, side: tuple[tuple[int, s.Step], ...], item: Row, key: Any) -> Row | None:
        for number, step in side:
            made = self.skipping(number, step, item, key)
            if not made:
                return None
            (item,) = made
        return item

    # Time

    def moves(self, clock: Clock, time: int, at: int) -> None:
        """A step is about to send an item of this time: the windows from a place on hear of it first."""
        if clock not in self.newest or time > self.newest[clock]:
            self.newest[clock] = time
            self.reaches(clock, time, at)

    def reaches(self, clock: Clock, time: int, at: int) -> None:
        """A watermark has come to a time: the windows that go by it close, and those downstream of them hear too."""
        for place in range(at, len(self.steps)):
            number, step = self.steps[place]
            if not isinstance(step, s.Window):
                continue
            if self.clocks[number] == clock and step.late is not None:
                reached = time - step.late
                self.windows[number].reached = reached
                self.close(place, self.windows[number].close(reached))
                self.reaches((number, "start"), reached - step.length, place + 1)
            return  # a window's rows have times of their own

    def close(self, at: int, rows: list[tuple[Row, Any]]) -> None:
        number = self.steps[at][0]
        for row, key in rows:
            for name in ("end", "n", "total"):
                self.moves((number, name), row[name], at + 1)
            self.send(row, key, at + 1)

    def into_windows(self, number: int, step: s.Window, item: Row, key: Any) -> None:
        windows = self.windows[number]
        mine = step.windows_of(item[step.time])
        kept = [start for start in mine if windows.reached is None or start + step.length > windows.reached]
        windows.first.setdefault(key, len(windows.first))
        if mine and not kept:
            self.outcome.late[number].append(item)
        for start in kept:
            windows.add(start, key, item[step.field])


class _Windows:
    """The open windows of one step, of all keys."""

    def __init__(self, step: s.Window) -> None:
        self.step = step
        self.reached: int | None = None
        self.first: dict[Any, int] = {}
        self.open: dict[tuple[int, Any], list[int]] = {}

    def add(self, start: int, key: Any, value: int) -> None:
        self.open.setdefault((start, key), []).append(value)

    def close(self, reached: int | None) -> list[tuple[Row, Any]]:
        """Take out the windows that end at or before a time, or all: by end, start, and the key's first item."""
        length = self.step.length
        ready = [each for each in self.open if reached is None or each[0] + length <= reached]
        ready.sort(key=lambda each: (each[0] + length, each[0], self.first[each[1]]))
        return [(self.row(start, key, self.open.pop((start, key))), key) for start, key in ready]

    def row(self, start: int, key: Any, values: list[int]) -> Row:
        named = dict(zip(self.step.keys, key, strict=True))
        return named | {"start": start, "end": start + self.step.length, "n": len(values), "total": sum(values)}


# What each kind of step does with an item


class _Raised(Exception):
    """The function of a step has raised."""


def _check(value: int, raises: int | None) -> None:
    if raises is not None and value % raises == 0:
        raise _Raised


def _filter(step: s.Filter, item: Row, state: dict[str, int]) -> Iterator[Row]:
    _check(item[step.field], step.raises)
    if item[step.field] % step.modulus != step.rest:
        yield item


def _map(step: s.Map, item: Row, state: dict[str, int]) -> Iterator[Row]:
    _check(item[step.field], step.raises)
    yield item | {step.to: item[step.field] * step.factor + step.plus}


def _running(step: s.Running, item: Row, state: dict[str, int]) -> Iterator[Row]:
    state["n"] += 1
    state["total"] += item[step.field]
    _check(state["total"], step.raises)
    yield item | {step.to: state["total"] + 1000 * state["n"]}


def _spread(step: s.Spread, item: Row, state: dict[str, int]) -> Iterator[Row]:
    kept = {name: item[name] for name in step.keep}
    for more in range(item[step.field] % (step.at_most + 1)):
        yield kept | {step.to: item[step.field] + more}
    _check(item[step.field], step.raises)


_APPLY: dict[type, Callable[..., Iterator[Row]]] = {
    s.Filter: _filter,
    s.Map: _map,
    s.Running: _running,
    s.Spread: _spread,
}
