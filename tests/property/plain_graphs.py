"""Random graphs of keys, states, joins and merges, each built twice: of plain lists, and of the library's steps.

Only the public API builds the graphs, and only the plain model knows what must be refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.property.choose import Choose, Seeded
from tests.property.plain import Model, Plain, Refused, Values

import penstock as ps

MOST = 11
"""How many points a graph may have, roughly."""
FILL = 7


class Totals(ps.State):
    n: int
    total: int


class Reset(ps.Signal):
    to: int


@dataclass(frozen=True)
class Point:
    """A stream, twice."""

    name: str
    plain: Plain
    stream: ps.Stream
    handles: bool = False
    """Whether a node on the way here handles the signals."""

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.plain.made if not name.startswith("g")]


@dataclass
class Drawing:
    """A graph while it is drawn. `text` is the program that made it; `wanted` has the rows of each result."""

    choose: Choose
    items: list[Values]
    model: Model
    points: list[Point] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    results: list[ps.Stream] = field(default_factory=list)
    wanted: list[list[Values]] = field(default_factory=list)
    control: list[Any] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """What occurs in it, for the tests that count."""

    def build(self, call: str, **given: Any) -> ps.Stream:
        """Evaluate one call of the library, and write it down."""
        self.text.append(call)
        scope = {"ps": ps, "Totals": Totals, "Reset": Reset, **{point.name: point.stream for point in self.points}}
        return eval(call, scope, given)

    def add(self, plain: Plain, call: str, **given: Any) -> Point:
        name = f"s{len(self.points)}"
        handles = ".on(" in call or any(
            point.handles for point in self.points if point.name in re.findall(r"\w+", call)
        )
        point = Point(name, plain, self.build(call, **given), handles)
        self.text[-1] = f"{name} = {call}"
        self.points.append(point)
        return point

    def fresh(self, prefix: str = "n") -> str:
        names = {name for point in self.points for name in point.plain.made}
        return next(name for name in (f"{prefix}{at}" for at in range(100)) if name not in names)

    def on_key(self, point: Point, expect: Callable[[], Any], make: Callable[[Any], Any]) -> Any:
        """A step that needs one key or none: the library must refuse it where the model does, and only there."""
        try:
            wanted = expect()
        except Refused:
            self.seen.add("refused")
            _must_refuse(self, make)
            return None
        try:
            return make(wanted)
        except ps.GraphError:
            if not point.plain.may_be_refused:
                raise
            self.seen.add("refused for want of its fields")
            return None


def _must_refuse(drawing: Drawing, make: Callable[[Any], Any]) -> None:
    try:
        make(drawing.points[0].plain)
    except ps.GraphError as error:
        assert "write key_by behind" in str(error) or "group the items with key_by" in str(error), error
        return
    raise AssertionError("the library accepts a state where streams of several keys have met")


Read = Callable[[list[Values]], ps.Stream]
"""How the items become a stream."""


def from_seed(seed: int, read: Read = ps.from_items) -> Drawing:
    return draw(Seeded(seed), read)


def draw(choose: Choose, read: Read) -> Drawing:
    """A graph of some steps and at least one meet, with its items, its signals and what is wanted."""
    rows = choose.integer(1, 14)
    fields = ({"k": choose.integer(0, 2), "g": choose.choice("abc"), "v": choose.integer(0, 9)} for _ in range(rows))
    items = list(fields)
    places = sorted(choose.integer(0, rows) for _ in range(choose.integer(0, 2)))
    drawing = Drawing(choose, items, Model([(at, choose.integer(0, 99)) for at in places]))
    drawing.add(drawing.model.source(items), "read(items)", items=items, read=read)
    for _ in range(choose.integer(3, MOST)):
        choose.weighted(STEPS)(drawing, choose.choice(drawing.points[-3:]))
    met = meet(drawing) or drawing.points[-1]
    _finish(drawing, met)
    return drawing


def _finish(d: Drawing, last: Point) -> None:
    """The results: a count by whatever key there is now, the aggregates by it, or the rows as they are."""
    counted = count(d, last) or last
    d.results.append(counted.stream)
    d.wanted.append(counted.plain.items())
    d.control = [ps.at(at, Reset(to)) for at, to in d.model.signals] if counted.handles else []
    if last.plain.grouping is not None and not d.model.signals:
        expect = partial(d.model.aggregate, last.plain, last.numbers[0])
        found = d.on_key(last, expect, lambda rows: (rows, _by_key(d, last)))
        if found is not None:
            d.wanted.append(found[0])
            d.results.append(found[1])


def _by_key(d: Drawing, point: Point) -> ps.Stream:
    return d.build(f"{point.name}.aggregate(rows=ps.count(), sum=ps.sum({point.numbers[0]!r}))")


# Steps


def map_(d: Drawing, p: Point) -> Point:
    of, by = d.choose.choice(p.numbers), d.choose.integer(1, 3)
    name = d.fresh() if d.choose.boolean(60) else d.choose.choice(p.numbers)
    plain = d.model.map(p.plain, name, lambda fields: (fields[of] + by) % 5)
    return d.add(plain, f"{p.name}.map({name}=lambda {of}: ({of} + {by}) % 5)")


def filter_(d: Drawing, p: Point) -> Point:
    of, by = d.choose.choice(p.numbers), d.choose.integer(2, 4)
    plain = d.model.filter(p.plain, lambda fields: fields[of] % by > 0)
    return d.add(plain, f"{p.name}.filter(lambda {of}: {of} % {by} > 0)")


def select(d: Drawing, p: Point) -> Point:
    """Leave a field out, or give it another name."""
    kept = d.choose.some(p.numbers, 1, 3)
    names = {name: name for name in p.plain.made if name in kept or name.startswith("g")}
    if d.choose.boolean(40):
        names = {(d.fresh() if new == kept[0] else new): old for new, old in names.items()}
    return _selected(d, p, names)


def _selected(d: Drawing, p: Point, names: dict[str, str]) -> Point:
    if names == {name: name for name in p.plain.made}:
        return p
    text = ", ".join(f"{new}={old!r}" for new, old in names.items())
    return d.add(d.model.select(p.plain, names), f"{p.name}.select({text})")


def key_by(d: Drawing, p: Point) -> Point:
    """Mostly by the fields of the source, so that several branches have one key."""
    usual = [name for name in ("k", "g") if name in p.plain.made]
    among = usual if usual and d.choose.boolean(85) else list(p.plain.made)
    names = d.choose.some(among, 1, 2 if d.choose.boolean(25) else 1)
    keyed = d.add(d.model.key_by(p.plain, names), f"{p.name}.key_by({', '.join(map(repr, names))})")
    keyed = d.choose.choice((count, every_other))(d, keyed) or keyed
    others = {name: name for name in keyed.plain.made if name not in names}
    if d.choose.boolean(20) and any(not name.startswith("g") for name in others):
        return _selected(d, keyed, others)  # the key stays, without its fields
    return keyed


def count(d: Drawing, p: Point) -> Point | None:
    of, name = p.numbers[0], d.fresh()
    function = _function(f"def count({of}, state):", "return 1000 * state.n + state.total", of)
    call = f"{p.name}.map({name}=count, state=Totals).on(Reset, total=lambda signal: signal.to)"
    return d.on_key(p, lambda: d.model.count(p.plain, name, of), lambda plain: d.add(plain, call, count=function))


def every_other(d: Drawing, p: Point) -> Point | None:
    of = p.numbers[0]
    function = _function(f"def odd({of}, state):", "return (state.n + state.total) % 2 == 1", of)
    call = f"{p.name}.filter(odd, state=Totals).on(Reset, total=lambda signal: signal.to)"
    return d.on_key(p, lambda: d.model.every_other(p.plain, of), lambda plain: d.add(plain, call, odd=function))


def _function(head: str, result: str, of: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"{head}\n    state.n += 1\n    state.total += {of}\n    {result}\n", scope)
    return next(made for name, made in scope.items() if callable(made))


def split(d: Drawing, p: Point) -> None:
    of = d.choose.choice(p.numbers)
    for at, rest in enumerate((0, 1)):
        plain = d.model.filter(p.plain, lambda fields, rest=rest: fields[of] % 2 == rest)
        d.add(plain, f"{p.name}.split(lambda {of}: {of} % 2 == 0, lambda {of}: {of} % 2 == 1)[{at}]")


# Meets


def meet(d: Drawing, p: Point | None = None) -> Point | None:
    """Some points whose rows were numbered together."""
    last = d.points[-1].plain.numbered_at if p is None else p.plain.numbered_at
    among = [point for point in d.points if point.plain.numbered_at == last]
    keyed = [point for point in among if point.plain.grouping is not None]
    if len(keyed) > 1 and d.choose.boolean(60):
        among = keyed
    sides = d.choose.some(among[-5:], 2, 3)
    if len(sides) < 2:
        return None
    met = d.choose.choice((inner, outer, merge))(d, sides)
    if met is not None:
        _note(d, sides, met)
    return met


def _note(d: Drawing, sides: list[Point], met: Point) -> None:
    if met.plain.is_unclear:
        keyed = [side.plain.grouping is not None for side in sides]
        d.seen.add("sides of several keys" if all(keyed) else "sides with a key and without")
    elif met.plain.grouping is not None:
        at = {side.plain.keyed_at for side in sides}
        d.seen.add("one key_by on all sides" if len(at) == 1 else "one key of several key_by")
        if not all(side.plain.has_all for side in sides):
            d.seen.add("a key whose sides drop rows")


def inner(d: Drawing, sides: list[Point]) -> Point:
    sides = _apart(d, sides, is_outer=False)
    plain = d.model.join([side.plain for side in sides], is_outer=False, fill=FILL)
    return d.add(plain, f"ps.align({_names(sides)})")


def outer(d: Drawing, sides: list[Point]) -> Point:
    sides = _apart(d, sides, is_outer=True)
    plain = d.model.join([side.plain for side in sides], is_outer=True, fill=FILL)
    fill = {name: FILL for side in sides for name in side.numbers}
    return d.add(plain, f"ps.align({_names(sides)}, how='outer', fill={fill})")


def _apart(d: Drawing, sides: list[Point], *, is_outer: bool) -> list[Point]:
    """Give a field of a side another name where an earlier side has another of that name."""
    made: dict[str, int] = {}
    found = []
    for side in sides:
        names = {}
        for old, column in side.plain.made.items():
            is_same = all(other.plain.made.get(old) == column for other in sides)
            if old.startswith("g") and is_outer and not is_same:
                continue  # the library fills in no text
            new = old if made.get(old, column) == column else f"{d.fresh()}{len(made)}"
            made[new] = column
            names[new] = old
        found.append(_selected(d, side, names))
    return found


def merge(d: Drawing, sides: list[Point]) -> Point | None:
    common = [name for name in sides[0].plain.made if all(name in side.plain.made for side in sides)]
    if not any(not name.startswith("g") for name in common):
        return None
    sides = [_selected(d, side, {name: name for name in common}) for side in sides]
    return d.add(d.model.merge([side.plain for side in sides]), f"ps.merge({_names(sides)})")


def _names(sides: list[Point]) -> str:
    return ", ".join(side.name for side in sides)


STEPS: dict[Callable[[Drawing, Point], object], int] = {
    key_by: 10, filter_: 4, map_: 4, count: 3, select: 2, split: 2, meet: 3, every_other: 2,
}  # fmt: skip
