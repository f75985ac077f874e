"""Faults for which every backend must raise the same error; at most one in a graph, so that it is clear which is first.

Each entry is a step that brings the fault, or none where the fault lies in the data or in the control alone.
"""

from __future__ import annotations

from tests.property import library as lib
from tests.property.builder import Builder, Point
from tests.property.hooks import _node
from tests.property.library import _function
from tests.property.steps import Step, _keywords, enumerate_, open_field, regions, stateful_map
from tests.property.windows import bad_time, key_regions

from penstock.graph import types

DIVIDE = _function("divide", "i", "i", "return 100 // ({a} % 5)")
CUBE = _function("cube", "i", "i", "return {a} * {a} * {a}")
INVERSE = _function("inverse", "f", "b", "return 1.0 / {a} > 0.5")
FAN = _function("fan", "i", "i", "for k in range({a} % 4):\n    yield {a} % 100 + k")
SLOW = _function("slow_divide", "i", "i", 'return 100 // len(format({a} % 4, "b").strip("0"))', to="int")
WRONG_SIZE = _function("wrong_size", "i", "l", "return np.arange({a} % 5)", declared="ps.array(int, 3)")
CHOP = _function("chop", "s", "s", "return {a}.encode()[:1]", declared="str")
PUSHING = _node("Pushing", "i", "i", """
n: int
def run(self, {a}):
    self.n += 1
    yield {a} % 7
def end(self):
    for k in range(self.n):
        yield k
""")  # fmt: skip


def raising(b: Builder, p: Point) -> Point | None:
    """A function that raises while it computes a field, or while it decides where a region of a key begins."""
    if b.choose.boolean(20) and (after := key_regions(b, p, (INVERSE, DIVIDE))):
        return after
    found = b.function(p, (DIVIDE, SLOW, CUBE, WRONG_SIZE, CHOP))
    if found is None:
        return None
    return b.add(p, f".map({_keywords({b.target(p, found[0].gives[0]): found[1]})})")


def raising_filter(b: Builder, p: Point) -> Point | None:
    found = b.function(p, (INVERSE, DIVIDE))
    return None if found is None else b.add(p, f".filter({found[1]})")


def too_many(b: Builder, p: Point) -> Point | None:
    found = b.function(p, (FAN,))
    if found is None:
        return None
    if b.choose.boolean(40) and not p.shape.is_keyed_here and (node := b.function(p, (PUSHING,))):
        return b.add(p, f".process({node[1]}, to={b.fresh('i', p.parents)!r}, at_most=2)")
    return b.add(p, f".flat_map({found[1]}, to={b.fresh('i', p.parents)!r}, at_most={b.choose.integer(1, 2)})")


def nan_key(b: Builder, p: Point) -> Point | None:
    names = lib.candidates("f", p.own, p.parents)
    return b.add(p, f".key_by({b.choose.choice(names)!r})") if names else None


def _opened(b: Builder, p: Point) -> Point:
    """Inside a region, if there is a way to open one."""
    return p if p.shape.regions else enumerate_(b, p) or regions(b, p) or p


def empty_region(b: Builder, p: Point) -> Point | None:
    p = _opened(b, p)
    names = [name for name, t in p.shape.scope.items() if types.is_scalar(t)]
    if not p.shape.regions or not names:
        return None
    kept = [*p.shape.regions[-1].parent.parents, *p.shape.regions[-1].fields]
    name = b.choose.choice(names)
    result = b.fresh(lib.prefix_of(p.shape.scope[name]), kept)
    return b.add(p, f".aggregate({result}=ps.{b.choose.choice(('min', 'max', 'first', 'last'))}({name!r}))")


def overflowing_sum(b: Builder, p: Point) -> Point | None:
    p = _opened(b, p)
    names = lib.candidates("i", p.own, p.parents)
    if not p.shape.regions or not names:
        return None
    kept = [*p.shape.regions[-1].parent.parents, *p.shape.regions[-1].fields]
    return b.add(p, f".aggregate({b.fresh('i', kept)}=ps.sum({b.choose.choice(names)!r}))")


def _is_all_lists(p: Point, group: str) -> bool:
    """Whether all fields of a struct can be opened together; elements of a list of structs may hold numbers too."""
    return all(types.element_of(t) is not None for name, t in p.own.items() if name.startswith(f"{group}."))


def unequal_lengths(b: Builder, p: Point) -> Point | None:
    """A list of structs of which one field is cut."""
    lists = [name for name in lib.candidates("li|lf", p.own, {}) if name.startswith("q") and "." in name]
    lists = [name for name in lists if _is_all_lists(p, name.split(".")[0])]
    if not lists:
        return None
    name = b.choose.choice(lists)
    cut = next(t for t in lib.LISTS if t.name == "tail_list")
    p = b.add(p, f".map({_keywords({name: lib.make(cut, [name])})})")
    return open_field(b, p, name.split(".")[0])


def handling(b: Builder, p: Point) -> Point | None:
    """A node for the signal that comes too late."""
    return stateful_map(b, p, percent=80)


NEEDS = {
    "function": ("i", "s"),
    "pushes": ("i",),
    "key": ("f",),
    "empty": ("li",),
    "sum": ("i", "li"),
    "lengths": ("q",),
    "time": ("f", "i"),
    "wide": ("u",),
}
"""The families of columns without which a fault has no place."""

SELDOM = ("function", "sum", "key", "empty", "time")
"""Faults that need luck to come about, and are tried more often for that."""

FAULTS: dict[str, tuple[Step, ...]] = {
    "function": (raising, raising_filter),
    "pushes": (too_many,),
    "key": (nan_key,),
    "empty": (empty_region,),
    "sum": (overflowing_sum,),
    "lengths": (unequal_lengths,),
    "time": (bad_time,),
    "null": (),
    "wide": (),
    "late": (handling,),
}
