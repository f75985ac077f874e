"""Nodes that aggregate by key: all items of a key, or those of each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from penstock.errors import quoted
from penstock.graph import types
from penstock.graph.aggregate import Builtin
from penstock.graph.function import Function
from penstock.graph.nodes.base import GraphNode, Shape
from penstock.graph.nodes.folds import Folding, bound, functions_of, types_of
from penstock.graph.nodes.items import Stateful
from penstock.graph.record import State
from penstock.graph.window import Counted, Timed, Whole, Window, timed


class Begun(State):
    """What is remembered of a key beside its aggregates: nothing but that it is there."""


class Progress(State):
    """What is remembered of a key beside its open windows: how many items it had, or its newest time."""

    at: int


class FloatProgress(State):
    """The same where times are floats."""

    at: float


@dataclass(frozen=True, eq=False)
class KeyedAggregate(Stateful):
    """Give an item for each window of each key: the key's fields, the window's bounds, and the aggregates."""

    given_results: Mapping[str, Any] = None  # type: ignore[assignment]
    window: Window = Whole()  # noqa: RUF009 - frozen
    given_keep: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        return f"aggregate {quoted(self.given_results)}"

    @property
    def has_end(self) -> bool:
        return not isinstance(self.window, Counted) or self.window.partial

    @cached_property
    def results(self) -> Mapping[str, Builtin | Folding]:
        key, ends_with = self.given.key_fields, {**self.given.key_fields, **self.bounds}
        return {name: bound(self, name, given, key, ends_with) for name, given in self.given_results.items()}

    @cached_property
    def bounds(self) -> dict[str, Any]:
        return dict.fromkeys((name for name in self.window.bounds if name), self.window.bounds_type())

    @cached_property
    def keep(self) -> tuple[str, ...]:
        """The fields of the result that are not aggregates: those of the key, and the bounds."""
        names = tuple(self.given.key_fields) if self.given_keep is None else self.given_keep
        for name in names:
            self._must_have(name, self.given.key_fields, "of the key")
        return (*names, *self.bounds)

    def _shape(self) -> Shape:
        if self.given.key is None or self.given.depth:
            raise self.fail(_nowhere(self.given))
        if not self.given_results:
            raise self.fail("must give at least one result; got none; write aggregate(total=ps.sum('v'))")
        self._new_fields((*self.keep, *self.given_results), {})
        for result in self.results.values():
            self._check_result(result)
        shared = {**self.given.key_fields, **self.bounds}
        fields = {name: shared[name] for name in self.keep} | types_of(self, self.results)
        return replace(self.given, fields=fields)

    def _check_result(self, result: Builtin | Folding) -> None:
        if isinstance(result, Folding):
            return
        t = self.given.scope.get(result.field or "")
        if result.kind == "collect":
            raise self.fail(
                f"{result} would hold all items of all keys in memory; collect lists inside a region before key_by"
            )
        if result.kind in ("first", "last") and t is not None and not types.is_scalar(t):
            raise self.fail(f"{result} by key takes numbers and times, whose size is fixed; {result.field!r} is {t}")

    def on(self, signal: Any, function: Any, assigned: Mapping[str, Any]) -> Stateful:
        raise self.fail("an aggregate handles no signal; use flat_map with state= and end= instead")

    @property
    def functions(self) -> tuple[Function, ...]:
        return functions_of(self.results)

    @property
    def ending(self) -> tuple[Function, ...]:
        folds = [result for result in self.results.values() if isinstance(result, Folding)]
        return tuple(f for fold in folds for f in (fold.begin, fold.end) if f is not None)


def _nowhere(given: Shape) -> str:
    if given.key is None:
        return "windows belong to a key, and there is none here; write key_by before window"
    return (
        f"windows lie in the order of a key's items, outside of all regions, and {given.depth} are open here; close "
        f"them with aggregate or close before"
    )


def keyed_aggregate(
    before: GraphNode, results: Mapping[str, Any], window: Window, keep: tuple[str, ...] | None = None
) -> KeyedAggregate:
    """The node, with a window whose numbers are in the unit of its field, and the state that it needs."""
    state: type[State] = Begun if isinstance(window, Whole) else Progress
    if isinstance(window, Timed):
        where, fields = f"window {window.field!r}", before.shape.scope
        if not isinstance(window.field, str) or window.field not in fields:
            near = types.nearest(str(window.field), fields)
            raise before.fail(f"{where}: must be a field of the item; there are {quoted(fields)}{near}")
        window = timed(window, where, fields[window.field])
        state = FloatProgress if window.is_float else Progress
    return KeyedAggregate(before, state, (), results, window, keep)
