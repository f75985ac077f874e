"""The heads of messages: a version, and the fields of a frozen record as JSON, read back by the types of the fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from penstock.errors import InternalError, SessionError

VERSION = 1
"""The version of the format. Whoever changes a record or its rows raises it."""


def head_of(record: Any) -> bytes:
    """The version, and the fields of a record but its payload."""
    return _MARK + _JSON.encode(record).encode()


def read_head(head: bytes) -> dict[str, Any]:
    """The fields in a head, as JSON has them."""
    if head[:1] != _MARK:
        raise version_error(f"a message of version {head[0] if head else 'none'}; here it is {VERSION}")
    found: dict[str, Any] = json.loads(head[1:])
    return found


def read_record(cls: Any, head: bytes, payload: Any = b"") -> Any:
    """The record of a class from its head, and its payload where it has one."""
    return _reader(cls)(read_head(head) | {"payload": payload})


def version_error(got: str) -> SessionError:
    return SessionError(
        f"spark: the driver and its tasks must run the same version of Penstock; one sent {got}; install the same on "
        f"every machine, and start again"
    )


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know."""
    if is_dataclass(value):
        cls: Any = type(value)
        return {name: getattr(value, name) for name in _names(cls)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise InternalError(f"a message must hold plain values; got a {type(value).__name__}")


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls) if each.name != "payload")


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """What makes a value of a type, as the fields of records have them, from what JSON has for it."""
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _record_reader(hint)
    if origin is tuple and args[-1] is Ellipsis:
        each = _reader(args[0])
        return lambda held: tuple(map(each, held))
    if origin is tuple:
        readers = [_reader(arg) for arg in args]
        return lambda held: tuple(read(value) for read, value in zip(readers, held, strict=True))
    if origin in (Union, UnionType):
        nested = [_reader(arg) for arg in args if is_dataclass(arg) or get_origin(arg) is not None]
        of_several = nested[0] if nested else _as_it_is
        return lambda held: of_several(held) if isinstance(held, (list, dict)) else held
    if origin is not None and issubclass(origin, Mapping):
        key, each = int if args[0] is int else str, _reader(args[1])
        return lambda held: {key(name): each(value) for name, value in held.items()}
    return _as_it_is


def _record_reader(cls: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    names = [each.name for each in fields(cls)]
    known = [(at, _reader(hints[name])) for at, name in enumerate(names)]
    readers = [(at, read) for at, read in known if read is not _as_it_is]

    def record(held: dict[str, Any]) -> Any:
        values = [held[name] for name in names]
        for at, read in readers:
            values[at] = read(values[at])
        return cls(*values)

    return record


def _as_it_is(held: Any) -> Any:
    return held


_MARK = bytes([VERSION])
_JSON = json.JSONEncoder(separators=(",", ":"), default=_plain)
