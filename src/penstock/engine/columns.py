"""Arrow columns as the NumPy arrays that loops read, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.graph import types

NARROW = (1 << 31) - 1
"""The largest offset that has 32 bits."""


def arrays_of(array: pa.Array, is_wide: bool = False) -> list[np.ndarray]:
    """The arrays of a column without nulls: offsets from the outside in, then elements. Read-only, seldom copied."""
    t = array.type
    if types.is_scalar(t):
        return [_fixed(_scalars(array, is_wide))]
    if types.is_text(t):
        return [_fixed(part) for part in _text(array)]
    if types.is_array(t):
        return arrays_of(array.flatten(), is_wide)
    offsets = array.offsets.to_numpy() if len(array) else np.zeros(1, _offset_dtype(t))
    return [_fixed(offsets), *arrays_of(array.values, is_wide)]


def _fixed(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _offset_dtype(t: pa.DataType) -> str:
    return "i8" if pt.is_large_list(t) or pt.is_large_string(t) or pt.is_large_binary(t) else "i4"


def _scalars(array: pa.Array, is_wide: bool) -> np.ndarray:
    # From the buffer and not by Arrow's conversion, which minds nulls in rows that a slice has left out.
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        held = np.empty(0, types.storage(array.type))
    elif pt.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        held = bits[array.offset : array.offset + len(array)].view(np.bool_)
    else:
        dtype = types.storage(array.type)
        held = np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)
    return held.astype(np.float64) if is_wide else held


def _text(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    dtype = np.dtype(_offset_dtype(array.type))
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(1, dtype), np.empty(0, np.uint8)
    held = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return held, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def elements_of(array: pa.Array) -> pa.Array:
    """The elements of a list column under all of its offsets, as `arrays_of` sees them."""
    return array.flatten() if types.is_array(array.type) else array.values


def scalars_to_arrow(values: np.ndarray, t: pa.DataType) -> pa.Array:
    """Stored scalars as a column, without copying."""
    if pt.is_boolean(t):
        return pa.array(values)
    return pa.Array.from_buffers(t, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def lists_to_arrow(offsets: np.ndarray, elements: Any, t: pa.DataType) -> pa.Array:
    """Offsets and elements (an array, or a column) as a column of texts or lists, with 64-bit offsets where needed."""
    dtype = _offset_dtype(t) if offsets[-1] <= NARROW else "i8"
    held, made = pa.py_buffer(np.ascontiguousarray(offsets, dtype)), t if dtype == _offset_dtype(t) else _large(t)
    if types.is_text(t):
        return pa.Array.from_buffers(made, len(offsets) - 1, [None, held, pa.py_buffer(elements)])
    if not isinstance(elements, pa.Array):
        elements = scalars_to_arrow(elements, t.value_type)
    return pa.Array.from_buffers(made, len(offsets) - 1, [None, held], children=[typed(elements, t.value_type)])


def _large(t: pa.DataType) -> pa.DataType:
    """The type of the same values with 64-bit offsets."""
    if types.is_text(t):
        return pa.large_string() if types.is_string(t) else pa.large_binary()
    return pa.large_list(t.value_field)


def typed(column: pa.Array, t: pa.DataType) -> pa.Array:
    """A column as one of a type that holds the same values, seldom copied."""
    if column.type.equals(t):
        return column
    if types.is_array(t) and types.is_list(column.type) and column.type.value_type.equals(t.value_type):
        count = t.list_size * len(column)
        first = column.offsets[0].as_py() if len(column) else 0
        return pa.FixedSizeListArray.from_arrays(column.values.slice(first, count), type=t)
    return column.cast(t)
