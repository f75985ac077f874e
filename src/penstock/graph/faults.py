"""What is said when an item does not fit: one text for each fault, whichever backend meets it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from penstock.errors import HIDDEN, DataError, FunctionError, hides_values, reason_text
from penstock.graph.function import Function
from penstock.graph.hidden import is_hidden
from penstock.graph.nodes import Aggregate, Enumerate, GraphNode, KeyBy, KeyedAggregate
from penstock.graph.window import RegionWindow


class FaultKind(StrEnum):
    """What may be wrong with an item where no function raised."""

    NULL = "null"
    NULL_ELEMENT = "null_element"
    BEYOND = "beyond"
    TOO_MANY = "too_many"
    NAN_KEY = "nan_key"
    UNEQUAL_LENGTHS = "unequal_lengths"
    EMPTY_REGION = "empty_region"
    SUM_OVERFLOW = "sum_overflow"
    BAD_TIME = "bad_time"
    LATE_ITEM = "late_item"
    ARRAY_SIZE = "array_size"
    BAD_UTF8 = "bad_utf8"


def short_value(value: Any, limit: int = 80) -> str:
    """A value for a message, cut where it is long, without building the whole text of a huge one."""
    if hides_values():
        return HIDDEN
    if isinstance(value, (str, bytes, list)) and len(value) > limit:
        return f"{value[: limit // 2]!r}…{value[-limit // 4 :]!r} ({len(value):,} long)"
    text = repr(value)
    return text if len(text) <= 2 * limit else f"{text[: 2 * limit]}…"


def function_error(
    function: Function, error: BaseException, index: int, item: Mapping[str, Any], place: str | None = None
) -> FunctionError:
    """A function of the user's raised: on an item, or at a place between items."""
    fields = ", ".join(f"{name}={short_value(value)}" for name, value in item.items() if not is_hidden(name))
    reason = f"{type(error).__name__}: {reason_text(error)}" if str(error) else type(error).__name__
    arguments = getattr(error, "called_with", {})
    called = ", ".join(
        f"{name}={short_value(value)}"
        for name, value in arguments.items()
        if short_value(value) != short_value(item.get(name))
    )
    if place is None:
        place = f"on item {index} ({fields})" if fields else f"where the region before item {index} ends"
    on = place + (f", called with {called}" if called else "")
    return FunctionError(f"{function.where} raised {reason}; {on}; at {_line(function, error)}")


def _line(function: Function, error: BaseException) -> str:
    """The function and, where the traceback still tells, the line of it that raised."""
    code = getattr(getattr(function.call, "py_func", function.call), "__code__", None)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if code is not None and frame.filename == code.co_filename and frame.name == code.co_name:
            return f"{frame.filename}:{frame.lineno}, in {frame.name}"
    return function.location


def too_many(node: GraphNode, index: int) -> DataError:
    most = node.at_most  # type: ignore[attr-defined]
    return DataError(
        f"{node.label}: may push at most {most} outputs an input, as declared; it pushed more on item {index}; "
        f"declare a larger at_most="
    )


def nan_key(node: KeyBy, names: str, index: int) -> DataError:
    return DataError(
        f"{node.label}: a key may not be NaN, because NaN equals nothing; {names} is NaN in item {index}; filter such "
        f"items before key_by"
    )


def unequal_lengths(node: Enumerate, index: int) -> DataError:
    fields = ", ".join(repr(name) for name, _ in node.elements)
    return DataError(f"{node.label}: the lists {fields} must have the same length; they differ in item {index}")


def empty_region(node: Aggregate | KeyedAggregate, what: str, index: int) -> DataError:
    return DataError(
        f"{node.label}: {what} needs an item, and the region that ends at item {index} has none; give a default="
    )


def sum_overflow(node: Aggregate | KeyedAggregate, what: str, index: int) -> DataError:
    is_window = isinstance(node, KeyedAggregate) and not isinstance(node.window, RegionWindow)
    which = "a window" if is_window else "the region"
    return DataError(
        f"{node.label}: {what} must fit 64 bits; it does not in {which} that ends at item {index}; convert the "
        f"field to float before"
    )


def bad_time(node: KeyedAggregate, what: str, index: int) -> DataError:
    """`what` is the time field."""
    return DataError(
        f"{node.label}: a time must be a number, and so near to 0 that its windows have bounds; {what!r} is not in "
        f"item {index}; filter such items before"
    )


def late_item(node: KeyedAggregate, what: str, index: int) -> DataError:
    return DataError(
        f"{node.label}: an item must come before its windows have closed; by {what!r}, item {index} is late; raise "
        f"late=, or leave such items out with on_late='drop'"
    )


def key_place(key: Mapping[str, Any]) -> str:
    """Where a function was called that ends a key."""
    fields = ", ".join(f"{name}={short_value(value)}" for name, value in key.items())
    return f"at the end of the stream, for the key {fields}" if fields else "at the end of the stream"
