"""The items of a random graph: columns of every type, in tables that are cut into chunks.

How many items, which columns and what their values are like is chosen; the values themselves follow from one chosen
seed, or there would be more choices than Hypothesis can carry.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from tests.property.choose import Choose

from penstock.graph import types
from penstock.graph.source import from_plain

TYPES: dict[str, tuple[str, ...]] = {
    "i": ("pa.int64()", "pa.int32()", "pa.uint8()", "pa.int16()", "pa.uint32()", "pa.uint64()", "pa.int8()"),
    "f": ("pa.float64()", "pa.float32()"),
    "s": ("pa.string()", "pa.large_string()", "pa.string_view()"),
    "li": ("pa.list_(pa.int32())", "pa.list_(pa.int64())", "pa.large_list(pa.uint8())"),
    "lf": ("pa.list_(pa.float64())", "pa.list_(pa.float32())"),
    "fixed": ("pa.list_(pa.int32(), 3)", "pa.list_(pa.float64(), 2)", "pa.list_(pa.string(), 2)"),
    "ls": ("pa.list_(pa.string())", "pa.list_(pa.binary())"),
    "ll": ("pa.list_(pa.list_(pa.int64()))", "pa.list_(pa.list_(pa.float32()))", "pa.list_(pa.list_(pa.string()))"),
    "b": ("pa.bool_()",),
    "t": ('pa.timestamp("us")', 'pa.timestamp("s", tz="UTC")', "pa.date32()", 'pa.duration("ms")', 'pa.time32("s")'),
    "x": ("pa.binary()", "pa.large_binary()"),
    "lo": ("pa.list_(pa.bool_())", 'pa.list_(pa.timestamp("ms"))'),
    "p": (
        'pa.struct({"i": pa.int64(), "s": pa.string()})',
        'pa.struct({"f": pa.float64(), "l": pa.list_(pa.int32())})',
    ),
    "u": ("pa.uint64()", "pa.list_(pa.uint64())"),
    "q": (
        'pa.list_(pa.struct({"i": pa.int32(), "s": pa.string()}))',
        'pa.list_(pa.struct({"f": pa.float64(), "l": pa.list_(pa.int64())}))',
    ),
}
"""The types of columns by family; a column's name begins with the family's first letter."""

FLOATS = (0.0, 1.5, -0.0, -2.25, 0.1, float("nan"), float("inf"), float("-inf"), float("nan"), 1e30, 1e-40, 7.0)
STRINGS = ("", "a", "b", "ab", "abc", "Abba", "é", "日本", "a\0b", "abababababab")
BYTES = (b"", b"a", b"\x00", b"\xff\xfe", b"abc", b"aab")
SPIKES = {"i": 15, "f": float("nan"), "li": [], "s": "日本", "u": 2**63 + 1}
"""What brings a fault about: a divisor of zero, no key, an empty region, a text cut in a letter, a bit too many."""
HUGE = (2**62, -(2**62), 2**61 + 1, -5)
FAMILIES = {
    "i": 30,
    "f": 20,
    "s": 16,
    "li": 16,
    "lf": 10,
    "b": 10,
    "t": 12,
    "x": 8,
    "ls": 8,
    "ll": 8,
    "fixed": 10,
    "lo": 5,
    "p": 8,
    "q": 12,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column by the text of its type and its plain values."""

    name: str
    type_text: str
    values: tuple[Any, ...]

    @property
    def type(self) -> pa.DataType:
        return eval(self.type_text, {"pa": pa})

    @property
    def array(self) -> pa.Array:
        return plain_array(list(self.values), self.type)


def plain_array(values: list[Any], t: pa.DataType) -> pa.Array:
    """An Arrow array of plain values: times are integers in their unit."""
    if pt.is_string_view(t):
        return pa.array(values, pa.string()).cast(t)
    return from_plain(values, t)


@dataclass(frozen=True, slots=True)
class Items:
    """The columns of a source and how they are given: cut at `cuts`, dictionaries where `encoded` says."""

    columns: tuple[Column, ...]
    rows: int
    cuts: tuple[int, ...] = ()
    encoded: tuple[str, ...] = ()
    as_dicts: bool = False
    has_nulls: bool = False

    @property
    def table(self) -> pa.Table:
        arrays = {c.name: c.array.dictionary_encode() if c.name in self.encoded else c.array for c in self.columns}
        whole = pa.table(arrays)
        edges = (0, *self.cuts, self.rows)
        return pa.concat_tables([whole.slice(a, b - a) for a, b in pairwise(edges)])

    @property
    def dicts(self) -> list[dict[str, Any]]:
        return [{c.name: c.values[at] for c in self.columns} for at in range(self.rows)]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(c.name, c.type) for c in self.columns])

    def text(self) -> str:
        """The items as Python."""
        lines = ["table = pa.table({"]
        for c in self.columns:
            encoded = ".dictionary_encode()" if c.name in self.encoded else ""
            lines.append(f'    "{c.name}": plain_array({list(c.values)!r}, {c.type_text}){encoded},')
        lines.append("})")
        if self.cuts:
            edges = (0, *self.cuts, self.rows)
            slices = [f"table.slice({a}, {b - a})" for a, b in pairwise(edges)]
            lines.append(f"table = pa.concat_tables([{', '.join(slices)}])")
        return "\n".join(lines)


def choose_items(choose: Choose, *, nulls: bool = False, huge: bool = False, needed: tuple[str, ...] = ()) -> Items:
    """Some columns and rows, with a column of each family `needed`.

    With `nulls` some values are null; with `huge` the integers are near the end of 64 bits.
    """
    empties = choose.boolean(6)
    rows = 330 if empties else choose.weighted({5: 20, 3: 10, 2: 5, 1: 6, 0: 6, 9: 20, 17: 20, 40: 12})
    families = [choose.weighted(FAMILIES) for _ in range(choose.integer(1, 5))]
    if empties:
        families = ["li", *families[:2]]
    families = [*needed, *(["i"] if choose.boolean(60) else []), *families]
    rng = random.Random(choose.integer(0, 2**16))
    columns: list[Column] = []
    for family in families:
        prefix = "l" if family == "fixed" else family[0]
        name = f"{prefix}{sum(column.name[0] == prefix for column in columns)}"
        spike = SPIKES.get(family) if len(columns) < len(needed) else None
        columns.append(_column(choose, rng, family, name, rows, empties, nulls, huge, spike))
    cuts = tuple(sorted(choose.integer(0, rows) for _ in range(choose.weighted({0: 5, 1: 3, 3: 2}))))
    encoded = tuple(c.name for c in columns if c.type_text == "pa.string()" and choose.boolean(20))
    as_dicts = (
        not encoded and not any("view" in c.type_text for c in columns) and "u" not in needed and choose.boolean(12)
    )
    return Items(tuple(columns), rows, () if as_dicts else cuts, encoded, as_dicts, nulls)


def _column(
    choose: Choose,
    rng: random.Random,
    family: str,
    name: str,
    rows: int,
    empties: bool,
    nulls: bool,
    huge: bool,
    spike: Any,
) -> Column:
    text = choose.choice(TYPES["i"][:1] if huge and family == "i" else TYPES[family])
    t = eval(text, {"pa": pa})
    pool = [_value(rng, t, huge) for _ in range(choose.choice((3, 1, 2, 6, 20, 100)))]
    if spike is not None and not huge:
        pool = [[spike] if family == "u" and types.is_list(t) else spike, *pool[:4]]
    sticky = choose.choice((0.0, 0.6, 0.9))
    values: list[Any] = []
    for _ in range(rows):
        values.append(values[-1] if values and rng.random() < sticky else rng.choice(pool))
    if empties and types.is_list(t):
        values = [value if row in (7, 320) else [] for row, value in enumerate(values)]
    if nulls and choose.boolean(70):
        values = [_with_nulls(rng, value, t) for value in values]
    return Column(name, text, tuple(values))


def _value(rng: random.Random, t: pa.DataType, huge: bool) -> Any:
    if types.is_integer(t):
        return _integer(rng, t, huge)
    if types.is_float(t):
        return rng.choice(FLOATS) if rng.random() < 0.6 else round(rng.uniform(-50, 50), 3)
    if pt.is_boolean(t):
        return rng.random() < 0.5
    if types.is_time(t):
        return rng.choice((0, 59, 3600, 40_000, rng.randint(0, 86_399)))
    if pt.is_struct(t):
        return {field.name: _value(rng, field.type, False) for field in t}
    if types.is_array(t):
        return [_value(rng, t.value_type, False) for _ in range(t.list_size)]
    if types.is_list(t):
        return [_value(rng, t.value_type, False) for _ in range(rng.choice((0, 0, 1, 2, 3, 5)))]
    text = rng.choice(STRINGS) if rng.random() < 0.7 else f"k{rng.randint(0, 999)}"
    return rng.choice((*BYTES, text.encode())) if pt.is_binary(t) or pt.is_large_binary(t) else text


def _integer(rng: random.Random, t: pa.DataType, huge: bool) -> int:
    if huge:
        return rng.choice(HUGE)
    low = 0 if pt.is_unsigned_integer(t) else -20
    if rng.random() < 0.15:
        bits = min(t.bit_width, 40)
        return rng.choice((2 ** (bits - (low < 0)) - 1, 0 if low == 0 else -(2 ** (bits - 1))))
    return rng.randint(low, 20)


def _with_nulls(rng: random.Random, value: Any, t: pa.DataType) -> Any:
    if rng.random() < 0.15:
        return None
    if isinstance(value, dict):
        return {name: None if rng.random() < 0.2 else inner for name, inner in value.items()}
    if isinstance(value, list) and rng.random() < 0.3:
        return [None if rng.random() < 0.3 else element for element in value]
    return value
