"""Random graphs with their items and control signals, and how to run them: sizes of batches, a setting of channels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from tests.property import steps
from tests.property.builder import Builder, Point
from tests.property.choose import Choose, Seeded
from tests.property.data import Items, choose_items
from tests.property.library import SCOPE, kind_of, used
from tests.property.planted import FAULTS, NEEDS, SELDOM
from tests.property.settings import Setting, choose_setting

import penstock as ps
from penstock.graph import nodes, types
from penstock.graph.tree import At

BATCHES: tuple[int | None, ...] = (None, 1, 2, 3, 7, 64)
ROOMS: tuple[int | None, ...] = (None, None, 1, 2, 5, 30)
"""How many rows a loop may write before it must hand them out; None for what the engine gives it."""
MOST_LEAVES = 4


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One graph to be run. `seed` is what it was made from, where that was a seed."""

    seed: int | None
    items: Items
    lines: tuple[str, ...]
    leaves: tuple[nodes.GraphNode, ...]
    leaf_names: tuple[str, ...]
    control: tuple[At, ...]
    control_text: tuple[str, ...]
    batches: tuple[int | None, ...]
    room: int | None
    is_traced: bool
    fault: str | None
    setting: Setting
    is_joined: bool = False
    """Whether the seed is one of `joins.py`."""
    is_flexible: bool = False
    """Whether the seed is one of `flexible.py`."""

    def text(self) -> str:
        """The case as a Python program."""
        program = "\n".join(self.lines)
        parts = [
            "from collections.abc import Iterator\nfrom math import inf, nan\n",
            "import numpy as np\nimport pyarrow as pa\nimport pyarrow.compute as pc\n\nimport penstock as ps",
            "from tests.graph.placed import flexible",
            "from penstock.graph import reference\nfrom tests.property.data import plain_array",
            "from tests.property.records import *\n",
            *(f"\n{source}" for source in used(program).values()),
            f"\n{self.items.text()}",
            program,
            f"leaves = [{', '.join(f'{name}.node' for name in self.leaf_names)}]",
            f"control = [{', '.join(self.control_text)}]",
            "print(*(table.to_pydict() for table in reference.run(leaves, control).tables), sep='\\n')",
        ]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return f"{self.about}\n{self.text()}"

    @property
    def about(self) -> str:
        return (
            f"<seed {self.seed}, batches of {self.batches}, room for {self.room}, fault {self.fault}, "
            f"channels with {self.setting}>"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints, below the failure that holds the whole text."""
        printer.text(self.about)


def build(choose: Choose, seed: int | None = None) -> Case:
    """A case from choices."""
    fault = choose.choice([*FAULTS, *SELDOM]) if choose.boolean(15) else None
    nulls = fault == "null" or (fault is None and choose.boolean(14))
    items = choose_items(choose, nulls=nulls, huge=fault == "sum", needed=NEEDS.get(fault or "", ()))
    builder = Builder(choose, fault, rows=items.rows, may_sum=fault != "sum")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        for start in _starts(builder, items):
            _grow(builder, start, min(choose.integer(0, 11), 9), is_main=True)
        control = tuple(builder.control(items.rows))
    return Case(
        seed,
        items,
        tuple(builder.lines),
        tuple(leaf.stream.node for leaf in builder.leaves),
        tuple(leaf.name for leaf in builder.leaves),
        tuple(eval(text, SCOPE) for text in control),
        control,
        tuple(choose.some(BATCHES, 2, 2)),
        choose.choice(ROOMS),
        choose.boolean(50),
        fault,
        choose_setting(choose, items.rows),
    )


def from_seed(seed: int) -> Case:
    return build(Seeded(seed), seed)


# The source, and its nulls


def _starts(b: Builder, items: Items) -> list[Point]:
    """The points right behind the source from which a graph grows: mostly one."""
    text = "ps.from_items(table.to_pylist(), schema=table.schema, name='items')"
    source = b.start(text if items.as_dicts else "ps.from_arrow(table, name='items')", table=source_table(items))
    if not items.has_nulls:
        return [source]
    if b.fault == "null":
        return [_drop(b, source, 1)] if b.choose.boolean(40) else [source]
    cleaned = [_clean(b, source)]
    return [*cleaned, _clean(b, source)] if b.choose.boolean(25) else cleaned


def source_table(items: Items) -> Any:
    """What the text of a graph calls `table`."""
    return _Dicts(items) if items.as_dicts else items.table


class _Dicts:
    """Stands for a table where its rows are given as plain dicts."""

    def __init__(self, items: Items) -> None:
        self.schema = items.schema
        self.to_pylist = lambda: items.dicts


def _clean(b: Builder, source: Point) -> Point:
    """Without any null: all dropped, all filled, or some of each."""
    fillable = [name for name, t in source.own.items() if _filling(t) is not None]
    filled = b.choose.choice([[], fillable, b.choose.some(fillable, 0, 2)])
    if filled:
        values = ", ".join(f"{name!r}: {_filling(source.own[name])}" for name in filled)
        source = b.add(source, f".fill_null(**{{{values}}})")
    if len(filled) < len(source.own):
        source = _drop(b, source, len(source.own))
    return source


def _drop(b: Builder, source: Point, at_least: int) -> Point:
    names = b.choose.some(list(source.own), at_least, at_least)
    everything = at_least == len(source.own) and b.choose.boolean(50)
    return b.add(source, f".drop_nulls({'' if everything else ', '.join(map(repr, names))})")


def _filling(t: types.pa.DataType) -> str | None:
    while types.is_list(t) or types.is_array(t):
        t = t.value_type
    return {"i": "5", "f": "0.5", "s": "'nil'", "x": "b'nil'", "t": "30", "b": "True"}.get(kind_of(t))


# The tree


def _grow(b: Builder, point: Point, count: int, *, is_main: bool = False) -> None:
    """Steps and branches from a point on, to a leaf."""
    for left in reversed(range(count)):
        if len(b.leaves) < MOST_LEAVES - 1 and b.choose.boolean(12 if not point.shape.regions else 16):
            _grow(b, point, b.choose.integer(1, 3))
        if b.choose.boolean(4):
            b.leaves.append(point)
        if is_main and not b.is_planted and b.choose.boolean(50 if left else 100):
            point = _plant(b, point)
        point = _step(b, point)
    if is_main and not b.is_planted:
        point = _plant(b, point)
    b.leaves.append(_finish(b, point))


def _step(b: Builder, point: Point) -> Point:
    for _ in range(6):
        after = b.choose.weighted(steps.STEPS)(b, point)
        if after is not None:
            return after
    return point


def _plant(b: Builder, point: Point) -> Point:
    for step in FAULTS[b.fault] if b.fault else ():
        after = step(b, point)
        if after is not None:
            b.is_planted = True
            return after
    return point


def _finish(b: Builder, point: Point) -> Point:
    """Close the regions, mostly by aggregates, or leave them open; and let every signal find a handler."""
    if point.owed and b.choose.boolean(50):
        point = _pay(b, point)
    while point.shape.regions:
        how = b.choose.weighted({steps.aggregate: 6, steps.close: 2, None: 2})
        if how is None:
            break
        point = how(b, point) or point
    return _pay(b, point) if point.owed else point


def _pay(b: Builder, point: Point) -> Point:
    return steps.stateful_map(b, point, 10) or point
