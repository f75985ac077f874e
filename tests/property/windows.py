"""The steps of random graphs that end their keys: aggregates by key, windows, regions, and `flat_map` with an end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from tests.property import library as lib
from tests.property.builder import Builder, Point
from tests.property.hooks import FOLDS, _fold

from penstock.graph import types

NOTES = (
    lib._function("note", "i", "", "state.n += 1\nstate.sum = (state.sum * 31 + {a} % 97) % 1000003", state="Tally"),
    lib._function("count_up", "", "", "state.n += 1", state="Tally"),
    lib._function("turned", "i", "", lib.TURN, state="Window"),
)
"""What changes a state and pushes nothing."""

ENDS = (
    lib._function("tell", "", "i", "yield state.n * 1000 + state.sum % 1000", state="Tally"),
    lib._function("tell_odd", "", "i", "if state.n % 2 == 1:\n    yield state.n\n    yield -state.n", state="Tally"),
    lib._function("tell_key", "i|t", "i", "yield {a} % 1000 + state.n\nstate.n = 0", state="Tally"),
    lib._function("tell_text", lib.TEXT, "i", "yield len({a}) * 100 + state.n", state="Tally"),
    lib._function("tell_slowly", "", "i", 'yield len(format(state.n, "b"))', state="Tally", to="Iterator[int]"),
    lib._function("unwind", "", "i", "for k in range(state.at):\n    yield state.ring[k]", state="Window"),
    lib._function("unwind_key", "i", "i", "for k in range(2):\n    yield state.ring[k] + {a} % 10", state="Window"),
)  # fmt: skip

TAME = lib._function("tame", "f", "b", "return -1e6 < {a} < 1e6")
HEADED = _fold("Headed", "i i", "i", """
sum: int
def begin(self, {a}):
    self.sum = {a} % 100
def run(self, {b}):
    self.sum = (self.sum * 7 + {b} % 97) % 1000003
def end(self, {a}):
    return self.sum * 10 + {a} % 10
""")  # fmt: skip
"""What begins with a field that is kept of a region's first item."""
LENGTHS = {"i": (3, 1, 10, 1000), "t": (60, 1, 3600, 50_000), "f": (1.5, 0.1, 10.0, 7.0)}


@dataclass(frozen=True, slots=True)
class Scope:
    """The fields that a function may name: of the item, and those that it shares with its key."""

    own: Mapping[str, pa.DataType]
    parents: Mapping[str, pa.DataType]


def aggregate_keys(b: Builder, p: Point) -> Point | None:
    """One item for each key."""
    return _aggregated(b, p, "", {}, 0.3) if _is_keyed(p) else None


def window(b: Builder, p: Point) -> Point | None:
    """One item for each window, of items or of time."""
    keyed = None if p.shape.regions or b.is_full(p) else _keyed(b, p)
    if keyed is None:
        return None
    if b.choose.boolean(30):
        return _count_window(b, keyed)
    return _time_window(b, keyed) or _count_window(b, keyed)


def _keyed(b: Builder, p: Point) -> Point | None:
    """Behind a key, if there is one or can be one."""
    names = lib.candidates("i|s|b|t|x", p.own, {})
    if p.shape.key is not None:
        return p
    return b.add(p, f".key_by({b.choose.choice(names)!r})") if names else None


def _is_keyed(p: Point) -> bool:
    return p.shape.key is not None and not p.shape.regions


def _count_window(b: Builder, p: Point) -> Point | None:
    count, every = b.choose.integer(1, 5), b.choose.choice((None, 1, 2, 3, 7))
    given = f"count={count}" + ("" if every is None else f", every={every}")
    given += ", partial=False" if b.choose.boolean(25) else ""
    return _windowed(b, p, given, "i", 1.0 if every is None else count / every)


def _time_window(b: Builder, p: Point, on_late: str = "drop") -> Point | None:
    by_kind: dict[str, list[str]] = {}
    for field, t in p.own.items():
        if lib.kind_of(t) in "ift" and not pt.is_time(t):
            by_kind.setdefault(lib.kind_of(t), []).append(field)
    if not by_kind:
        return None
    kind = b.choose.choice(list(by_kind))
    name = b.choose.choice(by_kind[kind])
    if kind == "f" and on_late == "drop":
        p = b.add(p, f".filter({lib.make(TAME, [name])})")
    length = b.choose.choice(LENGTHS[kind])
    every = b.choose.choice((None, length * 2, length / 3 if kind == "f" else max(1, length // 3), length))
    late = b.choose.choice((0, 0, length, 1, None)) if on_late == "drop" else 0
    given = f"{name!r}, length={length}" + ("" if every is None else f", every={every}")
    given += "" if late is None else f", late={late}"
    given += "" if on_late == "drop" else f", on_late={on_late!r}"
    bounds = lib.prefix_of(p.own[name])
    return _windowed(b, p, given, bounds, 1.0 if every is None else max(1.0, length / every))


def _windowed(b: Builder, p: Point, given: str, prefix: str, growth: float) -> Point:
    bounds: dict[str, str] = {}
    for bound in ("start", "end"):
        if b.choose.boolean(15):
            given += f", {bound}=None"
        else:
            name = b.fresh(prefix, [*p.shape.key_fields, *bounds])
            bounds[name] = ""
            given += f", {bound}={name!r}"
    return _aggregated(b, p, f".window({given})", bounds, growth)


def key_regions(b: Builder, p: Point, predicates: Sequence[lib.Template] = lib.PREDICATES) -> Point | None:
    """One item for each region that is found in the items of a key."""
    keyed = None if p.shape.regions or b.is_full(p) else _keyed(b, p)
    if keyed is None:
        return None
    p, key = keyed, keyed.shape.key_fields
    scalars = [name for name, t in p.own.items() if types.is_scalar(t)]
    fields = [name for name in scalars if name not in key]
    by = b.choose.some(fields, 1, 2) if fields and predicates is lib.PREDICATES and b.choose.boolean(50) else []
    start = None if by else b.function(p, predicates)
    if not by and start is None:
        return None
    kept: dict[str, str] = {}
    for old in b.choose.some(scalars, 0, 2):
        is_renamed = old in (*key, *by) or b.choose.boolean(50)
        name = b.fresh(lib.prefix_of(p.own[old]), [*key, *by, *kept]) if is_renamed else old
        kept.setdefault(name, old)
    is_same = all(name == old for name, old in kept.items())
    given = f"by={by!r}" if start is None else f"start={start[1]}"
    given += f", keep={list(kept) if is_same else kept!r}" if kept else ""
    return _aggregated(b, p, f".regions({given})", dict(zip(by, by, strict=True)) | kept, 0.7)


def _aggregated(b: Builder, p: Point, window: str, taken: Mapping[str, str], growth: float) -> Point:
    """The aggregate behind a window or a region. In `taken` are names of the row, with the fields that they hold."""
    kept, keep = list(p.shape.key_fields), ""
    if b.choose.boolean(20):
        among = [*kept, *(name for name, old in taken.items() if old)]
        kept = b.choose.some(among, 0, len(among))
        keep = f", keep={kept!r}"
    results: dict[str, str] = {}
    for _ in range(b.choose.integer(1, 3)):
        prefix, text = _headed(b, p, taken) or _result(b, p, taken)
        results[b.fresh(prefix, [*kept, *taken, *results])] = text
    given = ", ".join(f"{name}={value}" for name, value in results.items())
    return b.add(p, f"{window}.aggregate({given}{keep})", growth)


def _headed(b: Builder, p: Point, taken: Mapping[str, str]) -> tuple[str, str] | None:
    """A fold that begins with a field of the region's first item, where there is one that it can name."""
    heads = [name for name, old in taken.items() if old and lib.kind_of(p.own[old]) == "i"]
    if not heads or not b.choose.boolean(30):
        return None
    return "i", lib.make(HEADED, [b.choose.choice(heads), b.choose.choice(lib.candidates("i", p.own, {}))])


def _result(b: Builder, p: Point, taken: Mapping[str, str]) -> tuple[str, str]:
    shared = {name: t for name, t in p.shape.key_fields.items() if p.own.get(name) == t}
    shared |= {name: p.own[name] for name, old in taken.items() if name == old}
    if b.choose.boolean(35) and (fold := b.function(Scope(p.own, shared), FOLDS)):  # type: ignore[arg-type]
        return fold[0].gives[0], fold[1]
    numbers = lib.candidates("i|f|b" if b.may_sum else "f", p.own, {})
    scalars = [name for name, t in p.own.items() if types.is_scalar(t)]
    options = {"min": 2, "max": 2, "first": 3, "last": 3} if scalars else {}
    options |= {"sum": 5, "mean": 2, "variance": 2} if numbers else {}
    kind = b.choose.weighted({"count": 2, **options})
    if kind == "count":
        return "i", "ps.count()"
    if kind in ("sum", "mean", "variance"):
        name = b.choose.choice(numbers)
        whole = kind == "sum" and not types.is_float(p.own[name])
        return "i" if whole else "f", f"ps.{kind}({name!r})"
    name = b.choose.choice(scalars)
    return lib.prefix_of(p.own[name]), f"ps.{kind}({name!r})"


def flat_map_end(b: Builder, p: Point) -> Point | None:
    """A `flat_map` that says something when the stream ends, by key or without."""
    if p.shape.regions or b.is_full(p) or (p.shape.key is None and b.choose.boolean(75)):
        return None
    p = b.clear(p)
    state = b.choose.choice(("Tally", "Window"))
    among = NOTES if b.choose.boolean(50) else lib.STATEFUL_PUSHES
    function = b.function(p, among, state) or b.function(p, NOTES, "Tally")
    if function is None:
        return None
    state, key = function[0].state, p.shape.key_fields
    end = b.function(Scope(key, {}), ENDS, state) or b.function(Scope({}, {}), ENDS, state)  # type: ignore[arg-type]
    if end is None:
        return None
    kept = b.choose.some(list(key), 0, len(key))
    to = b.fresh("i", kept)
    text, pays = b.handlers(state, p.owed, 25)
    call = f".flat_map({function[1]}, to={to!r}, at_most={b.choose.integer(3, 4)}, keep={kept!r}, state={state}"
    return b.add(p, f"{call}, end={end[1]}){text}", 1.2, pays=pays)


# Faults


def bad_time(b: Builder, p: Point) -> Point | None:
    """A time that is no number, or an item that comes too late."""
    keyed = None if p.shape.regions else _keyed(b, p)
    return None if keyed is None else _time_window(b, keyed, on_late="error")


STEPS: dict[Callable[[Builder, Point], Point | None], int] = {
    aggregate_keys: 6,
    window: 12,
    key_regions: 6,
    flat_map_end: 6,
}
