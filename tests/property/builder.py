"""A graph while it grows: the streams made so far, as Python objects and as the text that made them.

Every step is written as text and evaluated, so that what a failing case prints is the very program that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from tests.property import records
from tests.property.choose import Choose
from tests.property.library import SCOPE, Template, prefix_of
from tests.property.records import HANDLERS, SIGNALS

import penstock as ps
from penstock.graph import nodes, types

MOST_ITEMS = 500
"""How many items the steps of a path may make, by a rough estimate, before no step may make more."""


@dataclass(frozen=True, slots=True)
class Point:
    """A stream under its name. `owed` are the signals emitted before it that nobody on this path handles yet."""

    name: str
    stream: ps.Stream
    growth: float = 1.0
    owed: tuple[str, ...] = ()

    @property
    def shape(self) -> nodes.Shape:
        return self.stream.node.shape

    @property
    def own(self) -> Mapping[str, pa.DataType]:
        return self.shape.fields

    @property
    def parents(self) -> Mapping[str, pa.DataType]:
        return self.shape.parents


class Builder:
    """Makes points from points, and writes down how."""

    def __init__(self, choose: Choose, fault: str | None = None, *, rows: int = 1, may_sum: bool = True) -> None:
        self.choose = choose
        self.fault = fault
        self.is_planted = False
        self.rows = rows
        self.may_sum = may_sum
        self.lines: list[str] = []
        self.made: dict[str, Any] = {}
        self.leaves: list[Point] = []

    def start(self, text: str, **given: Any) -> Point:
        stream = eval(text, SCOPE, given)
        return self._named(text, stream, Point("", stream))

    def add(
        self, point: Point, call: str, growth: float = 1.0, owes: Sequence[str] = (), pays: Sequence[str] = ()
    ) -> Point:
        """The stream after one more call."""
        text = f"{point.name}{call}"
        stream = eval(text, SCOPE, self.made)
        owed = tuple(name for name in (*point.owed, *owes) if name not in pays)
        return self._named(text, stream, replace(point, growth=point.growth * growth, owed=owed))

    def clear(self, point: Point) -> Point:
        """The same stream, with a key where streams of several keys have met, so that a state belongs to one."""
        if not point.shape.unkeyed:
            return point
        fields = point.shape.scope
        names = [
            name for name, t in fields.items() if types.is_text(t) or (types.is_scalar(t) and not types.is_float(t))
        ]
        if not names:
            names = [self.fresh("i", fields)]
            point = self.add(point, f".map({names[0]}=lambda: 0)")
        return self.add(point, f".key_by({names[0]!r})")

    def parts(self, point: Point, call: str, number: int) -> list[Point]:
        """The streams that one call makes, each under a name of its own."""
        text = f"{point.name}{call}"
        name = f"s{len(self.made)}"
        self.made[name] = made = eval(text, SCOPE, self.made)
        self.lines.append(f"{name} = {text}")
        each = replace(point, growth=point.growth * 0.6)
        return [self._named(f"{name}[{at}]", made[at], each) for at in range(number)]

    def meet(self, points: Sequence[Point], text: str) -> Point:
        """The stream in which several meet."""
        stream = eval(text, SCOPE, self.made)
        owed = tuple(dict.fromkeys(name for point in points for name in point.owed))
        return self._named(text, stream, Point("", stream, max(point.growth for point in points), owed))

    def _named(self, text: str, stream: ps.Stream, point: Point) -> Point:
        name = f"s{len(self.made)}"
        self.made[name] = stream
        self.lines.append(f"{name} = {text}")
        return replace(point, name=name, stream=stream)

    def is_full(self, point: Point) -> bool:
        """Whether there are so many items here that no step should make more of them."""
        return point.growth * self.rows > MOST_ITEMS

    # Names and functions

    def fresh(self, prefix: str, taken: Iterable[str]) -> str:
        """The first free name of a kind, so that few names, and with them few functions, ever occur."""
        known = set(taken)
        return next(name for name in (f"{prefix}{at}" for at in range(100)) if name not in known)

    def target(self, point: Point, prefix: str, taken: Iterable[str] = ()) -> str:
        """A name for a field that is set: a new one, or one of the item's own of the same kind."""
        # not a field of a list of structs: its lists must keep one length
        mine = [n for n, t in point.own.items() if prefix_of(t) == prefix and n not in taken and not n.startswith("q")]
        if mine and self.choose.boolean(35):
            return self.choose.choice(mine)
        return self.fresh(prefix, [*point.shape.scope, *taken])

    def function(
        self, point: Point, among: Sequence[Template], state: str | None = None
    ) -> tuple[Template, str] | None:
        """A template that fits here, filled; None where none does. With `state`, only those that use it."""
        fitting = [t for t in among if t.state == (state or "") and t.fits(point.own, point.parents)]
        if not self.choose.boolean(30):
            fitting = [t for t in fitting if not t.is_slow] or fitting
        if not fitting:
            return None
        template = self.choose.choice(fitting)
        filled = template.fill(self.choose, point.own, point.parents)
        return None if filled is None else (template, filled)

    # Signals

    def handlers(self, state: str, owed: Sequence[str], percent: int) -> tuple[str, tuple[str, ...]]:
        """`.on(...)` for the signals that are owed, and perhaps for others: the text, and the signals handled."""
        signals = [s for s in SIGNALS if s in owed or self.choose.boolean(percent)]
        text = "".join(f".on({s}, {self.choose.choice(HANDLERS[state, s])})" for s in signals)
        return text, tuple(signals)

    def control(self, rows: int) -> list[str]:
        """Signals from outside, at any places, for what some node of the graph handles."""
        handled = [name for name in SIGNALS if any(self._handles(leaf.stream.node, name) for leaf in self.leaves)]
        if not handled:
            return []
        places: list[int] = []
        for _ in range(self.choose.choice((1, 0, 2, 4, 7))):
            again = [places[-1]] if places else []
            places.append(
                self.choose.choice([0, rows, *again, self.choose.integer(0, rows), self.choose.integer(0, rows)])
            )
        if self.fault == "late":
            places.append(rows + self.choose.integer(1, 3))
        return [f"ps.at({place}, {self._signal(self.choose.choice(handled))})" for place in places]

    def _handles(self, node: nodes.GraphNode, signal: str) -> bool:
        if isinstance(node, nodes.Stateful) and any(h.signal is getattr(records, signal) for h in node.handlers):
            return True
        return any(self._handles(before, signal) for before in node.inputs)

    def _signal(self, name: str) -> str:
        number = self.choose.integer(0, 50)
        return {
            "Level": f"Level({number})",
            "Tick": "Tick()",
            "Scale": f"Scale({number / 4}, {number % 2 == 0})",
            "Steps": f"Steps([1, {number}, 3])",
        }[name]
