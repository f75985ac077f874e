"""Random graphs in which streams part and meet again: any directed acyclic graph of a few nodes, with a meet at least.

A graph grows from a pool of points. A step makes a point of one of them; a meet makes one of several that have the same
indices, wherever in the pool they are, so that branches cross, join what was joined, or join one stream twice.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from tests.property import library as lib
from tests.property import steps
from tests.property.builder import Builder, Point
from tests.property.choose import Choose, Seeded
from tests.property.data import Items, _column
from tests.property.graphs import BATCHES, ROOMS, Case, _finish, source_table
from tests.property.library import SCOPE
from tests.property.settings import Setting, choose_setting
from tests.property.steps import Step
from tests.property.windows import Scope

import penstock as ps
from penstock.graph import nodes, types
from penstock.graph.nodes.joins import maker, stem
from penstock.graph.tree import Tree

MOST = 12
"""How many nodes a graph may have, roughly: a step may make several."""
MOST_LEAVES = 3
FAMILIES = {"i": 20, "li": 20, "s": 8, "b": 6, "f": 6, "t": 3, "q": 3}
ROWS = {5: 20, 3: 10, 9: 20, 17: 12, 0: 4, 1: 6, 30: 4}
ONCE = (
    lib._function("maybe", "i", "i", "if {a} % 3 != 0:\n    yield {a} % 100"),
    lib._function("maybe_bytes", "x", "i", "if len({a}) > 1:\n    yield {a}[0]"),
    lib._function("maybe_text", "s", "i", "if len({a}) > 1:\n    yield {a}.encode()[0]"),
)
"""What pushes one item or none, and so keeps the index."""
SPARES = {(0, 0): 8, (1, 0): 3, (3, 0): 3, (None, 0): 2, (0, 1): 2, (2, 2): 3, (4, 7): 2, (None, None): 3, (0, None): 2}
FILLS = {"i": "7", "f": "0.5", "b": "True", "t": "60"}


def from_joined_seed(seed: int) -> Case:
    return build_joined(Seeded(seed), seed)


def build_joined(choose: Choose, seed: int | None = None, make: Callable[..., Builder] = Builder) -> Case:
    """A case with a meet, from choices."""
    items = _items(choose)
    b = make(choose, rows=items.rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        source = b.start("ps.from_arrow(table, name='items')", table=source_table(items))
        b.leaves = [_finish(b, point) for point in _chosen_leaves(b, _grown(b, source))]
        control = tuple(b.control(items.rows))
    return Case(
        seed,
        items,
        tuple(b.lines),
        tuple(leaf.stream.node for leaf in b.leaves),
        tuple(leaf.name for leaf in b.leaves),
        tuple(eval(text, SCOPE) for text in control),
        control,
        tuple(choose.some(BATCHES, 2, 2)),
        choose.choice(ROOMS),
        choose.boolean(50),
        None,
        _setting(choose, items.rows, b.leaves),
        is_joined=True,
    )


def _setting(choose: Choose, rows: int, leaves: list[Point]) -> Setting:
    """Fused or not, often with room for a few items and for hardly any signals, or the other way round."""
    usual = choose_setting(choose, rows)
    spare, signals = choose.weighted(SPARES)
    fuse, heartbeat = choose.boolean(45), choose.choice((None, None, 0))
    if signals_wait(Tree(tuple(leaf.stream.node for leaf in leaves))):
        signals = None
    return replace(usual, fuse=fuse, heartbeat=heartbeat, spare=spare, spare_signals=signals)


def signals_wait(tree: Tree) -> bool:
    """Whether signals are emitted within a region that streams part in and leave before they meet.

    There are any number of them, and they wait until the region ends on all sides, so that a channel must hold them.
    """
    for meet, fork in tree.fork.items():
        around = {region.opener for region in fork.shape.regions} | {fork}
        around -= {region.opener for region in meet.shape.regions}
        emits = [node for node in tree.below(fork) if isinstance(node, nodes.Emit) and meet in tree.below(node)]
        if any(region.opener in around for node in emits for region in node.shape.regions):
            return True
    return False


def _items(choose: Choose) -> Items:
    """Few items of few columns, an integer among them."""
    rows = choose.weighted(ROWS)
    families = ["i", *(choose.weighted(FAMILIES) for _ in range(choose.integer(0, 3)))]
    rng = random.Random(choose.integer(0, 2**16))
    columns = []
    for family in families:
        name = f"{family[0]}{sum(column.name[0] == family[0] for column in columns)}"
        columns.append(_column(choose, rng, family, name, rows, False, False, False, None))
    return Items(tuple(columns), rows, tuple(sorted(choose.integer(0, rows) for _ in range(choose.integer(0, 2)))))


# The graph


def _grown(b: Builder, source: Point) -> list[Point]:
    """All points of a graph, in the order in which they were made; one at least lies where streams meet."""
    pool = [source]
    for _ in range(b.choose.integer(0, 2)):
        pool.append(steps_on(b, pool[-1], {**steps.STEPS, **KEEPING}))
    wanted = b.choose.integer(4, MOST)
    while len(b.made) < wanted:
        if len(pool) > 2 and b.choose.boolean(30):
            pool.append(_meet(b, pool))
        elif b.choose.boolean(15):
            pool += (split if b.choose.boolean(60) else closed_twice)(b, _one_of(b, pool))
        else:
            pool.append(steps_on(b, _one_of(b, pool), KEEPING if b.choose.boolean(90) else steps.STEPS))
    if not any(meets_above(point) for point in pool) or b.choose.boolean(40):
        pool.append(_meet(b, pool))
    return pool


def _one_of(b: Builder, pool: list[Point]) -> Point:
    """Mostly one of the last points."""
    return b.choose.choice(pool[-3:] if b.choose.boolean(60) else pool)


def steps_on(b: Builder, point: Point, among: dict[Step, int]) -> Point:
    for _ in range(8):
        after = b.choose.weighted(among)(b, point)
        if after is not None:
            return after
    return point


def _chosen_leaves(b: Builder, pool: list[Point]) -> list[Point]:
    """Some points that nothing follows, one of them behind a meet."""
    distinct = list({point.name: point for point in pool}.values())
    met = [point for point in distinct if meets_above(point)]
    used = {before for point in distinct for before in point.stream.node.inputs}
    last = [point for point in met if point.stream.node not in used] or met
    others = [point for point in distinct if point is not last[-1]]
    wanted = b.choose.weighted({0: 5, 1: 3, 2: 2})
    return [last[-1], *b.choose.some(others, wanted, wanted)][:MOST_LEAVES]


def meets_above(point: Point) -> list[nodes.Meet]:
    """All nodes at which streams meet that a point comes through."""
    found, waiting = set(), [point.stream.node]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.inputs
    return [node for node in found if isinstance(node, nodes.Meet)]


# Steps that keep the index


def slow(b: Builder, p: Point) -> Point | None:
    """A function that does not compile: a loop of its own."""
    found = b.function(p, lib.SLOW)
    return None if found is None else b.add(p, f".map({b.target(p, found[0].gives[0])}={found[1]})")


def key_by(b: Builder, p: Point) -> Point | None:
    names = lib.candidates("i|s|b|t", p.own, p.parents)
    if not names:
        return None
    p = b.add(p, f".key_by({b.choose.choice(names)!r})")
    return b.choose.choice((steps.map_state, steps.filter_state))(b, p) or p


def once(b: Builder, p: Point) -> Point | None:
    found = b.function(p, ONCE)
    if found is None:
        return None
    kept = b.choose.some(list(p.own), 0, 3)
    name = b.fresh("i", [*p.parents, *kept])
    return b.add(p, f".flat_map({found[1]}, to={name!r}, at_most=1, keep={kept!r})")


def opened(b: Builder, p: Point) -> Point | None:
    """A list that is opened and closed again, mostly by an aggregate, with something inside; often a signal."""
    inside = steps.enumerate_(b, p) or steps.computed(b, p)
    if inside is None:
        return None
    for _ in range(b.choose.integer(0, 2)):
        inside = steps_on(b, inside, INSIDE)
    return steps.aggregate(b, inside)


def between(b: Builder, p: Point) -> Point | None:
    """Regions that are found and closed again, which keeps the items."""
    inside = steps.regions(b, p)
    return None if inside is None else steps.close(b, steps_on(b, inside, INSIDE))


def closed_twice(b: Builder, p: Point) -> list[Point]:
    """Regions that are found, or lists, of which two streams are made that end them."""
    inside = steps.regions(b, p) or steps.enumerate_(b, p)
    if inside is None:
        return []
    found = [steps.aggregate(b, steps_on(b, inside, INSIDE)) for _ in range(2)]
    return [point for point in found if point is not None]


INSIDE: dict[Step, int] = {steps.filter_: 6, steps.map_: 4, steps.emit: 8, steps.map_state: 4, steps.map_columns: 2}
KEEPING: dict[Step, int] = {
    steps.map_: 12, steps.filter_: 18, steps.map_state: 7, steps.filter_state: 6, steps.emit: 12, key_by: 5,
    steps.map_columns: 5, steps.select: 3, steps.map_tuple: 2, slow: 5, once: 3, opened: 9, between: 3,
    steps.enumerate_: 6, steps.regions: 7, steps.aggregate: 12, steps.close: 3,
}  # fmt: skip
"""The steps of branches, with how often each is tried. Those that open or close a region change what may meet."""


def split(b: Builder, p: Point) -> list[Point]:
    """Several streams of one, by conditions of their own or by one function."""
    if b.choose.boolean(50):
        found = [b.function(p, lib.PREDICATES) for _ in range(b.choose.integer(2, 3))]
        conditions = [text for _, text in filter(None, found)]
        return b.parts(p, f".split({', '.join(conditions)})", len(conditions)) if conditions else []
    route = b.function(p, ROUTES)
    return [] if route is None else b.parts(p, f".split({route[1]}, outputs=2)", 2)


ROUTES = (
    lib._function("route", "i", "b b", "return {a} % 2 == 0, {a} % 3 != 0"),
    lib._function("route_text", lib.TEXT, "b b", "return len({a}) > 1, len({a}) < 3"),
)


# Meets


def _meet(b: Builder, pool: list[Point]) -> Point:
    """Points that have the same indices, brought together."""
    groups: dict[object, dict[str, Point]] = {}
    for point in pool:
        node = point.stream.node
        groups.setdefault((stem(node), *(region.opener for region in node.shape.regions)), {})[point.name] = point
    wide = [list(group.values()) for group in groups.values() if len(group) > 1]
    points = b.choose.choice(wide) if wide else list(next(iter(groups.values())).values())
    if b.choose.boolean(70):
        points = points[-4:]
    sides = b.choose.some(points, 2, 3)
    if len(sides) < 2 or b.choose.boolean(8):
        sides.append(b.choose.choice(sides))
    return b.choose.weighted(MEETS)(b, sides) or inner(b, sides)


def inner(b: Builder, sides: list[Point]) -> Point:
    sides = [_with_fields(b, side, fields) for side, fields in zip(sides, _apart(b, sides, False), strict=True)]
    return b.meet(sides, f"ps.align({_names(sides)})")


def outer(b: Builder, sides: list[Point]) -> Point | None:
    fields = _apart(b, sides, True)
    if not all(fields):
        return None
    sides = [_with_fields(b, side, kept) for side, kept in zip(sides, fields, strict=True)]
    fill = _fill(sides)
    taken = {name for side in sides for name in side.shape.scope}
    given = f", how='outer', fill={{{', '.join(f'{name!r}: {value}' for name, value in fill.items())}}}"
    if b.choose.boolean(60):
        names: list[str] = []
        for _ in sides:
            names.append(b.fresh("b", [*taken, *names]))
        given += f", present={tuple(names)!r}"
    return b.meet(sides, f"ps.align({_names(sides)}{given})")


def by_case(b: Builder, sides: list[Point]) -> Point | None:
    """A function for some sets of sides."""
    fields = _apart(b, sides, True)
    if not all(fields):
        return None
    sides = [_with_fields(b, side, kept) for side, kept in zip(sides, fields, strict=True)]
    whole = [template for template in lib.VALUES if template.gives == ("i",) and not template.declared]
    cases = {}
    for _ in range(b.choose.integer(1, 3)):
        case = tuple(sorted(b.choose.some(range(len(sides)), 1, 3)))
        own = {name: t for at in case for name, t in sides[at].own.items()}
        found = b.function(Scope(own, sides[0].parents), whole)  # type: ignore[arg-type]
        if found is not None:
            cases[case] = f"ps.returns(int, {found[1]})"
    if not cases:
        return None
    name = b.fresh("i", [name for side in sides for name in side.shape.scope])
    text = ", ".join(f"{case}: {function}" for case, function in cases.items())
    return b.meet(sides, f"ps.align({_names(sides)}, how={{{text}}}, to={name!r})")


def merge(b: Builder, sides: list[Point]) -> Point | None:
    """Of all sides the fields that all have, of one type."""
    first, *others = (dict(side.own) for side in sides)
    same = [name for name, t in first.items() if all(other.get(name) == t for other in others)]
    if not same:
        return None
    sides = [_with_fields(b, side, {name: name for name in same}) for side in sides]
    return b.meet(sides, f"ps.merge({_names(sides)})")


MEETS = {inner: 4, outer: 5, by_case: 2, merge: 4}


def _names(sides: list[Point]) -> str:
    return ", ".join(side.name for side in sides)


def _apart(b: Builder, sides: list[Point], is_outer: bool) -> list[dict[str, str]]:
    """For each side its fields by what they are to be called, so that two sides have one only where it is the same."""
    made: dict[str, object] = {}
    taken = {name for side in sides for name in side.shape.scope}
    found = []
    for side in sides:
        kept = {}
        for old in side.own:
            name, here = old, maker(side.stream.node, old)
            if made.get(name, here) != here:
                if "." in name or b.choose.boolean(25):
                    continue
                name = b.fresh(old[0], [*taken, *made])
            if is_outer and not types.is_scalar(side.own[old]) and not _is_shared(old, sides):
                continue
            made[name] = here
            kept[name] = old
        found.append(kept or _renamed(b, side, {*taken, *made}, is_outer))
        made |= {name: maker(side.stream.node, old) for name, old in found[-1].items()}
    return found


def _renamed(b: Builder, side: Point, taken: set[str], is_outer: bool) -> dict[str, str]:
    """One field of a side under a new name."""
    fitting = [name for name, t in side.own.items() if types.is_scalar(t) or not is_outer]
    return {b.fresh(fitting[0][0], taken): fitting[0]} if fitting else {}


def _is_shared(name: str, sides: list[Point]) -> bool:
    return all(name in side.own for side in sides) and len({maker(side.stream.node, name) for side in sides}) == 1


def _with_fields(b: Builder, side: Point, fields: dict[str, str]) -> Point:
    if fields == {name: name for name in side.own}:
        return side
    same = [repr(name) for name, old in fields.items() if name == old]
    changed = [f"{name}={old!r}" for name, old in fields.items() if name != old]
    return b.add(side, f".select({', '.join([*same, *changed])})")


def _fill(sides: list[Point]) -> dict[str, str]:
    """A value for every field that not all sides have."""
    fields: dict[str, pa.DataType] = {name: t for side in sides for name, t in side.own.items()}
    return {
        name: FILLS[lib.kind_of(t)]
        for name, t in fields.items()
        if not all(name in side.own for side in sides) and types.is_scalar(t)
    }
