"""Places of signals that are told by a value: before the first item whose field has reached it.

The field must never go down, or the place would mean nothing; that is checked on the way. The items are looked through
in pieces, each by itself, so that many tasks can do it; what they saw is then put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import ControlError, GraphError
from penstock.graph import types
from penstock.graph.arrow import null_rows
from penstock.graph.nodes import Source
from penstock.graph.tree import At

ITEMS = 1 << 18


@dataclass(frozen=True)
class FieldSummary:
    """What was seen of a field in some items: how many, the first and the last value, and for each value that is looked
    for how many items lie before the first that has reached it."""

    count: int
    first: Any = None
    last: Any = None
    before: tuple[int, ...] = ()


def fields_of(control: Sequence[At]) -> tuple[str, ...]:
    """The fields by which signals are placed."""
    return tuple(dict.fromkeys(given.field for given in control if given.field is not None))


def values_of(control: Sequence[At], field: str, source: Source) -> tuple[Any, ...]:
    """The values of a field at which signals stand, as they are stored."""
    t = source.items.fields.get(field)
    if t is None:
        raise GraphError(
            f"control: {field!r} must be a field of {source.label} to place a signal by; there are "
            f"{', '.join(map(repr, source.items.fields))}"
        )
    if not types.is_scalar(t):
        raise GraphError(f"control: a signal is placed by a number or a time; {field!r} is {t}")
    return tuple(_position_value(given, t) for given in control if given.field == field)


def _position_value(given: At, t: pa.DataType) -> Any:
    try:
        return types.storage(t).type(_storage_value(given.value, t))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
        raise GraphError(f"control: {given.field!r} is {t}; got {given.value!r} to place a signal at") from None


def _storage_value(value: Any, t: pa.DataType) -> Any:
    if types.is_time(t):
        return pa.array([value], t).view(pa.int64() if t.bit_width == 64 else pa.int32())[0].as_py()
    return pa.scalar(value, t).as_py()


class IndexSearch:
    """Looks through some items, batch by batch, for the places of values of a field."""

    def __init__(self, field: str, values: Sequence[Any], where: str) -> None:
        self.field, self.values, self.where = field, values, where
        self.count, self.first, self.last = 0, None, None
        self.before: list[int | None] = [None] * len(values)

    def add(self, batch: pa.RecordBatch) -> None:
        column = _column(batch, self.field, self.where)
        if len(column) == 0:
            return
        _never_down(column, self.last, self.field, f"{self.where}, item {self.count}")
        for at, value in enumerate(self.values):
            if self.before[at] is None and column[-1] >= value:
                self.before[at] = self.count + int(np.searchsorted(column, value))
        self.first, self.last = column[0] if self.first is None else self.first, column[-1]
        self.count += len(column)

    def summary(self) -> FieldSummary:
        before = tuple(self.count if index is None else index for index in self.before)
        return FieldSummary(self.count, self.first, self.last, before)


def _column(batch: pa.RecordBatch, field: str, where: str) -> np.ndarray:
    column = batch.column(field)
    if null_rows(column) is not None:
        raise ControlError(
            f"control: {field!r} must have a value in every item to place signals by; {where} has a null"
        )
    stored = types.storage(column.type)
    if stored.kind == "b":
        return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return np.frombuffer(column.buffers()[1], stored, len(column), column.offset * stored.itemsize)


def _never_down(column: np.ndarray, last: Any, field: str, where: str) -> None:
    falls = ~(column[1:] >= column[:-1])  # so that NaN is refused too
    if falls.any() or (last is not None and not column[0] >= last):
        raise _goes_down(field, where)


def _goes_down(field: str, where: str) -> ControlError:
    return ControlError(
        f"control: {field!r} must never go down, because signals are placed by it; it does after {where}; place them "
        f"by index, or sort the source"
    )


def together(seen: Sequence[FieldSummary], field: str) -> tuple[int, ...]:
    """The indices that the values have in all pieces, one after the other."""
    last, total = None, 0
    indices: list[int | None] = [None] * max((len(piece.before) for piece in seen), default=0)
    for piece in seen:
        if piece.count:
            if last is not None and not piece.first >= last:
                raise _goes_down(field, f"item {total}")
            last = piece.last
        for at, before in enumerate(piece.before):
            if indices[at] is None and before < piece.count:
                indices[at] = total + before
        total += piece.count
    return tuple(total if index is None else index for index in indices)


def with_indices(control: Sequence[At], field: str, indices: Sequence[int]) -> list[At]:
    """The signals with the places that were found for a field."""
    left = list(indices)
    return [At(left.pop(0), given.signal) if given.field == field else given for given in control]


def in_order(control: Sequence[At]) -> tuple[At, ...]:
    """Signals in the order of their places, and as they were given where these are the same."""
    return tuple(sorted(control, key=lambda given: given.index))


def resolve_indices(control: Sequence[At], source: Source) -> tuple[At, ...]:
    """All signals by index, in order. Where some are placed by a field, the source is looked through for it first."""
    given = list(control)
    for field in fields_of(control):
        values = values_of(control, field, source)
        look = IndexSearch(field, values, source.label)
        for batch in source.items.batches(ITEMS, [field]):
            look.add(batch)
        given = with_indices(given, field, together([look.summary()], field))
    return in_order(given)
