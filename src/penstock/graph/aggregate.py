"""The built-in aggregates: what each takes and gives. How each is computed stands in the reference and in the loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import GraphError
from penstock.graph import types, values

AggregateKind = Literal["count", "first", "last", "max", "mean", "min", "sum", "to_list", "variance"]
NEEDS_AN_ITEM = ("min", "max", "first", "last")


@dataclass(frozen=True, slots=True)
class Builtin:
    """One built-in aggregate of a field, as `ps.sum("v")` makes it."""

    kind: AggregateKind
    field: str | None = None
    default: Any = None
    ddof: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.field or ''})"

    def result_type(self, where: str, scope: Mapping[str, pa.DataType]) -> pa.DataType:
        """The type of the result, after checking that the field exists and can be aggregated so."""
        if self.field is None:
            return pa.int64()
        if not isinstance(self.field, str) or self.field not in scope:
            raise GraphError(
                f"{where}: {self.kind} must name a field of the item or of a parent; got {self.field!r}, and there are "
                f"{', '.join(map(repr, scope))}{types.nearest(str(self.field), scope)}"
            )
        given = scope[self.field]
        if not _TAKES[self.kind](given):
            raise GraphError(f"{where}: {self.kind} cannot take {self.field!r}, a {given}; {_TAKES_TEXT[self.kind]}")
        if self.default is not None:
            self._check_default(where, given)
        return _RESULTS[self.kind](given)

    def _check_default(self, where: str, given: pa.DataType) -> None:
        try:
            values.accept(self.default, given)
        except (TypeError, ValueError, OverflowError):
            raise GraphError(f"{where}: the default of {self} must be {given}; got {self.default!r}") from None


def _is_number(t: pa.DataType) -> bool:
    return types.is_integer(t) or types.is_float(t) or bool(pt.is_boolean(t))


_TAKES = {
    "sum": _is_number,
    "mean": _is_number,
    "variance": _is_number,
    "min": types.is_scalar,
    "max": types.is_scalar,
    "first": types.is_flat,
    "last": types.is_flat,
    "to_list": types.is_flat,
}
_KEEPS = "it takes numbers, times, strings, bytes and lists of numbers"
_TAKES_TEXT = {
    "sum": "it takes numbers",
    "mean": "it takes numbers",
    "variance": "it takes numbers",
    "min": "it takes numbers and times",
    "max": "it takes numbers and times",
    "first": _KEEPS,
    "last": _KEEPS,
    "to_list": _KEEPS,
}


def _wide_type(t: pa.DataType) -> pa.DataType:
    return pa.float64() if types.is_float(t) else pa.int64()


_RESULTS: dict[str, Any] = {
    "sum": _wide_type,
    "mean": lambda t: pa.float64(),
    "variance": lambda t: pa.float64(),
    "min": lambda t: t,
    "max": lambda t: t,
    "first": lambda t: t,
    "last": lambda t: t,
    "to_list": pa.list_,
}


def sum(field: str) -> Builtin:
    """The sum over a region; 0 where it is empty. Integers are summed exactly, and a sum beyond 64 bits is an error.

    >>> import penstock as ps
    >>> blobs = ps.from_items([{"id": 1, "v": [1, 2]}])
    >>> blobs.enumerate("v", as_="x").aggregate(total=ps.sum("x")).collect().to_pylist()
    [{'id': 1, 'total': 3}]
    """
    return Builtin("sum", field)


def count() -> Builtin:
    """How many items reach the aggregate in each region.

    >>> import penstock as ps
    >>> ps.from_items([{"id": 1, "v": [7, 8]}]).enumerate("v", as_="x").aggregate(n=ps.count()).collect().to_pylist()
    [{'id': 1, 'n': 2}]
    """
    return Builtin("count")


def mean(field: str) -> Builtin:
    """The mean over a region, summed in 64-bit floats in the order of the stream; NaN where the region is empty.

    >>> import penstock as ps
    >>> ps.from_items([{"id": 1, "v": [1, 2]}]).enumerate("v", as_="x").aggregate(m=ps.mean("x")).collect().to_pylist()
    [{'id': 1, 'm': 1.5}]
    """
    return Builtin("mean", field)


def min(field: str, default: Any = None) -> Builtin:
    """The least value of a region; NaN where one is NaN. An empty region gives `default`, and without one an error.

    >>> import penstock as ps
    >>> blobs = ps.from_items([{"id": 1, "v": [3, 2]}, {"id": 2, "v": []}])
    >>> blobs.enumerate("v", as_="x").aggregate(low=ps.min("x", default=-1)).collect().to_pylist()
    [{'id': 1, 'low': 2}, {'id': 2, 'low': -1}]
    """
    return Builtin("min", field, default)


def max(field: str, default: Any = None) -> Builtin:
    """The greatest value of a region; NaN where one is NaN. An empty region gives `default`, and without one an error.

    >>> import penstock as ps
    >>> blobs = ps.from_items([{"id": 1, "v": [3, 5]}])
    >>> blobs.enumerate("v", as_="x").aggregate(high=ps.max("x")).collect().to_pylist()
    [{'id': 1, 'high': 5}]
    """
    return Builtin("max", field, default)


def variance(field: str, ddof: int = 0) -> Builtin:
    """The variance over a region by Welford's update, divided by count − ddof; NaN where that is not positive.

    >>> import penstock as ps
    >>> blobs = ps.from_items([{"id": 1, "v": [1, 3]}])
    >>> blobs.enumerate("v", as_="x").aggregate(s=ps.variance("x")).collect().to_pylist()
    [{'id': 1, 's': 1.0}]
    """
    if not isinstance(ddof, int) or ddof < 0:
        raise GraphError(f"variance: ddof must be a whole number of at least 0; got {ddof!r}")
    return Builtin("variance", field, ddof=ddof)


def first(field: str, default: Any = None) -> Builtin:
    """The first value of a region. An empty region gives `default`, and without one an error.

    >>> import penstock as ps
    >>> ps.from_items([{"id": 1, "v": [4, 5]}]).enumerate("v", as_="x").aggregate(x=ps.first("x")).collect().to_pylist()
    [{'id': 1, 'x': 4}]
    """
    return Builtin("first", field, default)


def last(field: str, default: Any = None) -> Builtin:
    """The last value of a region. An empty region gives `default`, and without one an error.

    >>> import penstock as ps
    >>> ps.from_items([{"id": 1, "v": [4, 5]}]).enumerate("v", as_="x").aggregate(x=ps.last("x")).collect().to_pylist()
    [{'id': 1, 'x': 5}]
    """
    return Builtin("last", field, default)


def to_list(field: str) -> Builtin:
    """All values of a region, in order, as a list: `enumerate` the other way.

    >>> import penstock as ps
    >>> blobs = ps.from_items([{"id": 1, "v": [4, -5, 6]}])
    >>> blobs.enumerate("v", as_="x").filter(lambda x: x > 0).aggregate(kept=ps.to_list("x")).collect().to_pylist()
    [{'id': 1, 'kept': [4, 6]}]
    """
    return Builtin("to_list", field)
