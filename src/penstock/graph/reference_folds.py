"""What aggregates mean: the part of the reference that remembers items until a region, a window or a key ends.

Like the rest of it, written to be believed by reading it: an aggregate keeps every value and computes at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.graph import nodes as n
from penstock.graph.aggregate import NEEDS_AN_ITEM, Builtin
from penstock.graph.faults import empty_region, late_item, sum_overflow
from penstock.graph.hidden import HiddenField
from penstock.graph.types import INT64_MAX, INT64_MIN
from penstock.graph.values import accept
from penstock.graph.window import CountWindow, RegionWindow, TimeWindow, WholeWindow

if TYPE_CHECKING:
    from penstock.graph.reference import Interpreter

Own = dict[str, Any]
Parents = tuple[Own, ...]
KEY = HiddenField.of("key")


class OpenWindows:
    """The windows of one key that have an item and have not closed, by their numbers."""

    def __init__(self, interpreter: Interpreter, node: n.KeyedAggregate, key: tuple[Any, ...] | None) -> None:
        self.interpreter, self.node, self.rule = interpreter, node, node.window
        self.key = key_fields(node, key) | ({} if key is None else {KEY: key})
        self.first: Own = {}
        """What is kept of the first item of the region that is open."""
        self.open: dict[int, Accumulators] = {}
        self.items = 0

    def closed_by(self, own: Own) -> list[int]:
        """The windows that close because of an item, which is in none of them, as it begins another."""
        if isinstance(self.rule, RegionWindow):
            return list(self.open) if self._begins(self.rule, own) else []
        return []

    def _begins(self, rule: RegionWindow, own: Own) -> bool:
        """Whether an item begins a region; that the first of a key does, goes without saying."""
        if rule.start is not None:
            return bool(self.interpreter.call(rule.start, own)[0])  # asked of every item, the first too
        return bool(self.open) and any(self.first[name] != own[name] for name in rule.by)

    def add(self, own: Own) -> list[int]:
        """Put an item into its windows; those that close with it."""
        place, self.items = self.items, self.items + 1
        numbers = [0] if isinstance(self.rule, (WholeWindow, RegionWindow)) else []
        if isinstance(self.rule, CountWindow):
            numbers = self.rule.windows_of(place)
        elif isinstance(self.rule, TimeWindow):
            numbers, is_late = self.interpreter.windows_of(self.node, own)
            if is_late and self.rule.on_late == "error":
                raise late_item(self.node, self.rule.field, self.interpreter.index)
        for number in numbers:
            if number not in self.open:
                if isinstance(self.rule, RegionWindow):
                    self.first = {name: own[old] for name, old in self.rule.kept.items()}
                self.begin(number)
            self.open[number].add(own, ())
        full = self.rule.count if isinstance(self.rule, CountWindow) else None
        return [number for number in numbers if self.open[number].items == full]

    def begin(self, number: int) -> None:
        self.open[number] = Accumulators(self.interpreter, self.node, (self.key | self.first,))

    def close(self, number: int) -> Own:
        window, start, end = self.open.pop(number), 0, 0
        if isinstance(self.rule, CountWindow):
            start = number * self.rule.every
            end = start + window.items
        elif isinstance(self.rule, TimeWindow):
            start, end = self.rule.start(number), self.rule.end(number)
        bounds = zip(self.rule.bounds, (start, end), strict=False)
        return window.finish((self.key | self.first | {name: value for name, value in bounds if name},))


class Accumulators:
    """One region of an aggregate: every value seen, and the records of the user's folds."""

    def __init__(self, interpreter: Interpreter, node: n.Aggregate | n.KeyedAggregate, parents: Parents) -> None:
        self.items = 0
        self.interpreter, self.node = interpreter, node
        self.seen: dict[str, list[Any]] = {name: [] for name in node.results}
        self.folds = {name: fold.record() for name, fold in node.results.items() if isinstance(fold, n.Folding)}
        for name, record in self.folds.items():
            begin = node.results[name].begin  # type: ignore[union-attr]
            if begin is not None:
                interpreter.call(begin, merge_fields({}, parents) | {"self": record})

    def add(self, own: Own, parents: Parents) -> None:
        self.items += 1
        scope = merge_fields(own, parents)
        for name, result in self.node.results.items():
            if isinstance(result, Builtin):
                self.seen[name].append(None if result.field is None else scope[result.field])
            else:
                self.interpreter.call(result.run, scope | {"self": self.folds[name]})

    def finish(self, parents: Parents) -> Own:
        parent = parents[-1]
        own = {name: parent[name] for name in (*self.node.keep, KEY) if name in parent}
        for name, result in self.node.results.items():
            if isinstance(result, Builtin):
                own[name] = self._builtin(result, self.seen[name])
            else:
                own[name] = self.interpreter.call(result.end, merge_fields({}, parents) | {"self": self.folds[name]})[0]
        return own

    def _builtin(self, result: Builtin, seen: list[Any]) -> Any:
        if not seen and result.kind in NEEDS_AN_ITEM:
            if result.default is None:
                raise empty_region(self.node, str(result), self.interpreter.index)
            return accept(result.default, self.node.given.scope[result.field])  # type: ignore[index]
        value = _BUILTIN[result.kind](seen, result)
        if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
            raise sum_overflow(self.node, str(result), self.interpreter.index)
        return value


def _sum(seen: list[Any], result: Builtin) -> Any:
    total = 0
    for value in seen:
        total += value  # one by one: Python's own sum rounds floats in another way
    return total


def _mean(seen: list[Any], result: Builtin) -> float:
    total = 0.0
    for value in seen:
        total += float(value)
    return total / len(seen) if seen else math.nan


def _variance(seen: list[Any], result: Builtin) -> float:
    mean = squares = 0.0
    for count, value in enumerate(seen, 1):
        delta = float(value) - mean
        mean += delta / count
        squares += delta * (float(value) - mean)
    return squares / (len(seen) - result.ddof) if len(seen) > result.ddof else math.nan


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda seen, result: math.nan if any(value != value for value in seen) else choose(seen)


_BUILTIN: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "count": lambda seen, result: len(seen),
    "mean": _mean,
    "variance": _variance,
    "min": _extreme(min),
    "max": _extreme(max),
    "first": lambda seen, result: seen[0],
    "last": lambda seen, result: seen[-1],
    "to_list": lambda seen, result: seen,
}


def merge_fields(own: Own, parents: Parents) -> Own:
    merged: Own = {}
    for parent in parents:
        merged |= parent
    return merged | own


def key_fields(node: n.Step, key: tuple[Any, ...] | None) -> Own:
    """The fields of a key with their values. 0.0 and -0.0 are one key, which is 0.0."""
    values = [value + 0.0 if isinstance(value, float) else value for value in key or ()]
    return dict(zip(node.given.key_fields, values, strict=True))
