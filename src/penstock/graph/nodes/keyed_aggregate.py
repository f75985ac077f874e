"""Nodes that aggregate by key: all items of a key, or those of each window or region."""

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
from penstock.graph.nodes.folds import Folding, bind_result, functions_of, types_of
from penstock.graph.nodes.items import Stateful
from penstock.graph.nodes.regions import Regions
from penstock.graph.record import State
from penstock.graph.window import CountWindow, RegionWindow, TimeWindow, WholeWindow, Window, time_window


class KeyPresence(State):
    """What is remembered of a key beside its aggregates: nothing but that it is there."""


class WindowProgress(State):
    """What is remembered of a key beside its open windows: how many items it had, or its rank among the keys."""

    at: int


@dataclass(frozen=True, eq=False)
class KeyedAggregate(Stateful):
    """Give an item for each window of each key: the key's fields, what the window adds to them, and the aggregates."""

    given_results: Mapping[str, Any] = None  # type: ignore[assignment]
    window: Window = WholeWindow()  # noqa: RUF009 - frozen
    given_keep: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        return f"aggregate {quoted(self.given_results)}"

    @property
    def has_end(self) -> bool:
        return not isinstance(self.window, CountWindow) or self.window.partial

    @cached_property
    def results(self) -> Mapping[str, Builtin | Folding]:
        begins_with = self.shared if isinstance(self.window, RegionWindow) else self.given.key_fields
        return {
            name: bind_result(self, name, given, begins_with, self.shared) for name, given in self.given_results.items()
        }

    @cached_property
    def added(self) -> dict[str, Any]:
        """What a window adds to the fields of the key: its bounds, or fields of its first item."""
        if isinstance(self.window, RegionWindow):
            return {name: self.given.fields[old] for name, old in self.window.kept.items()}
        return dict.fromkeys((name for name in self.window.bounds if name), self.window.bounds_type())

    @cached_property
    def shared(self) -> dict[str, Any]:
        """What all items of a window have in common."""
        return {**self.given.key_fields, **self.added}

    @cached_property
    def keep(self) -> tuple[str, ...]:
        """The fields of the result that are not aggregates. Those of the key and of a first item may be chosen."""
        if self.given_keep is None:
            return (*self.given.key_fields, *self.added)
        is_found = isinstance(self.window, RegionWindow)
        among, of = (self.shared, "of the key or of the region") if is_found else (self.given.key_fields, "of the key")
        for name in self.given_keep:
            self._must_have(name, among, of)
        return self.given_keep if is_found else (*self.given_keep, *self.added)

    def _shape(self) -> Shape:
        self._must_be_clear(self.given, "its windows")
        if self.given.depth or (self.given.key is None and not isinstance(self.window, WholeWindow)):
            raise self.fail(_nowhere(self.given))
        if not self.given_results:
            raise self.fail("must give at least one result; got none; write aggregate(total=ps.sum('v'))")
        self._new_fields((*self.keep, *self.given_results), {})
        for result in self.results.values():
            self._check_result(result)
        fields = {name: self.shared[name] for name in self.keep} | types_of(self, self.results)
        return replace(self.given, fields=fields)

    def _check_result(self, result: Builtin | Folding) -> None:
        if isinstance(result, Folding):
            return
        t = self.given.scope.get(result.field or "")
        if result.kind == "to_list":
            has = "all items of all keys" if self.given.key is not None else "all items of the stream"
            raise self.fail(f"{result} would hold {has} in memory; make lists inside a region before")
        if result.kind in ("first", "last") and t is not None and not types.is_scalar(t):
            raise self.fail(f"{result} by key takes numbers and times, whose size is fixed; {result.field!r} is {t}")

    def on(self, signal: Any, function: Any, assigned: Mapping[str, Any]) -> Stateful:
        raise self.fail("an aggregate handles no signal; use flat_map with state= and end= instead")

    @property
    def functions(self) -> tuple[Function, ...]:
        start = self.window.start if isinstance(self.window, RegionWindow) else None
        return (*(() if start is None else (start,)), *functions_of(self.results))

    @property
    def ending(self) -> tuple[Function, ...]:
        folds = [result for result in self.results.values() if isinstance(result, Folding)]
        return tuple(f for fold in folds for f in (fold.begin, fold.end) if f is not None)


@dataclass(frozen=True, eq=False)
class KeyedRegions(Regions):
    """The regions of each key. They stand in no graph by themselves: an aggregate takes them as its windows."""

    @property
    def window(self) -> RegionWindow:
        return RegionWindow(self.start, self.by, {name: name for name in self.by} | dict(self.keep))

    def _shape(self) -> Shape:
        self._check_rule()
        _ = self.start
        self._new_fields((*self.by, *self.keep), {})
        both = [name for name in (*self.by, *self.keep) if name in self.given.key_fields]
        if both:
            raise self.fail(
                f"the row has the fields of the key already, which never change within it; got {quoted(both)} again; "
                f"leave them out of by=, and give others of that name a new one with keep={{'new': 'old'}}"
            )
        for name in (*self.by, *self.keep.values()):
            self._check_held(name, self._must_have(name, self.given.fields))
        return self.given

    def _check_held(self, name: str, t: Any) -> None:
        """What is remembered of a region that is open lies in a record of its key, whose size is fixed."""
        if not types.is_scalar(t):
            raise self.fail(
                f"by= and keep= of a key's regions take numbers, booleans and times, whose size is fixed; {name!r} is "
                f"{t}; make a number of it with map before regions"
            )


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
    state: type[State] = KeyPresence if isinstance(window, (WholeWindow, RegionWindow)) else WindowProgress
    if isinstance(window, TimeWindow):
        window = resolve_windows(before, window)
    return KeyedAggregate(before, state, (), results, window, keep)


def resolve_windows(before: GraphNode, window: TimeWindow) -> TimeWindow:
    """Windows of time behind a node, with their numbers in the unit of their field."""
    where, fields = f"window {window.field!r}", before.shape.scope
    if not isinstance(window.field, str) or window.field not in fields:
        near = types.nearest(str(window.field), fields)
        raise before.fail(f"{where}: must be a field of the item; there are {quoted(fields)}{near}")
    return time_window(window, where, fields[window.field])
