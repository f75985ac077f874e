"""Random graphs of the oracle's steps with their items, from a seed; and the same graph as a Penstock stream."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.oracle import steps as s

import penstock as ps

FIELDS = ("k", "g", "t", "v")


@dataclass(frozen=True)
class Drawn:
    """A graph and its items."""

    seed: int
    graph: s.Graph
    items: list[dict[str, int]]

    def __repr__(self) -> str:
        steps = "\n".join(f"  {number}: {step}" for number, step in s.numbered(self.graph))
        return f"seed {self.seed}:\n{steps}\n  items = {self.items}"


def draw(seed: int, *, raises: bool = True, late: bool | None = None) -> Drawn:
    """A graph and items. `late` says whether windows have `late=` (a running stream needs it); None for some."""
    chance = Random(seed)
    made = _Drawing(chance, raises, late)
    return Drawn(seed, made.graph(), _items(chance))


def _items(chance: Random) -> list[dict[str, int]]:
    """Items whose time mostly goes on, by steps, and sometimes back."""
    items, now = [], chance.choice((-20, 0, 7))
    step, back = chance.choice((0, 1, 4)), chance.choice((0, 3, 15, 30))
    for _ in range(chance.choice((0, 1, 5, 20, 20, 40, 60))):
        now += chance.randint(0, step) + (chance.randint(0, 40) if chance.random() < 0.05 else 0)
        time = now - (chance.randint(0, back) if chance.random() < 0.4 else 0)
        items.append({"k": chance.randint(0, 3), "g": chance.randint(0, 1), "t": time, "v": chance.randint(-9, 30)})
    return items


class _Drawing:
    """A graph while it grows: its steps, and the fields and the key that items have by now."""

    def __init__(self, chance: Random, raises: bool, late: bool | None) -> None:
        self.chance, self.raises, self.late = chance, raises, late
        self.fields, self.times, self.key = FIELDS, ("t",), ()
        self.steps: list[s.Step] = []
        self.grown = 0
        self.side_number = 100

    def graph(self) -> s.Graph:
        windows = self.chance.choice((0, 1, 1, 2, 2))
        for left in range(windows, -1, -1):
            for _ in range(self.chance.randint(0, 4)):
                self.steps.append(self.plain_step())
            if left:
                self.window()
        return s.Graph(FIELDS, tuple(self.steps))

    def raising(self) -> int | None:
        return self.chance.choice((None, None, None, 5, 7, 11)) if self.raises else None

    def plain_step(self) -> s.Step:
        kinds = {"filter": 3, "map": 3, "running": 4, "key": 2, "align": 2} | ({"spread": 3} if self.grown < 2 else {})
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        step: s.Step = getattr(self, f"draw_{kind}")()
        if isinstance(step, s.Spread):
            self.fields = (*step.keep, step.to)
            self.times = tuple(name for name in self.times if name in self.fields)
            self.grown += 1
        self.fields = tuple(dict.fromkeys((*self.fields, *_set_by(step))))
        return step

    def number(self) -> str:
        return self.chance.choice([name for name in self.fields if name not in self.key] or list(self.fields))

    def target(self) -> str:
        """A field to set: a new one, or one that neither is of the key nor has a window's time."""
        free = [name for name in self.fields if name not in (*self.key, "k", "g", "start", *self.times)]
        return self.chance.choice([*free, "x", "y"])

    def draw_filter(self) -> s.Filter:
        modulus = self.chance.choice((2, 3, 5))
        return s.Filter(self.number(), modulus, self.chance.randrange(modulus), self.raising())

    def draw_map(self) -> s.Map:
        if self.times and self.chance.random() < 0.2:  # a time of its own
            step = s.Map("u", self.chance.choice(self.times), 1, self.chance.choice((0, 3)), self.raising())
            self.times = (*dict.fromkeys((*self.times, "u")),)
            return step
        return s.Map(
            self.target(), self.number(), self.chance.choice((1, 2, -1)), self.chance.randint(-3, 3), self.raising()
        )

    def draw_running(self) -> s.Running:
        return s.Running(self.target(), self.number(), self.raising())

    def draw_spread(self) -> s.Spread:
        to = self.target()
        return s.Spread(to, self.number(), self.chance.choice((1, 2, 3)), _without(self.fields, to), self.raising())

    def draw_key(self) -> s.KeyBy:
        among = [name for name in ("k", "g") if name in self.fields]
        if not among:
            return s.KeyBy(self.key) if self.key else s.KeyBy((self.number(),))
        self.key = tuple(among[: self.chance.choice((1, 2))])
        return s.KeyBy(self.key)

    def draw_align(self) -> s.Align:
        if self.chance.random() < 0.5 and "k" in self.fields:
            self.draw_key()
            key = self.key
        else:
            key = ()
        return s.Align(*map(self.side, self.fresh("p", "q")), key)

    def fresh(self, *prefixes: str) -> list[str]:
        return [f"{prefix}{len(self.steps)}" for prefix in prefixes]

    def side(self, to: str) -> tuple[tuple[int, s.Step], ...]:
        return tuple(self.side_step(to) for _ in range(self.chance.randint(1, 2)))

    def side_step(self, to: str) -> tuple[int, s.Step]:
        self.side_number += 1
        kind = self.chance.choice(("filter", "map", "running"))
        if kind == "filter":
            return self.side_number, self.draw_filter()
        field = self.number()
        step = s.Map(to, field, 2, 1, self.raising()) if kind == "map" else s.Running(to, field, self.raising())
        return self.side_number, step

    def window(self) -> None:
        if not self.times:
            return
        if not self.key or self.chance.random() < 0.7 or not set(self.key) <= set(self.fields):
            self.steps.append(self.draw_key())
        length = self.chance.choice((1, 5, 10, 30))
        every = self.chance.choice((length, length, max(1, length // 2), 2 * length))
        has_late = self.chance.random() < 0.7 if self.late is None else self.late
        late = self.chance.choice((0, 0, 3, 20)) if has_late else None
        time = self.chance.choice(self.times)
        self.steps.append(s.Window(time, length, every, late, self.number(), self.key))
        self.fields = (*self.key, "start", "end", "n", "total")
        self.times = ("start",) if self.chance.random() < 0.8 else ("start", "end")


def _set_by(step: s.Step) -> tuple[str, ...]:
    if isinstance(step, s.Align):
        return tuple(name for side in (step.left, step.right) for _, each in side for name in s.sets(each))
    return s.sets(step)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


# The same as a stream


class Total(ps.State):
    n: int
    total: int


@dataclass(frozen=True)
class Built:
    """The streams of a graph: its result, and the late items of each window that can have any, by the step's number."""

    result: ps.Stream
    late: dict[int, ps.Stream]

    @property
    def leaves(self) -> tuple[Any, ...]:
        return (self.result.node, *(stream.node for stream in self.late.values()))


def build(graph: s.Graph, source: ps.Stream) -> Built:
    """The stream of a graph over a source with its fields."""
    stream, late = source, {}
    for number, step in s.numbered(graph):
        if isinstance(step, s.Window):
            windowed = stream.window(step.time, length=step.length, every=step.every, late=step.late)
            if step.late is not None:
                late[number] = windowed.late
            stream = windowed.aggregate(n=ps.count(), total=ps.sum(step.field))
        elif isinstance(step, s.Align):
            sides = []
            for side in (step.left, step.right):
                branch = stream.key_by(*step.key) if step.key else stream
                for side_number, each in side:
                    branch = _add(branch, side_number, each)
                sides.append(branch)
            stream = ps.align(*sides)
        else:
            stream = _add(stream, number, step)
    return Built(stream, late)


def _add(stream: ps.Stream, number: int, step: s.Step) -> ps.Stream:
    if isinstance(step, s.KeyBy):
        return stream.key_by(*step.names)
    if isinstance(step, s.Filter):
        return stream.filter(
            _function(number, step.field, f"return {step.field} % {step.modulus} != {step.rest}", step.raises)
        )
    if isinstance(step, s.Map):
        body = f"return {step.field} * {step.factor} + {step.plus}"
        return stream.map(**{step.to: _function(number, step.field, body, step.raises)})
    if isinstance(step, s.Running):
        return stream.map(**{step.to: _running(number, step)}, state=Total)
    body = f"for more in range({step.field} % {step.at_most + 1}):\n        yield {step.field} + more"
    function = _function(number, step.field, body, step.raises, is_last=True)
    return stream.flat_map(function, to=step.to, at_most=step.at_most, keep=step.keep)


def _function(number: int, field: str, body: str, raises: int | None, is_last: bool = False) -> Any:
    check = "" if raises is None else f"    if {field} % {raises} == 0:\n        raise ValueError('a multiple')\n"
    parts = (f"    {body}\n", check) if is_last else (check, f"    {body}\n")
    return _compiled(number, f"def step_{number}({field}):\n{parts[0]}{parts[1]}")


def _running(number: int, step: s.Running) -> Any:
    check = (
        ""
        if step.raises is None
        else f"    if state.total % {step.raises} == 0:\n        raise ValueError('a multiple')\n"
    )
    body = f"    state.n += 1\n    state.total += {step.field}\n{check}    return state.total + 1000 * state.n\n"
    return _compiled(number, f"def step_{number}({step.field}, state):\n{body}")


def _compiled(number: int, text: str) -> Any:
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope[f"step_{number}"]
