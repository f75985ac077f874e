"""Values as plain Python: what an item holds, what a function is given, what it may give back.

An item's values are plain: `int` (times too, in their unit), `float`, `bool`, `str`, `bytes` and `list`. A function
sees them so, except that a list of numbers is an array for it, so that it means the same interpreted and compiled;
`Vector` is that array.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.graph import types


class Vector(np.ndarray):
    """A NumPy array whose elements come out as Python numbers, so that arithmetic on them never wraps."""

    def __getitem__(self, at: Any) -> Any:
        element = super().__getitem__(at)
        return element.item() if isinstance(element, np.generic) else element

    def __setitem__(self, at: Any, value: Any) -> None:
        if self.dtype.kind in "iu" and isinstance(value, (float, np.floating)):
            raise TypeError(f"an array of integers takes an int; got the float {value!r}")
        super().__setitem__(at, value)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """A sum or a mean comes out as a Python number too."""
        return array.item() if array.ndim == 0 else array.view(Vector)

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __bool__(self) -> bool:
        """As compiled code has none: a list of Python's is true where it has elements, an array by its one element."""
        if self.ndim == 0:
            return bool(self.item())
        raise TypeError("an array is neither true nor false; write len(v) > 0, v.any() or v.all()")

    def fill(self, value: Any) -> None:
        self[:] = value


def vector(data: Any, dtype: np.dtype) -> Vector:
    return np.asarray(data, dtype).view(Vector)


def present(value: Any, t: pa.DataType) -> Any:
    """The plain value as a function sees it: a list of numbers as an array, any other list as a copy."""
    if not isinstance(value, list):
        return value
    view = types.view(t)
    if view is None:
        return copy.copy(value)
    seen = vector(value, view.dtype)
    seen.flags.writeable = False
    return seen


def accept(value: Any, t: pa.DataType) -> Any:
    """The plain value of type `t` that a function gave back, as a column of that type holds it.

    A `TypeError`, `ValueError` or `OverflowError` where there is none.
    """
    if types.is_time(t) and not isinstance(value, (int, np.integer)):
        value = _moment(value, t)
    if types.is_integer(t) or types.is_time(t):
        return _integer(value, t)
    if types.is_float(t):
        if isinstance(value, (int, float, np.integer, np.floating)):
            return float(np.float32(value)) if t.bit_width == 32 else float(value)
    elif pt.is_boolean(t):
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
    elif types.is_text(t):
        return _text(value, t)
    elif isinstance(value, (list, tuple, np.ndarray)):
        if types.is_array(t) and len(value) != t.list_size:
            raise ValueError(f"the result must hold {t.list_size} elements; got {len(value)}")
        return [accept(element, t.value_type) for element in value]
    raise TypeError(f"the result must be {t}; got {value!r}, a {type(value).__name__}")


def _moment(value: Any, t: pa.DataType) -> Any:
    """A date or time of Python's as the integer that stands for it."""
    try:
        return pa.scalar(value, t).value
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"the result must be {t}; {error}") from None


def _integer(value: Any, t: pa.DataType) -> int:
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise TypeError(f"the result must be an int; got {value!r}, a {type(value).__name__}")
    bits = t.bit_width - (not pt.is_unsigned_integer(t))
    least = 0 if pt.is_unsigned_integer(t) else -(2**bits)
    if not least <= int(value) < min(2**bits, types.INT64_MAX + 1):
        raise OverflowError(f"an integer must fit {t.bit_width} bits; got {value}")
    return int(value)


def _text(value: Any, t: pa.DataType) -> str | bytes:
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        value = value.tobytes()
    if isinstance(value, (bytes, bytearray)):
        return value.decode() if types.is_string(t) else bytes(value)
    if isinstance(value, str):
        return value if types.is_string(t) else value.encode()
    raise TypeError(f"the result must be {t}; got {value!r}, a {type(value).__name__}")


def type_of(value: Any) -> pa.DataType:
    """The field type of one plain value, for a function whose result type nobody declared."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return types.from_view(types.View(value.dtype, array=True))
    if isinstance(value, (list, tuple)) and value:
        return pa.list_(type_of(value[0]))
    for kind, t in (
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (bytes, pa.binary()),
    ):
        if isinstance(value, kind):
            return t
    raise TypeError(f"a result must be a number, a bool, str, bytes or a list of these; got {value!r}")


def declared_scalar(kind: type) -> pa.DataType:
    """The field type of a Python number type."""
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}[kind]
