"""What Arrow columns hold that a stream cannot: nulls, and unsigned integers beyond the signed ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.graph import types


def null_rows(array: pa.Array) -> np.ndarray | None:
    """Which rows are null or hold a null at any depth; None where none does."""
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if types.is_list(array.type) or types.is_array(array.type):
        inner = null_rows(array.flatten())
        if inner is not None:
            lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
            rows = np.zeros(len(array), bool)
            rows[np.repeat(np.arange(len(array)), lengths)[inner]] = True
            nulls = rows if nulls is None else nulls | rows
    return nulls


def beyond_rows(array: pa.Array) -> np.ndarray | None:
    """Which rows hold an unsigned value that does not fit a signed 64-bit integer; None where none does."""
    t = array.type
    if pt.is_uint64(t):
        too_large = pc.fill_null(array, 0).to_numpy(zero_copy_only=False) > np.uint64(types.INT64_MAX)
        return too_large if too_large.any() else None
    if types.is_list(t) or types.is_array(t):
        inner = beyond_rows(array.flatten())
        if inner is not None:
            lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
            rows = np.zeros(len(array), bool)
            rows[np.repeat(np.arange(len(array)), lengths)[inner]] = True
            return rows
    return None


def beyond_int64(array: pa.Array) -> int | None:
    """The first row whose unsigned value, or an element of it, does not fit a signed 64-bit integer."""
    t = array.type
    if pt.is_uint64(t):
        (rows,) = np.nonzero(array.to_numpy(zero_copy_only=False) > np.uint64(types.INT64_MAX))
        return int(rows[0]) if len(rows) else None
    if types.is_list(t) or types.is_array(t):
        inner = beyond_int64(array.flatten())
        if inner is not None:
            ends = np.cumsum(pc.list_value_length(array).to_numpy(zero_copy_only=False))
            return int(np.searchsorted(ends, inner, side="right"))
    return None
