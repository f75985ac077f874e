"""Streams that part and meet again: `align`, `merge`, and what `Stream.split` makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError
from penstock.graph import nodes, types
from penstock.graph.function import Returns, parameter_fields
from penstock.graph.record import State
from penstock.graph.stream import Stream

Cases = Mapping[tuple[int, ...], Callable[..., Any]]


def align(
    *sides: Stream,
    how: str | Cases = "inner",
    fill: Mapping[str, Any] | None = None,
    present: Sequence[str] = (),
    to: str | tuple[str, ...] | None = None,
) -> Stream:
    """Bring together what several branches of one source have made of each item: by index, in order.

    A side that has dropped an item lacks its index. With `how="inner"` there is an item where all sides have the index,
    with the fields of all. With `how="outer"` there is one where any side has it: `fill=` gives the values of fields
    that may be missing, and `present=` names a boolean field for each side. Or `how=` gives a function for each set of
    sides that is to count, `{(0, 1): f, (0,): g}`: it may name the fields of those sides, and its result becomes the
    field `to`; where another set of sides has the index, there is no item. A field that several sides have must be the
    same in all, unchanged since they parted. Where all sides are grouped by the same key, so is the result; else write
    `key_by` behind the align before a step with `state=`.

    >>> import penstock as ps
    >>> items = ps.from_items([{"v": v} for v in (1, 2, 3, 4)])
    >>> even = items.filter(lambda v: v % 2 == 0).map(half=lambda v: v // 2)
    >>> big = items.filter(lambda v: v > 2).map(square=lambda v: v * v)
    >>> ps.align(even, big).collect().to_pylist()
    [{'v': 4, 'half': 2, 'square': 16}]
    >>> ps.align(even, big, how="outer", fill={"half": 0, "square": 0}).collect().to_pylist()[0]
    {'v': 2, 'half': 1, 'square': 0}
    >>> cases = {(0, 1): lambda half, square: square - half, (1,): lambda square: -square}
    >>> ps.align(even, big, how=cases, to="w").collect().to_pylist()
    [{'v': 3, 'w': -9}, {'v': 4, 'w': 14}]
    """
    inputs = _nodes("align", sides)
    if isinstance(how, Mapping):
        if fill is not None or present:
            raise GraphError("align: fill= and present= belong to how='outer'; got functions for sets of sides")
        return _by_case(inputs, how, to)
    if how not in ("inner", "outer"):
        raise GraphError(
            f"align: how= must be 'inner', 'outer', or functions by sets of sides such as {{(0, 1): f}}; got {how!r}"
        )
    if to is not None or (how == "inner" and (fill is not None or present)):
        raise GraphError("align: to= belongs to functions for sets of sides, fill= and present= to how='outer'")
    return _with_key(nodes.Join(inputs, how == "outer", dict(fill or {}), tuple(present)))


def merge(*sides: Stream) -> Stream:
    """Put branches of one source back into one stream, in the order of the index; of one index, in that of the sides.

    All must have the same fields. Keys are as with `align`.

    >>> import penstock as ps
    >>> items = ps.from_items([{"v": v} for v in (1, 2, 3)])
    >>> odd, even = items.split(lambda v: v % 2 == 1, lambda v: v % 2 == 0)
    >>> ps.merge(even.map(v=lambda v: 10 * v), odd).collect().to_pydict()
    {'v': [1, 20, 3]}
    """
    return _with_key(nodes.Merge(_nodes("merge", sides)))


def _with_key(meet: nodes.Meet) -> Stream:
    """What has met, grouped again by the key that all sides have."""
    return Stream(nodes.KeyBy(meet, meet.kept_key, True) if meet.kept_key else meet)


def _nodes(what: str, sides: Sequence[Any]) -> tuple[nodes.GraphNode, ...]:
    for side in sides:
        if not isinstance(side, Stream):
            raise GraphError(f"{what}: brings streams together; got {side!r}")
    return tuple(side.node for side in sides)


def _by_case(sides: tuple[nodes.GraphNode, ...], cases: Cases, to: str | tuple[str, ...] | None) -> Stream:
    """A join that knows which sides are there, and for each case a branch that ends in one stream."""
    _check_cases(sides, cases, to)
    assert to is not None
    taken = {name for side in sides for name in side.shape.scope}
    present = _free_names("_has", len(sides), taken)
    fields = {name: t for side in sides for name, t in side.shape.fields.items() if types.is_scalar(t)}
    zeros = {name: False if pa.types.is_boolean(t) else 0 for name, t in fields.items()}
    joined = nodes.Join(sides, True, zeros, present, len(cases))
    kept = {name: name for name in joined.side_of if name in joined.shared}
    names = to if isinstance(to, tuple) else (to,)
    branches = []
    for case, function in cases.items():
        terms = [name if at in case else f"not {name}" for at, name in enumerate(present)]
        here = nodes.Filter(joined, None, (), eval(f"lambda {', '.join(present)}: {' and '.join(terms)}"))
        made = nodes.Map(here, None, (), ((to, function),))
        branches.append(nodes.Select(made, kept | dict(zip(names, names, strict=True))))
    last = branches[0] if len(branches) == 1 else nodes.Merge(tuple(branches))
    has_key = joined.kept_key and set(joined.kept_key) <= kept.keys() - set(names)
    return Stream(nodes.KeyBy(last, joined.kept_key, True) if has_key else last)


def _check_cases(sides: tuple[nodes.GraphNode, ...], cases: Cases, to: Any) -> None:
    if not to or not cases:
        raise GraphError("align: functions for sets of sides need to=, the field that they give; and at least one")
    for case, function in cases.items():
        known = isinstance(case, tuple) and case and len(set(case)) == len(case)
        if not known or not all(isinstance(at, int) and 0 <= at < len(sides) for at in case):
            raise GraphError(
                f"align: a set of sides is a tuple of their numbers, from 0 to {len(sides) - 1}; got {case!r}"
            )
        scope = {name: t for at in case for name, t in sides[at].shape.scope.items()}
        plain = function.function if isinstance(function, Returns) else function
        parameter_fields(f"align {case}", plain, scope)


def _free_names(prefix: str, number: int, taken: set[str]) -> tuple[str, ...]:
    """Names that nobody has."""
    free = (f"{prefix}{at}" for at in count())
    names = (name for name in free if name not in taken)
    return tuple(next(names) for _ in range(number))


def split(stream: Stream, routes: Sequence[Any], outputs: int | None, state: type[State] | None) -> tuple[Stream, ...]:
    """One stream for each of several conditions; or for each truth that one function gives."""
    if outputs is None:
        if not routes:
            raise GraphError("split: takes a condition for each output; got none")
        return tuple(Stream(nodes.Filter(stream.node, state, (), route)) for route in routes)
    if len(routes) != 1 or not isinstance(outputs, int) or outputs < 1:
        raise GraphError(
            f"split: with outputs= one function gives a tuple of so many truths; got {len(routes)} functions and "
            f"outputs={outputs!r}"
        )
    fields = stream.node.shape.fields
    names = _free_names("_to", outputs, set(stream.node.shape.scope))
    decided = nodes.Map(stream.node, state, (), ((names if outputs > 1 else names[0], routes[0]),))
    streams = []
    for name in names:
        kept = nodes.Filter(decided, None, (), eval(f"lambda {name}: {name}"))
        streams.append(Stream(nodes.Select(kept, {each: each for each in fields})))
    return tuple(streams)
