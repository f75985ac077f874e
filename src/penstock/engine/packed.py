"""Arrays as bytes that tell what they hold: a head of JSON with names, types and shapes, then the arrays themselves."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from penstock.errors import DataError

MAGIC = b"PSK1"
_HEAD = struct.Struct("<4sI")


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """
    >>> made = unpacked(packed({"n": np.arange(3), "at": np.ones(1, [("x", "f8"), ("y", "i8", (2,))])}))
    >>> made["n"].tolist(), made["at"]["x"].tolist(), made["at"]["y"].tolist()
    ([0, 1, 2], [1.0], [[1, 1]])
    """
    head = _head(tuple((name, array.dtype, array.shape) for name, array in arrays.items()))
    return b"".join([_HEAD.pack(MAGIC, len(head)), head, *(np.ascontiguousarray(a).tobytes() for a in arrays.values())])


@lru_cache(maxsize=256)
def _head(fields: tuple[tuple[str, np.dtype, tuple[int, ...]], ...]) -> bytes:
    return json.dumps([[name, dtype_to_descr(dtype), shape] for name, dtype, shape in fields]).encode()


def unpacked(held: bytes) -> dict[str, np.ndarray]:
    """The arrays, as copies that can be written to."""
    if len(held) < _HEAD.size or _HEAD.unpack_from(held)[0] != MAGIC:
        raise DataError(f"state: must begin with {MAGIC!r}; it begins with {held[:4]!r}; is the checkpoint whole?")
    length = _HEAD.unpack_from(held)[1]
    at = _HEAD.size + length
    found = {}
    for name, dtype, shape in _fields(bytes(held[_HEAD.size : at])):
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(held, dtype, count, at).reshape(shape).copy()
        at += count * dtype.itemsize
    if at != len(held):
        raise DataError(f"state: must have {at} bytes, as its head says; it has {len(held)}; is the checkpoint whole?")
    return found


@lru_cache(maxsize=256)
def _fields(head: bytes) -> list[tuple[str, np.dtype, tuple[int, ...]]]:
    return [(name, descr_to_dtype(_tuples(descr)), tuple(shape)) for name, descr, shape in json.loads(head)]


def _tuples(descr: Any) -> Any:
    """What NumPy makes types of, whose tuples have become lists on the way."""
    if isinstance(descr, str):
        return descr
    if len(descr) == 2 and isinstance(descr[1], list) and all(isinstance(size, int) for size in descr[1]):
        return (_tuples(descr[0]), tuple(descr[1]))
    return [_field(field) for field in descr]


def _field(field: list[Any]) -> tuple[Any, ...]:
    name, descr, *shape = field
    name = tuple(name) if isinstance(name, list) else name
    return (name, _tuples(descr), *(tuple(each) for each in shape))
