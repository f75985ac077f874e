"""The functions of the random graphs: a small library of templates, filled with the names of fields.

A function names its fields by its parameters, so one template gives a function for each choice of fields; each is made
once in a process, and compiled once, because graphs choose their fields' names from few. A slot says which kinds of
field fit: `i|t` an integer or a time, `^i` an integer of a parent. Integers are cut by a modulo before any arithmetic,
so nothing overflows whatever the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.property import records
from tests.property.choose import Choose

import penstock as ps
from penstock.graph import types

SCOPE: dict[str, Any] = {
    "__name__": __name__,
    "Iterator": Iterator,
    "np": np,
    "pa": pa,
    "pc": pc,
    "ps": ps,
    **{name: value for name, value in vars(records).items() if not name.startswith("_") and callable(value)},
}
"""All names that the text of a graph may use; the functions that were made are here too."""

SOURCES: dict[str, str] = {}
"""The text of each function and class that was made, by name."""


def kind_of(t: pa.DataType) -> str:
    """i, f, b, t: numbers, booleans, times. s, x: strings, bytes. l and one of these: a list of them. z: others."""
    if types.is_integer(t):
        return "i"
    if types.is_float(t):
        return "f"
    if types.is_time(t):
        return "t"
    if types.is_text(t):
        return "s" if types.is_string(t) else "x"
    if types.is_list(t) or types.is_array(t):
        inner = kind_of(t.value_type)
        return f"l{inner}" if inner in "ifbt" else "zs" if inner == "s" else "z"
    return "b"


def prefix_of(t: pa.DataType) -> str:
    """With what the name of a field of this type begins."""
    return kind_of(t)[0].replace("z", "l")


@dataclass(frozen=True, slots=True)
class Template:
    """The text of a function or class. `gives` are the prefixes of its results' names."""

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    text: str
    state: str = ""
    declared: str = ""
    is_slow: bool = False
    """Whether it does not compile, and so runs interpreted."""

    def fits(self, own: Mapping[str, pa.DataType], parents: Mapping[str, pa.DataType]) -> bool:
        return all(candidates(slot, own, parents) for slot in self.takes) and len(own) + len(parents) >= len(self.takes)

    def fill(self, choose: Choose, own: Mapping[str, pa.DataType], parents: Mapping[str, pa.DataType]) -> str | None:
        """The name of the function for some choice of fields, or None where the same field would fill two slots."""
        chosen: list[str] = []
        for slot in self.takes:
            left = [name for name in candidates(slot, own, parents) if name not in chosen]
            if not left:
                return None
            chosen.append(choose.choice(left))
        made = make(self, chosen)
        return f"ps.returns({self.declared}, {made})" if self.declared else made


def candidates(slot: str, own: Mapping[str, pa.DataType], parents: Mapping[str, pa.DataType]) -> list[str]:
    fields = parents if slot.startswith("^") else {**own, **parents}
    kinds = slot.lstrip("^").split("|")
    return [name for name, t in fields.items() if kind_of(t) in kinds]


def make(template: Template, fields: Sequence[str]) -> str:
    """Make the function, unless it exists, and give its name."""
    parameters = [field.replace(".", "_") for field in fields]
    name = "_".join((template.name, *parameters))
    if name not in SOURCES:
        slots = dict(zip("abc", parameters, strict=False))
        text = template.text.format(name=name, **slots)
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), SCOPE)
        SOURCES[name] = text
    return name


def used(text: str) -> dict[str, str]:
    """The made functions and classes that a text names, with their own texts."""
    return {name: SOURCES[name] for name in dict.fromkeys(re.findall(r"\w+", text)) if name in SOURCES}


def _function(
    name: str, takes: str, gives: str, body: str, *, state: str = "", to: str = "", declared: str = ""
) -> Template:
    """A function from its body. `to` is the annotation of the result."""
    slots = takes.split()
    parameters = [f"{{{slot}}}" for slot in "abc"[: len(slots)]] + (["state"] if state else [])
    arrow = f" -> {to}" if to else ""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    text = f"def {{name}}({', '.join(parameters)}){arrow}:\n{lines}\n"
    return Template(name, tuple(slots), tuple(gives.split()), text, state, declared, bool(to))


TEXT = "s|x"
LIST = "li|lf|lb|lt"
CHECKSUM = "h = 1\nfor x in {a}:\n    h = (h * 31 + x) % 1000003\nreturn h"
SPELL = """
out = np.empty({a} % 4, np.uint8)
for k in range(len(out)):
    out[k] = 97 + k
return out"""
TALLY = """
state.n += 1
state.sum = (state.sum * 31 + {a} % 97) % 1000003
return state.sum"""
TURN = """
state.ring[state.at] = {a} % 97
state.at = (state.at + 1) % 4"""
WINDOW = f"""{TURN}
h = 3 if state.up else 4
for x in state.ring:
    h = (h * 31 + x) % 1000003
return h"""
AVERAGE = """
if -1e9 < {a} < 1e9:
    state.total = state.total * 0.5 + {a}
return state.total + state.level[0] + state.level[1]"""
SLOWLY = """
state.n += len(format({a}, "b"))
return state.n + state.sum"""
TRAIL = f"""{TURN}
for k in range(state.at):
    yield state.ring[k]
state.total += 1.0"""
BURST = """
state.n = (state.n + 1) % 3
for k in range(state.n):
    yield (state.sum + {a} % 10) % 1000 + k"""

VALUES = (
    _function("affine", "i", "i", "return {a} % 97 * 3 + 1"),
    _function("scale", "f", "f", "return {a} * 1.5 - 2.0"),
    _function("mix", "i i", "i", "return ({a} % 1009 * 31 + {b} % 97) % 1000003"),
    _function("blend", "f f", "f", "return {a} * 0.25 + {b}"),
    _function("ratio", "i", "f", "return {a} % 1000 / 7"),
    _function("weigh", "i f", "f", "return {a} % 100 * 0.5 + {b}"),
    _function("cut", "f", "i", "return int({a}) if -1e6 < {a} < 1e6 else -7"),
    _function("invert", "f", "f", "return 1.0 / {a} if {a} != 0.0 else 0.0"),
    _function("flag", "b", "i", "return 5 if {a} else 2"),
    _function("clock", "t", "i", "return {a} // 60 % 24"),
    _function("later", "t", "t", "return {a} + 60", declared='pa.timestamp("ms")'),
    _function("length", f"{TEXT}|{LIST}", "i", "return len({a})"),
    _function("checksum", "x|li|lt", "i", CHECKSUM),
    _function("checksum_text", "s", "i", CHECKSUM.replace("in {a}", "in {a}.encode()")),
    _function("total", "lf", "f", "h = 0.0\nfor x in {a}:\n    h += x\nreturn h"),
    _function("head", LIST, "i", "return {a}[0] == {a}[0] if len({a}) > 0 else False", declared="int"),
    _function("odd", "i", "b", "return {a} % 2 == 1"),
    _function("third", "i", "b", "return {a} % 3 == 0"),
    _function("positive", "f", "b", "return {a} > 0.0"),
    _function("number", "f", "b", "return {a} == {a}"),
    _function("negate", "b", "b", "return not {a}"),
    _function("less", "i i", "b", "return {a} % 50 < {b} % 50"),
    _function("even_time", "t", "b", "return {a} % 2 == 0"),
    _function("long", f"{TEXT}|{LIST}", "b", "return len({a}) > 1"),
    _function("starts", "x", "b", "return len({a}) > 0 and {a}[0] == 97"),
    _function("starts_text", "s", "b", "return len({a}) > 0 and {a}.encode()[0] == 97"),
    _function("rest", "i", "i", "return {a} % 3"),
    Template("default", ("i",), ("i",), "def {name}({a}, scale=3) -> int:\n    return {a} % 50 * scale\n"),
    _function("widen", "i", "f", "return {a} % 50", declared="float"),
    _function("same_text", "s", "s", "return {a}", declared="str"),
    _function("tail", "x", "x", "return {a}[1:]"),
    _function("tail_text", "s", "x", "return {a}.encode()[1:]"),
    _function("choose_text", "s s i", "s", "return {a} if {c} % 2 else {b}"),
    _function("spell", "i", "s", SPELL, declared="str"),
)  # fmt: skip

LISTS = (
    _function("range", "i", "l", "return np.arange({a} % 4)"),
    _function("repeat", "i f", "l", "return np.full({a} % 3, {b})"),
    _function("narrow", "i", "l", "return np.full({a} % 3, 2, np.int32)"),
    _function("single", "f", "l", "return np.full(2, {a}, np.float32)"),
    _function("flags", "i", "l", "return np.zeros({a} % 3, np.bool_)"),
    _function("tail_list", LIST, "l", "return {a}[1:]"),
    _function("every_other", LIST, "l", "return {a}[::2]"),
    _function("triple", "i", "l", "y = np.empty(3, np.int64)\nfor k in range(3):\n    y[k] = {a} % 7 + k\nreturn y"),
    _function("fixed", "i", "l", "return np.arange(3) + {a} % 5", declared="ps.array(int, 3)"),
    _function("widened", "i", "l", "return np.arange({a} % 4)", declared="list[float]"),
    _function("no_list", "i", "l", "return np.arange(0)"),
    _function("ring", "i", "l", f"{TURN}\nreturn state.ring", state="Window"),
    _function("pieces", "s", "l", 'return [len(piece) for piece in {a}.split("a")]', to="list[int]"),
    _function("said", "i", "l", 'return [c == "1" for c in format({a} % 8, "b")]', to="list[bool]"),
    _function("couple", "i", "l", 'return [float(len(format({a}, "d"))), 0.5]', to="ps.array(float, 2)"),
)  # fmt: skip

SLOW = (
    _function("upper", "s", "s", "return {a}.upper()[:9]", to="str"),
    _function("word", "i", "s", 'return "abacabad"[: {a} % 8]', to="str"),
    _function("bits", "i", "i", 'return len(format({a}, "b"))', to="int"),
    _function("round", "f", "f", 'return float(format({a}, ".2g"))', to="float"),
    _function("thin", "f", "f", 'return float(format({a}, ".3g")) / 3.0', to="pa.float32()"),
    _function("short", "i", "i", 'return -len(format({a}, "b"))', to="pa.int16()"),
    _function("lower", "s", "b", "return {a}.islower()", to="bool"),
    _function("lengths", "zs", "i", "return sum(len(text) * 3 + 1 for text in {a})", to="int"),
    _function("join", "zs", "s", 'return "-".join({a})[:9]', to="str"),
    _function("depth", "z", "i", "return len(str({a})) + len({a})", to="int"),
    _function("back", "x", "x", "return bytes(reversed({a}))", to="bytes"),
    _function("look", "i", "i", 'return dict(enumerate(format({a} % 512, "09b"))).get({a} % 9) == "1"', to="int"),
)  # fmt: skip

PREDICATES = tuple(t for t in (*VALUES, *SLOW) if t.gives == ("b",) or t.name == "rest")

TUPLES = (
    _function("both", "i", "i b", "return {a} % 7, {a} % 3 == 0"),
    _function("split", "f", "i f", "return (1, -{a}) if {a} > 0.0 else (0, {a})"),
    _function("measure", "x", "i x", "return len({a}), {a}"),
    _function("measure_text", "s", "i s", "return len({a}), {a}"),
    _function("three", "i f", "f i i", "return {b} * 2.0, {a} % 5, {a} % 11"),
    _function("spelled", "i", "s i", 'return format({a} % 9, "b"), {a} % 9', to="tuple[str, int]"),
)

STATEFUL = (
    _function("tally", "i", "i", TALLY, state="Tally"),
    _function("count", "", "i", "state.n += 1\nreturn state.n * 1000 + state.sum % 1000", state="Tally"),
    _function("heard", TEXT, "i", "state.sum = (state.sum * 7 + len({a})) % 9973\nreturn state.sum", state="Tally"),
    _function("average", "f", "f", AVERAGE, state="Window"),
    _function("window", "i", "i", WINDOW, state="Window"),
    _function("slowly", "i", "i", SLOWLY, state="Tally", to="int"),
)

STATEFUL_PREDICATES = (
    _function("turn", "", "b", "state.n += 1\nreturn (state.n + state.sum) % 3 != 0", state="Tally"),
    _function("gate", "i", "b", f"{TURN}\nreturn state.up or (state.ring[0] + {{a}} % 7) % 2 == 0", state="Window"),
    _function("above", "f", "b", "state.total = state.total * 0.5 + 0.25\nreturn {a} > state.total", state="Window"),
)  # fmt: skip

PUSHES = (
    _function("fan", "i", "i", "for k in range({a} % 4):\n    yield {a} % 100 + k"),
    _function("spell_out", "x", "i", "for k in range(min(len({a}), 3)):\n    yield {a}[k]"),
    _function("spell_text", "s", "i", "data = {a}.encode()\nfor k in range(min(len(data), 3)):\n    yield data[k]"),
    _function("elements", "lf", "f", "k = 0\nfor x in {a}:\n    if k < 3:\n        yield x\n    k += 1"),
    _function("fork", "i f", "i f", "if {b} > 0.0:\n    yield {a} % 5, {b}\nyield 7, 1.5"),
    _function("words", "s", "s", 'for word in {a}.split("b")[:3]:\n    yield word', to="Iterator[str]"),
    _function("lists", "i", "l", "for k in range({a} % 3):\n    yield np.arange(k + 1)"),
)
STATEFUL_PUSHES = (
    _function("burst", "i", "i", BURST, state="Tally"),
    _function("trail", "i", "i", TRAIL, state="Window"),
)
"""No template for `flat_map` pushes more than three items for one."""

COLUMNS = (
    _function("column_and", "i", "i", "return pc.bit_wise_and(pc.cast({a}, pa.int64()), 255)", declared="int"),
    _function("column_scale", "f", "f", "return pc.multiply(pc.cast({a}, pa.float64()), 0.5)", declared="float"),
    _function("column_sum", "f f", "f", "return pc.add({a}, pc.cast({b}, pa.float32()))", declared="pa.float32()"),
    _function("column_upper", "s", "s", "return pc.utf8_upper({a})", declared="str"),
    _function("column_not", "b", "b", "return pc.invert({a})", declared="bool"),
    _function("column_length", TEXT, "i", "return pc.binary_length({a})", declared="pa.int16()"),
    _function("column_list", "li|lf|lt|lb|z|zs", "i", "return pc.list_value_length({a})", declared="int"),
    _function("column_split", "s", "l", 'return pc.split_pattern({a}, "a")', declared="list[str]"),
    _function("column_plain", "i", "i", "return [x.as_py() % 7 for x in {a}]", declared="pa.uint8()"),
)
"""Functions over columns; `declared` is the type of the field they set."""
