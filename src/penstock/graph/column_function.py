"""A user's function over whole Arrow columns, and the checks on what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import DataError, FunctionError, cause_of, reason_text, value_text
from penstock.graph.arrow import beyond_int64, null_rows
from penstock.graph.function import location
from penstock.graph.nodes import MapColumns
from penstock.graph.source import to_plain


def call_on_columns(node: MapColumns, columns: Sequence[pa.Array], rows: int) -> dict[str, pa.Array]:
    """Call the function and check that it gave a column of every declared type, with a value for every row."""
    try:
        given = node.function(*columns)
    except Exception as error:
        told = f"{type(error).__name__}: {reason_text(error)}"
        raise FunctionError(f"{node.label}: raised {told}; on {rows} rows; at {location(node.function)}") from cause_of(
            error
        )
    if not isinstance(given, Mapping):
        given = dict(zip(node.types, given if isinstance(given, tuple) else (given,), strict=False))
    if set(given) != set(node.types):
        raise DataError(f"{node.label}: must give the columns {list(node.types)}; got {list(given)}")
    return {name: _check_column(node, name, given[name], rows) for name in node.types}


def _check_column(node: MapColumns, name: str, column: Any, rows: int) -> pa.Array:
    wanted = node.types[name]
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        made = column if isinstance(column, pa.Array) else pa.array(column)
        made = made.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise DataError(f"{node.label}: the column {name!r} must be {wanted}; {reason_text(error)}") from None
    if len(made) != rows:
        raise DataError(f"{node.label}: the column {name!r} must have a value for each of {rows} rows; got {len(made)}")
    if null_rows(made) is not None:
        raise DataError(f"{node.label}: the column {name!r} may hold no null; got one in {rows} rows")
    if beyond_int64(made) is not None:
        raise DataError(f"{node.label}: the column {name!r} must hold integers that fit 64 bits with a sign")
    return made


def check_row_by_row(node: MapColumns, columns: Sequence[pa.Array], made: Mapping[str, pa.Array], rows: int) -> None:
    """Refuse a function whose result for a row depends on other rows, as far as the last row of a batch can tell.

    Such a function would give other results for other sizes of batches.
    """
    if rows < 2:
        return
    alone = call_on_columns(node, [column.slice(rows - 1, 1) for column in columns], 1)
    for name, column in alone.items():
        (among,), (single,) = to_plain(made[name].slice(rows - 1)), to_plain(column)
        if not _alike(among, single):
            raise DataError(
                f"{node.label}: a row of {name!r} may depend on that row alone; the last of {rows} rows gives "
                f"{value_text(among)} among the others and {value_text(single)} by itself; use a state or a region "
                f"instead"
            )


def _alike(a: Any, b: Any) -> bool:
    """Whether two plain values are the same, NaN being the same as NaN."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_alike(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b or (a != a and b != b))
