"""Functions of the user's inside a loop that runs as plain Python: arguments and results as in a compiled one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.graph import types
from penstock.graph.function import Function, Parameter
from penstock.graph.record import Record, check_value
from penstock.graph.source import to_plain
from penstock.graph.values import Vector


class Row:
    """A row of a record array that reads and writes like a record: Python numbers out, only what fits in."""

    __slots__ = ("_record", "_row")

    def __init__(self, row: np.void, record: type[Record]) -> None:
        object.__setattr__(self, "_row", row)
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        if name not in self._record.layout.initial:
            raise AttributeError(f"{self._record.__name__} has no field {name!r}")
        value = self._row[name]
        return value.view(Vector) if isinstance(value, np.ndarray) else value.item()

    def __setattr__(self, name: str, value: Any) -> None:
        self._row[name] = check_value(self._record, name, value)


def interpreted(function: Function) -> Callable[..., Any]:
    """A function that takes what a loop holds and gives what a loop can hold."""
    views = [_view(parameter) for parameter in function.parameters]

    def given(arguments: tuple[Any, ...]) -> list[Any]:
        return [view(argument) for view, argument in zip(views, arguments, strict=True)]

    def held(returned: Any) -> Any:
        results = tuple(_held(value, t) for value, t in zip(function.results(returned), function.returns, strict=True))
        return results if function.is_tuple else results[0]

    def call(*arguments: Any) -> Any:
        with _told(function, arguments):
            returned = function.call(*given(arguments))
            return held(returned) if function.returns else None

    def push(*arguments: Any) -> Any:
        with _told(function, arguments):
            pushes = function.call(*given(arguments))
        while True:
            with _told(function, arguments):
                try:
                    pushed = held(next(pushes))
                except StopIteration:
                    return
            yield pushed

    return push if function.is_generator else call


@contextmanager
def _told(function: Function, arguments: tuple[Any, ...]) -> Iterator[None]:
    """Let an error tell what the function was called with."""
    try:
        yield
    except Exception as error:
        named = zip(function.parameters, arguments, strict=True)
        error.called_with = {p.name: _plain(a, p.type) for p, a in named if not p.is_record}  # type: ignore[attr-defined]
        raise


def _plain(argument: Any, t: Any) -> Any:
    if not isinstance(argument, np.ndarray):
        return argument
    text = argument.tobytes() if types.is_text(t) else argument.tolist()
    return text.decode(errors="replace") if types.is_string(t) else text


def _view(parameter: Parameter) -> Callable[[Any], Any]:
    t = parameter.type
    if isinstance(t, type):
        return lambda row: Row(row, t)
    if types.is_scalar(t) or types.view(t) is None:
        return lambda value: value
    if types.is_string(t):
        return lambda array: array.tobytes().decode()
    return (lambda array: array.tobytes()) if types.is_text(t) else _read_only


def _read_only(array: Any) -> Any:
    seen = array.view(Vector)
    seen.flags.writeable = False
    return seen


def _held(value: Any, t: pa.DataType) -> Any:
    if types.is_scalar(t):
        return value
    if types.is_text(t):
        return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
    return np.array(value, types.storage(t.value_type))


def plain(column: pa.Array, row: int) -> Any:
    """One value of a nested list column."""
    return to_plain(column.slice(row, 1))[0]
