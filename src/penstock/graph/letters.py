"""Dead letters: what is kept of an item that was skipped, and where it was skipped.

With `on_error="skip"` an item on which a step fails acts as if that step had filtered it out. A letter tells of it.
There is one letter for each index in the source and each node; where several elements or outputs of one item fail at
one node, the letter is that of the first, and `count` says how many there were. A row of a window of time comes of many
items and has no index; there is one letter for each node and each such row, and `count` says how many were alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from penstock.graph import nodes as n
from penstock.graph.function import Function
from penstock.graph.hidden import is_hidden
from penstock.graph.tree import above
from penstock.graph.window import TimeWindow

SCHEMA = pa.schema(
    [
        ("index", pa.int64()),
        ("number", pa.int32()),
        ("node", pa.string()),
        ("function", pa.string()),
        ("message", pa.string()),
        ("count", pa.int64()),
        ("file", pa.string()),
        ("position", pa.string()),
        ("fields", pa.string()),
    ]
)
"""The columns of dead letters.

`index` is the item's index in the source; where a stream runs, in its file. It is null downstream of windows of time,
and for what is given when idle keys end. `number` and `node` say at which step it failed; `function` is the function
that raised, null where none did; `file` and `position` are where the item came from, null where it came from no file;
`fields` are the fields that the step, and those after it, use of the item, as JSON.
"""


@dataclass(frozen=True, slots=True)
class Letter:
    """One row of the dead letters."""

    index: int | None
    number: int
    node: str
    function: str | None
    message: str
    fields: str
    count: int = 1
    file: str | None = None
    position: str | None = None


def letter(
    index: int, number: int, node: n.GraphNode, function: Function | None, message: str, fields: Mapping[str, Any]
) -> Letter:
    """A letter about an item with these fields, as it came to a node."""
    return Letter(
        None if _is_after_windows(node) else index,
        number,
        node.label,
        function.location if function else None,
        message,
        as_json(fields),
    )


def _is_after_windows(node: n.GraphNode) -> bool:
    """Whether items here are rows of windows of time, which close when others move the watermark."""
    return any(isinstance(each, n.KeyedAggregate) and isinstance(each.window, TimeWindow) for each in above(node))


def first_of_each(letters: Iterable[Letter]) -> list[Letter]:
    """One letter for each index and node, in this order: the first, with the number of all. Those without come last."""
    first: dict[tuple[Any, ...], Letter] = {}
    for each in letters:
        key = order_of(each)
        known = first.get(key)
        first[key] = each if known is None else replace(known, count=known.count + each.count)
    return [first[key] for key in sorted(first)]


def order_of(letter: Letter) -> tuple[Any, ...]:
    """What letters are told apart by, and put in order."""
    if letter.index is None:
        return 1, letter.number, letter.fields
    return 0, letter.index, letter.number


def table_of(letters: Iterable[Letter]) -> pa.Table:
    """Letters as a table."""
    rows = list(letters)
    return pa.table({name: pa.array([getattr(row, name) for row in rows], t) for name, t in _COLUMNS}, schema=SCHEMA)


_COLUMNS = [(field.name, field.type) for field in SCHEMA]


# What a letter says


def reason(error: BaseException) -> str:
    """What a function raised, in a message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def fault_text(kind: str, node: Any, what: str) -> str:
    """What is wrong with an item where no function raised."""
    text: str = _FAULTS[kind](node, what)
    return text


_FAULTS: dict[str, Any] = {
    "null": lambda node, what: f"{what!r} is null",
    "null_element": lambda node, what: f"{what!r} holds a null",
    "beyond": lambda node, what: f"{what!r} is an unsigned integer that 64 signed bits do not hold",
    "too_many": lambda node, what: f"more than at_most={node.at_most} outputs were pushed",
    "nan_key": lambda node, what: f"{what} is NaN, which is no key",
    "unequal_lengths": lambda node, what: "the lists that are opened together differ in length",
    "bad_time": lambda node, what: f"{what!r} is no time that windows have bounds for",
    "late_item": lambda node, what: f"by {what!r} the item is late",
    "array_size": lambda node, what: f"the result does not hold {what} elements",
    "bad_utf8": lambda node, what: "a result declared as a string is not valid UTF-8",
}


# Fields as JSON


def as_json(fields: Mapping[str, Any]) -> str:
    """Fields as JSON text: what JSON has no form for is a string.

    >>> as_json({"v": 1.5, "#k0": 3, "x": float("nan"), "name": b"a\\xff"})
    '{"v": 1.5, "x": "NaN", "name": "a\\\\\\\\xff"}'
    """
    shown = {name: _plain(value) for name, value in fields.items() if not is_hidden(name)}
    return json.dumps(shown, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
