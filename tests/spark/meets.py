"""Random graphs in which streams part and meet again before keys, behind them, and on both sides of them.

The graphs of `tests/property/joins.py` seldom have keys; these are made for the cuts that keys and states need.
`python -m tests.spark.simulated --meets --seed 7` repeats one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.property.records import Level, Tally, Tick

import penstock as ps
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.tree import At, Tree, handled_signals


@dataclass(frozen=True)
class MeetCase:
    """One graph to be run, and the text that made it."""

    leaves: tuple[n.GraphNode, ...]
    control: tuple[At, ...]
    room: int | None
    lines: tuple[str, ...]

    def text(self) -> str:
        return "\n".join([*self.lines, f"control = {list(self.control)}"])


def tally(v: int, state: Any) -> int:
    state.n += 1
    state.sum = (state.sum * 3 + v) % 1009
    return state.sum


def tally_k(k: int, state: Any) -> int:
    return tally(k, state)


def odd(v: int, state: Any) -> bool:
    state.n += 1
    state.sum = (state.sum * 5 + v + state.n) % 1009
    return state.sum % 3 != 0


def mix(state: Any, signal: Any) -> None:
    state.sum = (state.sum * 31 + state.n * 7 + signal.level) % 1009


def twice(v: int) -> Iterator[int]:
    yield v
    if v % 2:
        yield v + 1


def perhaps(v: int) -> Iterator[int]:
    if v % 4:
        yield v * 3


SCOPE = {"ps": ps, "pc": pc, "Tally": Tally, "Level": Level, "Tick": Tick} | {
    function.__name__: function for function in (tally, tally_k, odd, mix, twice, perhaps)
}
ON = ".on(Level, mix).on(Tick, sum=lambda state: state.sum * 2 % 1009 + state.n)"


MOST = 16
"""From how many nodes on a graph grows no more, but for what it has begun."""


class Grower:
    """Grows one graph from chances."""

    def __init__(self, chance: random.Random, *, emits: bool = True) -> None:
        self.chance, self.made, self.lines, self.emits = chance, {}, [], emits
        self.count = 0
        rows = chance.choice([0, 1, 4, 9, 20, 20])
        items = [
            {"k": chance.randint(0, 3), "j": chance.randint(0, 2), "v": chance.randint(0, 50), "l": self._list()}
            for _ in range(rows)
        ]
        self.rows = rows
        self.name = self.add(f"ps.from_items({items}, schema={{'k': int, 'j': int, 'v': int, 'l': list[int]}})")

    def _list(self) -> list[int]:
        return [self.chance.randint(0, 9) for _ in range(self.chance.choice([0, 1, 2, 3]))]

    def add(self, text: str) -> str:
        name = f"s{len(self.made)}"
        self.made[name] = eval(text, SCOPE, self.made)
        self.lines.append(f"{name} = {text}")
        return name

    def fresh(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def shape(self, name: str) -> n.Shape:
        return self.made[name].node.shape

    def clear(self, name: str) -> str:
        """The stream with one key, where sides of several have met."""
        return self.add(f"{name}.key_by('k')") if self.shape(name).unkeyed else name

    # Steps that keep the index

    def keep(self, name: str, may_emit: bool) -> str:
        fields = self.shape(name).fields
        value = self.chance.choice([field for field in fields if field in "kjv" or field[0] == "x"])
        keyed = self.shape(name).key is not None
        states, emits = 6 if keyed else 0.4, 0.3 if keyed else 1.5
        if self.shape(name).unkeyed:
            states = 0.0  # sides of several keys have met: a state would belong to none
        choices = {
            f".filter(lambda {value}: {value} % {self.chance.choice([2, 3, 5])} != 0)": 4,
            f".map({self.fresh()}=lambda {value}: {value} + 1)": 4,
            f".map({self.fresh()}=lambda {value}, state: tally({value}, state), state=Tally){ON}": states,
            f".filter(lambda {value}, state: odd({value}, state), state=Tally){ON}": states,
            f".map_columns(lambda {value}: pc.multiply({value}, 2), to={{'{self.fresh()}': int}})": 0.3,
            f".emit(Tick, when=lambda {value}: {value} % 4 == 1)": emits * (may_emit and self.emits),
        }
        if "l" in fields and not self.shape(name).depth:
            choices[f".enumerate('l', as_='e').aggregate({self.fresh()}=ps.sum('e'))"] = 0.7
        return self.add(name + self.chance.choices(list(choices), list(choices.values()))[0])

    def diamond(self, name: str, depth: int = 0, keys: tuple[str, ...] = ()) -> str:
        """Part and meet again; with `keys`, some sides are keyed on the way."""
        sides = [self.side(name, depth, keys) for _ in range(self.chance.choice([2, 2, 3]))]
        if not depth and self.chance.random() < 0.3:
            names = [field for field in self.shape(name).fields if all(field in self.shape(s).fields for s in sides)]
            same = [self.add(f"{side}.select({', '.join(map(repr, names))})") for side in sides]
            return self.add(f"ps.merge({', '.join(same)})")
        if self.chance.random() < 0.5 or any(self.lacks_list(side, sides) for side in sides):
            return self.add(f"ps.align({', '.join(sides)})")
        fields = {field: t for side in sides for field, t in self.shape(side).fields.items()}
        fill = {field: True if t == pa.bool_() else 7 for field, t in fields.items() if types.is_scalar(t)}
        present = [f"h{self.fresh()}" for _ in sides] if self.chance.random() < 0.3 else []
        return self.add(f"ps.align({', '.join(sides)}, how='outer', fill={fill}, present={present})")

    def lacks_list(self, side: str, sides: list[str]) -> bool:
        """Whether a side has no list, which cannot be filled, and another has one."""
        return "l" not in self.shape(side).fields and any("l" in self.shape(other).fields for other in sides)

    def side(self, name: str, depth: int, keys: tuple[str, ...]) -> str:
        for _ in range(self.chance.choice([0, 1, 1, 2, 3]) if len(self.made) < MOST else 1):
            if depth < 2 and self.chance.random() < 0.15:
                name = self.diamond(name, depth + 1)
            else:
                name = self.keep(name, may_emit=True)
        if keys and self.chance.random() < 0.7:
            name = self.add(f"{name}.key_by('{self.chance.choice(keys)}')")
            name = self.keep(self.keep(name, may_emit=False), may_emit=False)
        return name

    def phase(self, name: str, at_most: int, keys: tuple[str, ...] = ()) -> str:
        for _ in range(self.chance.randint(0, at_most) if len(self.made) < MOST else 0):
            if self.chance.random() < 0.5:
                name = self.diamond(name, keys=keys)
            elif "v" in self.shape(name).fields and self.chance.random() < 0.12:
                rest = [field for field in self.shape(name).fields if field != "v"]
                many = self.chance.choice(["twice, to='v', at_most=2", "perhaps, to='v', at_most=1"])
                name = self.add(f"{name}.flat_map({many}, keep={rest})")
            else:
                name = self.keep(name, may_emit=True)
        return name

    def region(self, name: str) -> str:
        """A diamond within lists, or of found regions."""
        if "l" in self.shape(name).fields and self.chance.random() < 0.6:
            inside = self.add(f"{name}.enumerate('l', as_='x0')")
            return self.add(f"{self.diamond(inside)}.aggregate({self.fresh()}=ps.count())")
        found = self.add(f"{name}.regions(by='k')")
        sums = [self.add(f"{self.side(found, 1, ())}.aggregate({self.fresh()}=ps.count())") for _ in range(2)]
        return self.add(f"ps.align({', '.join(sums)})")

    def graph(self) -> list[str]:
        chance, name = self.chance, self.name
        name = self.phase(name, 2)
        points = [name]
        if chance.random() < 0.15:
            name = self.region(name)
        elif chance.random() < 0.9:
            keys = ("k", "j") if chance.random() < 0.5 else ("k",)
            name = self.phase(name, 2, keys) if chance.random() < 0.3 else name
            points.append(name)
            for key in keys if chance.random() < 0.4 else keys[:1]:
                name = self.phase(self.add(f"{name}.key_by('{key}')"), 3)
                points.append(name)
        return [name, *chance.sample(points, chance.choice([0, 0, 1]))]


def from_spread_seed(seed: int) -> MeetCase:
    """Streams that are spread by keys between where they part and where they meet, without signals there."""
    chance = random.Random(seed)
    grower = Grower(chance, emits=False)
    name = grower.phase(grower.name, 1) if chance.random() < 0.4 else grower.name
    points = []
    for _ in range(chance.choice([1, 1, 2])):
        name = grower.diamond(name, keys=("k", "j", "v"))
        points.append(name)
    for key in chance.choice(["", "", "k", "kj"]):
        name = grower.phase(grower.add(f"{name}.key_by('{key}')"), 2)
    last = chance.choice([".map(last=lambda k: k + 1)", ".key_by('k').map(last=tally_k, state=Tally)"])
    results = [grower.add(f"{name}{last}"), *chance.sample(points, chance.choice([0, 1]))]
    leaves = tuple(grower.made[result].node for result in results)
    return MeetCase(leaves, (), chance.choice([None, None, 1, 5]), tuple(grower.lines))


def from_meet_seed(seed: int) -> MeetCase:
    chance = random.Random(seed)
    grower = Grower(chance)
    points = [grower.clear(point) for point in grower.graph()]
    # every signal that was emitted finds a handler
    points = [grower.add(f"{point}.map(last=lambda k, state: tally(k, state), state=Tally){ON}") for point in points]
    leaves = tuple(grower.made[point].node for point in points)
    known = handled_signals(Tree(leaves).nodes)
    control = []
    for _ in range(chance.choice([0, 0, 1, 3]) if Level in known else 0):
        control.append(ps.at(chance.randint(0, grower.rows), Level(chance.randint(0, 9))))
    return MeetCase(leaves, tuple(control), chance.choice([None, None, 1, 5]), tuple(grower.lines))
