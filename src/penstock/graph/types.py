"""Field types: which Arrow types a field may have, and what a function sees of each.

The Arrow type is the one name of a field's type. Three families matter to the rest of the library: scalars (numbers,
booleans, times), texts (strings and bytes) and lists (variable and fixed size). What a compiled function sees of a
field is its `View`: numbers as 64-bit integers and floats, times as integers in their own unit, lists of numbers as
one-dimensional arrays, texts as `str` and bytes as `bytes`, of which it can do little.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import GraphError
from penstock.kernels.compile import View as View

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

SUPPORTED = "integers, floats, booleans, strings, bytes, times, lists and fixed-size lists of these, structs"


INT, FLOAT, BOOL = View(np.dtype("i8")), View(np.dtype("f8")), View(np.dtype("?"))


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A fixed-size array field of a state, a signal or a result: `ps.array(float, 1000)`."""

    element: type
    size: int


def array(element: type, size: int) -> ArrayType:
    """A fixed-size array of `int` or `float`, for the fields of a `State` or a `Signal`.

    >>> import penstock as ps
    >>> class Window(ps.State):
    ...     ring: ps.array(float, 1000)
    ...     at: int
    """
    if element not in (int, float):
        raise GraphError(f"array: the element must be int or float (0 and 1 for a bool); got {element!r}")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise GraphError(f"array: the size must be a whole number of at least 1; got {size!r}")
    return ArrayType(element, size)


def _ids(*given: pa.DataType) -> frozenset[int]:
    return frozenset(t.id for t in given)


# By number: they are asked for every column of every firing.
_SIGNED, _UNSIGNED = (
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
_TIME = _ids(pa.timestamp("us"), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.duration("us"))
_INTEGER, _FLOAT = _ids(*_SIGNED, *_UNSIGNED), _ids(pa.float32(), pa.float64())
_SCALAR = _INTEGER | _FLOAT | _TIME | _ids(pa.bool_())
_STRING = _ids(pa.string(), pa.large_string())
_TEXT = _STRING | _ids(pa.binary(), pa.large_binary())
_LIST, _ARRAY = _ids(pa.list_(pa.int8()), pa.large_list(pa.int8())), _ids(pa.list_(pa.int8(), 1))


def is_integer(t: pa.DataType) -> bool:
    return t.id in _INTEGER


def is_float(t: pa.DataType) -> bool:
    return t.id in _FLOAT


def is_time(t: pa.DataType) -> bool:
    """Times are integers in their own unit: counted, compared and ordered, but not summed."""
    return t.id in _TIME


def is_scalar(t: pa.DataType) -> bool:
    return t.id in _SCALAR


def is_text(t: pa.DataType) -> bool:
    return t.id in _TEXT


def is_string(t: pa.DataType) -> bool:
    return t.id in _STRING


def is_list(t: pa.DataType) -> bool:
    """A list of any length; fixed-size arrays are apart because their offsets are not stored."""
    return t.id in _LIST


def is_array(t: pa.DataType) -> bool:
    return t.id in _ARRAY


def is_flat(t: pa.DataType) -> bool:
    """Whether a value is a scalar, a text, or a list or array of scalars: what functions may give and regions keep."""
    return is_scalar(t) or is_text(t) or ((is_list(t) or is_array(t)) and is_scalar(t.value_type))


def is_supported(t: pa.DataType) -> bool:
    if is_list(t) or is_array(t):
        return is_supported(t.value_type)
    return is_scalar(t) or is_text(t)


def element_of(t: pa.DataType) -> pa.DataType | None:
    """What `enumerate` gives for a field of this type, or None when it cannot be opened."""
    if is_list(t) or is_array(t):
        return t.value_type
    if is_text(t):
        return pa.uint8()
    return None


def view(t: pa.DataType) -> View | None:
    """What a compiled function sees of a field of this type, or None when it cannot see it."""
    if is_integer(t) or is_time(t):
        return INT
    if is_float(t):
        return FLOAT
    if pt.is_boolean(t):
        return BOOL
    if is_text(t):
        return View(np.dtype("u1"), array=True, text="str" if is_string(t) else "bytes")
    if (is_list(t) or is_array(t)) and is_scalar(t.value_type):
        held = storage(t.value_type)
        return View(np.dtype("f8") if held.kind == "f" else held, array=True)
    return None


def storage(t: pa.DataType) -> np.dtype:
    """The NumPy type in which a scalar column is held. Unsigned 64-bit integers are held signed, after a check."""
    if pt.is_boolean(t):
        return np.dtype("?")
    if is_time(t):
        return np.dtype(f"i{t.bit_width // 8}")
    if pt.is_uint64(t):
        return np.dtype("i8")
    held: np.dtype = np.dtype(t.to_pandas_dtype())
    return held


LONG = 64
"""How many bytes a text or a list is taken to have, which have no fixed number."""


def size(t: pa.DataType) -> int:
    """The bytes of a value; what has no fixed number is taken to have a few."""
    if is_scalar(t):
        return int(storage(t).itemsize)
    return int(t.list_size * size(t.value_type)) if is_array(t) else LONG


def from_view(v: View) -> pa.DataType:
    """The field type of a function's result, seen as `v`."""
    if v.text == "str":
        return pa.string()
    if v.array:
        return pa.binary() if v.dtype == np.dtype("u1") else pa.list_(pa.from_numpy_dtype(v.dtype))
    return {"i": pa.int64(), "u": pa.int64(), "f": pa.float64(), "b": pa.bool_()}[v.dtype.kind]


_PYTHON = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), bytes: pa.binary()}


def declared_type(annotation: object, where: str) -> pa.DataType:
    """The field type that an annotation names: a Python type, list[...], ps.array(...), an Arrow type."""
    if isinstance(annotation, pa.DataType):
        if not is_supported(annotation):
            raise GraphError(f"{where}: a result must be one of {SUPPORTED}; got {annotation}")
        return annotation
    if isinstance(annotation, ArrayType):
        return pa.list_(_PYTHON[annotation.element], annotation.size)
    if annotation in _PYTHON:
        return _PYTHON[annotation]
    if getattr(annotation, "__origin__", None) is list:
        return pa.list_(declared_type(annotation.__args__[0], where))  # type: ignore[attr-defined]
    raise GraphError(
        f"{where}: a result's type must be int, float, bool, str, bytes, list[...], ps.array(...) or an Arrow type; "
        f"got {annotation!r}"
    )


def widens(t: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of type `t` is exactly a value of type `wanted` (text bytes may still be bad UTF-8)."""
    if t == wanted:
        return True
    if is_float(wanted):
        return wanted.bit_width == 64 and (is_integer(t) or is_float(t) or bool(pt.is_boolean(t)))
    if is_integer(wanted) or is_time(wanted):
        holds_all = storage(wanted) == np.dtype("i8") and not pt.is_uint64(wanted)
        return holds_all and (is_integer(t) or bool(pt.is_boolean(t)))
    if is_text(wanted):
        return is_text(t)
    if is_list(wanted) or is_array(wanted):
        element = element_of(t)
        return element is not None and (
            element == wanted.value_type or (is_list(t) and widens(element, wanted.value_type))
        )
    return False


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?` for a message, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
