"""What an aggregate computes: built-ins and folds of the user's, bound to the fields that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.graph.aggregate import Builtin
from penstock.graph.function import Function
from penstock.graph.nodes.base import Fields, Step
from penstock.graph.record import Fold


@dataclass(frozen=True, eq=False)
class Folding:
    """A fold of the user's, bound: begin and end see what the items share, run sees the item too."""

    record: type[Fold]
    begin: Function | None
    run: Function
    end: Function

    def __str__(self) -> str:
        return self.record.__name__


def bind_result(node: Step, name: str, given: Any, begins_with: Fields, ends_with: Fields) -> Builtin | Folding:
    """A result of an aggregate. A fold's `begin` may name the fields `begins_with`, its `end` those `ends_with`."""
    if isinstance(given, Builtin):
        return given
    if not (isinstance(given, type) and issubclass(given, Fold)):
        raise node.fail(
            f"{name!r} must be an aggregate such as ps.sum('v'), or a class derived from ps.Fold; got {given!r}"
        )
    for hook in ("run", "end"):
        if not callable(getattr(given, hook, None)):
            raise node.fail(f"the fold {given.__name__} must have a method {hook}; got none")
    where, records = f" {given.__name__}", {"self": given}
    begin = None
    if given.begin is not None:
        begin = node._bind(f"{where}.begin", given.begin, scope=begins_with, records=records, results=0)
    run = node._bind(f"{where}.run", given.run, records=records, results=0)  # type: ignore[attr-defined]
    end = node._bind(f"{where}.end", given.end, scope=ends_with, records=records)  # type: ignore[attr-defined]
    return Folding(given, begin, run, end)


def types_of(node: Step, results: Mapping[str, Builtin | Folding]) -> dict[str, pa.DataType]:
    """The types of the results, after checking that each field exists and can be aggregated so."""
    scope = node.given.scope
    return {
        name: result.result_type(node.label, scope) if isinstance(result, Builtin) else result.end.returns[0]
        for name, result in results.items()
    }


def functions_of(results: Mapping[str, Builtin | Folding]) -> tuple[Function, ...]:
    folds = [result for result in results.values() if isinstance(result, Folding)]
    return tuple(f for fold in folds for f in (fold.begin, fold.run, fold.end) if f is not None)
