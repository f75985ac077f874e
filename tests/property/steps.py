"""The steps that a random graph may take: one function for each operator.

A step gives the point after it, or None where it has no place: no field that its functions could name, no open region,
items spread over keys, or more items than a test should make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt
from tests.property import library as lib
from tests.property import windows
from tests.property.builder import Builder, Point
from tests.property.hooks import FOLDS, NODES
from tests.property.records import EMITTABLE

from penstock.graph import types

Step = Callable[[Builder, Point], Point | None]
KEYS = "i|s|f|b|t|x"


def map_(b: Builder, p: Point) -> Point | None:
    """One function or several, each for a field of its own."""
    among = lib.SLOW if b.choose.boolean(10) else lib.LISTS if b.choose.boolean(15) else lib.VALUES
    outputs: dict[str, str] = {}
    for _ in range(b.choose.integer(1, 3)):
        found = b.function(p, among)
        if found is not None:
            outputs[b.target(p, found[0].gives[0], outputs)] = found[1]
    return b.add(p, f".map({_keywords(outputs)})") if outputs else None


def _keywords(outputs: dict[str, str]) -> str:
    """Keyword arguments; a dotted name is no identifier, so it goes by a dict."""
    if all(name.isidentifier() for name in outputs):
        return ", ".join(f"{name}={value}" for name, value in outputs.items())
    return "**{" + ", ".join(f'"{name}": {value}' for name, value in outputs.items()) + "}"


def map_tuple(b: Builder, p: Point) -> Point | None:
    found = b.function(p, lib.TUPLES)
    if found is None:
        return None
    names: list[str] = []
    for prefix in found[0].gives:
        names.append(b.target(p, prefix, names))
    return b.add(p, f".map({found[1]}, to={tuple(names)!r})")


def map_state(b: Builder, p: Point) -> Point | None:
    """A map with a state; it pays what is owed."""
    return stateful_map(b, p, percent=25)


def stateful_map(b: Builder, p: Point, percent: int) -> Point | None:
    p = b.clear(p)
    state = b.choose.choice(("Tally", "Window"))
    found = [b.function(p, (*lib.STATEFUL, *lib.LISTS), state) for _ in range(b.choose.integer(1, 2))]
    if not any(found) and state == "Window":
        state, found = "Tally", [b.function(p, lib.STATEFUL, "Tally")]
    outputs: dict[str, str] = {}
    for template, function in filter(None, found):
        outputs[b.target(p, template.gives[0], outputs)] = function
    if b.choose.boolean(25) and (plain := b.function(p, lib.VALUES)):
        outputs[b.target(p, plain[0].gives[0], outputs)] = plain[1]
    text, pays = b.handlers(state, p.owed, percent)
    return b.add(p, f".map({_keywords(outputs)}, state={state}){text}", pays=pays) if outputs else None


def filter_(b: Builder, p: Point) -> Point | None:
    found = b.function(p, lib.PREDICATES)
    return None if found is None else b.add(p, f".filter({found[1]})", 0.6)


def filter_state(b: Builder, p: Point) -> Point | None:
    p = b.clear(p)
    found = b.function(p, lib.STATEFUL_PREDICATES, b.choose.choice(("Tally", "Window")))
    if found is None:
        return None
    text, pays = b.handlers(found[0].state, p.owed, 25)
    return b.add(p, f".filter({found[1]}, state={found[0].state}){text}", 0.7, pays=pays)


def flat_map(b: Builder, p: Point) -> Point | None:
    found = b.function(p, lib.PUSHES)
    return None if found is None or b.is_full(p) else _flat_map(b, p, *found, "")


def flat_map_state(b: Builder, p: Point) -> Point | None:
    p = b.clear(p)
    found = b.function(p, lib.STATEFUL_PUSHES, b.choose.choice(("Tally", "Window")))
    if found is None or b.is_full(p):
        return None
    text, pays = b.handlers(found[0].state, p.owed, 25)
    return _flat_map(b, p, *found, f", state={found[0].state}", text, pays)


def _flat_map(
    b: Builder,
    p: Point,
    template: lib.Template,
    function: str,
    state: str,
    handlers: str = "",
    pays: Sequence[str] = (),
) -> Point:
    kept = b.choose.some(list(p.own), 0, 2)
    names: list[str] = []
    for prefix in template.gives:
        names.append(b.fresh(prefix, [*p.parents, *kept, *names]))
    to = repr(names[0]) if len(names) == 1 else repr(tuple(names))
    most = b.choose.integer(3, 5)
    return b.add(p, f".flat_map({function}, to={to}, at_most={most}, keep={kept!r}{state}){handlers}", 1.5, pays=pays)


def process(b: Builder, p: Point) -> Point | None:
    found = b.function(p, NODES)
    if found is None or p.shape.is_keyed_here or b.is_full(p):
        return None
    names: list[str] = []
    for prefix in found[0].gives:
        names.append(b.fresh(prefix, [*p.parents, *names]))
    to = repr(names[0]) if len(names) == 1 else repr(tuple(names))
    return b.add(p, f".process({found[1]}, to={to}, at_most={b.choose.integer(2, 3)})", 1.5)


def enumerate_(b: Builder, p: Point) -> Point | None:
    """Open a list, a fixed-size array, a text, or a list of structs under the name that its fields share."""
    if b.is_full(p):
        return None
    open_ = {name: t for name, t in p.own.items() if types.element_of(t) is not None}
    groups = {name.split(".")[0] for name, t in open_.items() if name.startswith("q") and "." in name}
    whole = sorted(g for g in groups if all(n in open_ for n in p.own if n.startswith(f"{g}.")))
    lists = [name for name, t in open_.items() if not types.is_text(t)]
    names = [*lists, *lists, *whole, *whole, *open_]
    return open_field(b, p, b.choose.choice(names)) if names else None


def open_field(b: Builder, p: Point, name: str) -> Point:
    prefix = "q" if name not in p.own else lib.prefix_of(types.element_of(p.own[name]))
    taken = [part for field in p.shape.scope for part in (field, field.split(".")[0])]
    as_ = b.fresh(prefix, taken)
    index = f", index={b.fresh('i', [*taken, as_])!r}" if b.choose.boolean(40) else ""
    return b.add(p, f".enumerate({name!r}, as_={as_!r}{index})", 2.0)


def computed(b: Builder, p: Point) -> Point | None:
    """A list that is computed, and opened at once."""
    found = b.function(p, lib.LISTS)
    if found is None or b.is_full(p):
        return None
    name = b.target(p, "l")
    p = b.add(p, f".map({_keywords({name: found[1]})})")
    if b.choose.boolean(30):
        p = filter_(b, p) or p
    return open_field(b, p, name)


def regions(b: Builder, p: Point) -> Point | None:
    if p.shape.is_keyed_here or p.shape.is_unkeyed_here:
        return None
    keys = lib.candidates(KEYS, p.own, {})
    by = b.choose.some(keys, 1, min(2, len(p.own) - 1)) if len(p.own) > 1 and b.choose.boolean(50) else []
    kept = {b.fresh(lib.prefix_of(p.own[name]), p.shape.scope): name for name in b.choose.some(_flat(p.own), 0, 2)[:1]}
    keep = f", keep={kept!r}" if kept and b.choose.boolean(50) else ""
    if by:
        return b.add(p, f".regions(by={by!r}{keep})")
    found = b.function(p, lib.PREDICATES)
    return None if found is None else b.add(p, f".regions(start={found[1]}{keep})")


def aggregate(b: Builder, p: Point) -> Point | None:
    if not p.shape.regions:
        return None
    region = p.shape.regions[-1]
    kept = [name for name in region.fields if name not in region.opened]
    keep = ""
    if b.choose.boolean(35):
        kept = b.choose.some(list(region.fields), 0, 3)
        keep = f", keep={kept!r}"
    outer = region.parent.parents
    results: dict[str, str] = {}
    for _ in range(b.choose.integer(1, 3)):
        prefix, text = _result(b, p)
        results[b.fresh(prefix, [*outer, *kept, *results])] = text
    return b.add(p, f".aggregate({_keywords(results)}{keep})", 0.5)


def _result(b: Builder, p: Point) -> tuple[str, str]:
    """An aggregate, and the prefix of its result's name."""
    if b.choose.boolean(30) and (fold := b.function(p, FOLDS)):
        return fold[0].gives[0], fold[1]
    numbers = lib.candidates("i|f|b" if b.may_sum else "f", p.own, p.parents)
    flat = _flat(p.shape.scope)
    name = b.choose.choice(flat) if flat else ""
    t = p.shape.scope.get(name)
    options = {"to_list": 3} if flat else {}
    options |= {"first": 3, "last": 3} if t is not None and default_of(t) is not None else {}
    options |= {"min": 2, "max": 2} if t is not None and types.is_scalar(t) else {}
    options |= {"sum": 5, "mean": 2, "variance": 2} if numbers else {}
    kind = b.choose.weighted({"count": 2, **options})
    if kind == "count":
        return "i", "ps.count()"
    if kind in ("sum", "mean", "variance"):
        name = b.choose.choice(numbers)
        ddof = ", ddof=1" if kind == "variance" and b.choose.boolean(50) else ""
        whole = kind == "sum" and not types.is_float(p.shape.scope[name])
        return "i" if whole else "f", f"ps.{kind}({name!r}{ddof})"
    if kind == "to_list":
        return "l", f"ps.to_list({name!r})"
    return lib.prefix_of(t), f"ps.{kind}({name!r}, default={default_of(t)})"


def _flat(fields: Mapping[str, pa.DataType]) -> list[str]:
    """The fields that a loop can hold on to: all but lists of lists and lists of texts."""
    return [name for name, t in fields.items() if types.is_flat(t)]


def default_of(t: pa.DataType) -> str | None:
    """What an empty region gives, as text; None for types that have no simple value."""
    if pt.is_boolean(t):
        return "True"
    if types.is_list(t):
        return "[3, 4]" if lib.kind_of(t) == "li" else "[]"
    if types.is_array(t):
        element = default_of(t.value_type)
        return None if element is None else f"[{element}] * {t.list_size}"
    return {"i": "7", "f": "0.1", "t": "60", "s": "'none'", "x": "b'\\xff'"}.get(lib.kind_of(t))


def close(b: Builder, p: Point) -> Point | None:
    if not p.shape.regions:
        return None
    region = p.shape.regions[-1]
    kept = b.choose.some(list(region.fields), 0, 3)
    if region.opened and b.choose.boolean(30):  # the list that was opened stays, and may be opened again
        kept = list(dict.fromkeys([*kept, *region.opened]))
    return b.add(p, f".close({', '.join(map(repr, kept))})")


def key_by(b: Builder, p: Point) -> Point | None:
    """Spread over keys; a NaN is no key, so floats lose theirs first. Mostly a state follows."""
    by_kind = [found for kind in KEYS.split("|") if (found := lib.candidates(kind, p.own, p.parents))]
    if not by_kind:
        return None
    names = [b.choose.choice(found) for found in b.choose.some(by_kind, 1, 2)]
    for name in names:
        if types.is_float(p.shape.scope[name]):
            p = b.add(p, f".filter({lib.make(_NUMBER, [name])})")
    p = b.add(p, f".key_by({', '.join(map(repr, names))})")
    if b.choose.boolean(25):
        return p
    if not p.shape.regions and b.choose.boolean(45):
        return b.choose.weighted(windows.STEPS)(b, p) or p
    return b.choose.choice((map_state, filter_state, flat_map_state))(b, p) or p


_NUMBER = next(t for t in lib.VALUES if t.name == "number")


def emit(b: Builder, p: Point) -> Point | None:
    signal = b.choose.choice(EMITTABLE)
    when = b.function(p, lib.PREDICATES)
    values = {name: b.function(p, [t for t in lib.VALUES if t.gives == (prefix,)]) for name, prefix in signal.values}
    if when is None or None in values.values():
        return None
    given = "".join(f", {name}={found[1]}" for name, found in values.items() if found is not None)
    return b.add(p, f".emit({signal.signal}, when={when[1]}{given})", owes=(signal.signal,))


def map_columns(b: Builder, p: Point) -> Point | None:
    found = [b.function(p, [t]) for t in b.choose.some(lib.COLUMNS, 1, len(lib.COLUMNS))]
    for template, text in filter(None, found):
        function = text.removeprefix(f"ps.returns({template.declared}, ").removesuffix(")")
        name = b.target(p, template.gives[0])
        return b.add(p, f".map_columns({function}, to={{{name!r}: {template.declared}}})")
    return None


def select(b: Builder, p: Point) -> Point | None:
    kept = b.choose.some(list(p.own), 1, 4)
    renamed = [name for name in kept if "." not in name and b.choose.boolean(30)]
    fresh: dict[str, str] = {}
    for name in renamed:
        fresh[b.fresh(name[0], [*p.shape.scope, *fresh])] = name
    same = [repr(name) for name in kept if name not in renamed]
    return b.add(p, f".select({', '.join([*same, *(f'{new}={old!r}' for new, old in fresh.items())])})")


STEPS: dict[Step, int] = {
    map_: 14, filter_: 8, enumerate_: 16, aggregate: 12, map_state: 9, key_by: 8, regions: 14, emit: 8, close: 5,
    flat_map: 6, process: 8, map_tuple: 4, filter_state: 5, flat_map_state: 4, computed: 6, map_columns: 6, select: 4,
    **windows.STEPS,
}  # fmt: skip
"""Every step with how often it is tried."""
