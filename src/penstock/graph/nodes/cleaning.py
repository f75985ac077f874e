"""What to do with nulls, where items enter the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.graph import types
from penstock.graph.nodes.base import Shape, Source, Step
from penstock.graph.values import accept


@dataclass(frozen=True, eq=False)
class DropNulls(Step):
    """Leave out the items in which one of these fields is null. Stands right after a source."""

    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return "drop_nulls"

    def _shape(self) -> Shape:
        _right_after_source(self)
        for name in self.names:
            self._must_have(name, self.given.fields)
        return self.given


@dataclass(frozen=True, eq=False)
class FillNull(Step):
    """Put a value where one of these fields is null. Stands right after a source."""

    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        return "fill_null"

    def _shape(self) -> Shape:
        _right_after_source(self)
        for name, value in self.values.items():
            t = self._must_have(name, self.given.fields)
            innermost = _innermost(t)
            try:
                accept(value, innermost)
            except (ValueError, TypeError, OverflowError):
                raise self.fail(f"the value for {name!r} must be {innermost}; got {value!r}") from None
        return self.given


def _innermost(t: pa.DataType) -> pa.DataType:
    return _innermost(t.value_type) if types.is_list(t) or types.is_array(t) else t


def _right_after_source(node: Step) -> None:
    before = node.before
    while isinstance(before, (DropNulls, FillNull)):
        before = before.before
    if not isinstance(before, Source):
        raise node.fail("must stand right after the source, because nulls are refused where items enter the graph")
