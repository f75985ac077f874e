"""Nodes that take items one by one, with a state or without."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import GraphError, quoted
from penstock.graph import types
from penstock.graph.function import Function, Undeclared, bind, parameter_fields
from penstock.graph.nodes.base import GraphNode, Shape, Step
from penstock.graph.record import Record, Signal, State


@dataclass(frozen=True, eq=False)
class Handler:
    """What a stateful node does when a signal of a type arrives: call `function`, and keep its result in `field`."""

    signal: type[Signal]
    function: Function
    field: str | None


@dataclass(frozen=True, eq=False)
class Stateful(Step):
    """The base of nodes that may hold state: one record a key, or one for the stream where it has no key."""

    state: type[Record] | None = None
    handlers: tuple[Handler, ...] = ()

    def _check_state(self) -> None:
        if self.state is not None and not (isinstance(self.state, type) and issubclass(self.state, State)):
            raise self.fail(f"state= must be a class derived from ps.State; got {self.state!r}")
        if self.state is not None:
            self._must_be_clear(self.given, "its state")

    @property
    def records(self) -> Mapping[str, type[Record]]:
        return {} if self.state is None else {"state": self.state}

    def on(self, signal: Any, function: Any, assigned: Mapping[str, Any]) -> Stateful:
        """This node with one more handler."""
        where = f"{self.label}: on {getattr(signal, '__name__', signal)!r}"
        if not (isinstance(signal, type) and issubclass(signal, Signal) and signal is not Signal):
            raise GraphError(f"{where}: must be a class derived from ps.Signal; got {signal!r}")
        if self.state is None:
            raise GraphError(
                f"{where}: only a node with state= can handle a signal; give this one a state, or put `on` after the "
                f"node that has it"
            )
        if (function is None) == (not assigned):
            raise GraphError(
                f"{where}: give a function of state and signal, or fields of the state with their functions"
            )
        return replace(self, handlers=(*self.handlers, *self._handlers(where, signal, function, assigned)))

    def _handlers(
        self, where: str, signal: type[Signal], function: Any, assigned: Mapping[str, Any]
    ) -> tuple[Handler, ...]:
        assert self.state is not None
        records = {"state": self.state, "signal": signal}
        if function is not None:
            return (Handler(signal, bind(where, function, {}, records, results=0), None),)
        made = []
        for name, give in assigned.items():
            if name not in self.state.layout.initial:
                raise GraphError(
                    f"{where}: {name!r} must be a field of the state; there are {quoted(self.state.layout.initial)}"
                )
            handler = Handler(signal, bind(where, give, {}, records), name)
            held = self.state.layout.dtype[name]
            if held.shape or not types.widens(handler.function.returns[0], types.from_view(types.View(held))):
                takes = "is an array, which a function of state and signal may set" if held.shape else f"holds {held}"
                raise GraphError(f"{where}: the field {name!r} {takes}; got {handler.function.returns[0]}")
            made.append(handler)
        return tuple(made)

    @property
    def _handler_functions(self) -> tuple[Function, ...]:
        return tuple(handler.function for handler in self.handlers)


@dataclass(frozen=True, eq=False)
class Map(Stateful):
    """Set fields of each item, each by a function. All functions see the item as it arrived."""

    given_functions: tuple[tuple[tuple[str, ...] | str, Any], ...] = ()

    @property
    def label(self) -> str:
        return f"map {', '.join(repr(n) for names, _ in self.given_functions for n in names_of(names))}"

    @cached_property
    def outputs(self) -> tuple[tuple[tuple[str, ...], Function], ...]:
        """The names that each function sets."""
        return tuple((names_of(names), self._bind_output(names, function)) for names, function in self.given_functions)

    def _bind_output(self, names: tuple[str, ...] | str, function: Any) -> Function:
        results = len(names) if isinstance(names, tuple) else None
        return self._bind("", function, records=self.records, results=results, probe=self._probe(self.records))

    def _shape(self) -> Shape:
        self._check_state()
        if not self.given_functions:
            raise self.fail("must set at least one field; got none; write map(field=function)")
        self._new_fields(tuple(n for names, _ in self.given_functions for n in names_of(names)), self.given.parents)
        fields = dict(self.given.fields)
        for names, function in self.outputs:
            fields |= dict(zip(names, function.returns, strict=True))
        return replace(self.given, fields=fields)

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(function for _, function in self.outputs) + self._handler_functions


def with_copies(node: GraphNode, copies: Any) -> GraphNode:
    """A node that copies may help; refused where these could not do the same."""
    check_copies(node, copies)
    if not isinstance(node, (Map, Filter, FlatMap, MapColumns, Select)):
        raise node.fail(
            "flexible: must be a map, filter, flat_map, map_columns or select, which look at one item at a time; name "
            "one of these"
        )
    if not can_have_copies(node):
        raise node.fail(
            "flexible: must remember nothing, because its items are shared out among copies; this node has a state; "
            "make a node before or behind it flexible"
        )
    return replace(node, copies=copies)


def check_copies(node: GraphNode, copies: Any) -> None:
    if not isinstance(copies, int) or isinstance(copies, bool) or copies < 1:
        raise node.fail(f"flexible: the number of copies must be a whole number of at least 1; got {copies!r}")


def can_have_copies(node: GraphNode) -> bool:
    """Whether a node looks at one item at a time, and remembers nothing."""
    if not isinstance(node, (Map, Filter, FlatMap, MapColumns, Select)):
        return False
    return not isinstance(node, Stateful) or (node.state is None and not node.has_end)


def with_title(node: GraphNode, title: Any) -> GraphNode:
    """The same node under a name of the user's choice."""
    if not isinstance(title, str) or not title:
        raise node.fail(f"named: the name of a step must be a text that is not empty; got {title!r}")
    if not node.inputs:
        raise node.fail("named: a source has its name where it is made, with name=; put `named` after a step")
    return replace(node, title=title)


def names_of(names: Any) -> tuple[str, ...]:
    return names if isinstance(names, tuple) else (names,)


@dataclass(frozen=True)
class ItemLimit:
    """How many items a limit lets pass: of the whole stream or, where it saves work upstream of one, of each task."""

    most: int
    is_by_task: bool = False

    def __str__(self) -> str:
        return f"limit {self.most}" + (" of each task" if self.is_by_task else "")


@dataclass(frozen=True, eq=False)
class Filter(Stateful):
    """Keep the items for which a function is true."""

    given_function: Any = None
    limit: ItemLimit | None = None
    """Where the function counts items and lets the first of them pass: how many, and of what."""

    @property
    def label(self) -> str:
        return "filter" if self.limit is None else str(self.limit)

    @property
    def given(self) -> Shape:
        """The shape of the items that arrive; a limit counts them all, whatever their keys."""
        shape = super().given
        return shape if self.limit is None else replace(shape, key=None, key_depth=0, unkeyed="")

    @cached_property
    def predicate(self) -> Function:
        bound = self._bind("", self.given_function, records=self.records, probe=self._probe(self.records))
        return predicate(self, bound)

    def _shape(self) -> Shape:
        self._check_state()
        with suppress(Undeclared):  # the shape does not depend on it
            _ = self.predicate
        return self.given

    @property
    def functions(self) -> tuple[Function, ...]:
        return (self.predicate, *self._handler_functions)


def predicate(node: Step, function: Function) -> Function:
    (t,) = function.returns
    if not (pt.is_boolean(t) or types.is_integer(t)):
        raise node.fail(f"must be decided by a boolean; {function.location} gives {t}")
    return function


@dataclass(frozen=True, eq=False)
class FlatMap(Stateful):
    """Give 0 to `at_most` new items for each: the function is a generator, and every `yield` a push.

    With `end`, a generator of the state is called when the stream ends: for every key that had an item here, in the
    order of their first items, or once where there is no key. Then the function need not push anything.
    """

    given_function: Any = None
    to: tuple[str, ...] | str = ()
    at_most: int = 1
    keep: tuple[str, ...] = ()
    given_end: Any = None

    @property
    def label(self) -> str:
        return f"flat_map {', '.join(map(repr, names_of(self.to)))}"

    @property
    def has_end(self) -> bool:
        return self.given_end is not None

    @cached_property
    def function(self) -> Function:
        results = len(self.to) if isinstance(self.to, tuple) else None
        if self.has_end and not _yields(self.given_function):
            return self._bind("", self.given_function, records=self.records, results=0)
        _must_yield(self, self.given_function)
        probe = self._probe(self.records)
        return self._bind("", self.given_function, records=self.records, results=results, yields=True, probe=probe)

    @cached_property
    def end(self) -> Function | None:
        if not self.has_end:
            return None
        _must_yield(self, self.given_end)
        results, scope = len(self.to) if isinstance(self.to, tuple) else None, self.given.key_fields
        return self._bind(" end", self.given_end, scope=scope, records=self.records, results=results, yields=True)

    def _shape(self) -> Shape:
        self._check_state()
        check_pushes(self, self.to, self.at_most)
        if self.has_end:
            self._check_end()
        among = self.given.key_fields if self.has_end else self.given.fields
        of = "of the key, because the end of the stream has no item" if self.has_end else "of the item"
        fields = {name: self._must_have(name, among, of) for name in self.keep}
        self._new_fields((*self.keep, *names_of(self.to)), self.given.parents)
        fields |= dict(zip(names_of(self.to), self.pushed_types, strict=True))
        return replace(self.given, fields=fields)

    def _check_end(self) -> None:
        if self.state is None:
            raise self.fail("end= is a function of the state; give a state=")
        if self.given.depth:
            raise self.fail(
                f"end= stands at the end of the stream, where no region is open; here {self.given.depth} are open; "
                f"close them before"
            )

    @property
    def pushed_types(self) -> tuple[pa.DataType, ...]:
        """The types of what is pushed, by the function and at the end."""
        found = [function.returns for function in (self.function, self.end) if function is not None]
        pushing = [returns for returns in found if returns]
        if len(set(pushing)) > 1:
            raise self.fail(f"the function and end= must push the same types; got {pushing[0]} and {pushing[1]}")
        return pushing[0]

    @property
    def functions(self) -> tuple[Function, ...]:
        return (self.function, *(() if self.end is None else (self.end,)), *self._handler_functions)

    @property
    def ending(self) -> tuple[Function, ...]:
        return () if self.end is None else (self.end,)


def _yields(function: Any) -> bool:
    function = getattr(function, "function", function)  # ps.returns(...)
    return inspect.isgeneratorfunction(getattr(function, "py_func", function))


def _must_yield(node: Step, function: Any) -> None:
    if not _yields(function):
        function = getattr(function, "function", function)
        raise node.fail(
            f"must be a generator, in which each yield is a push; got {function!r}; write `yield` instead of `return`"
        )


def check_pushes(node: Step, to: tuple[str, ...] | str, at_most: int) -> None:
    if not names_of(to):
        raise node.fail("must name the fields of the new items; got none; write to='field' or to=('a', 'b')")
    if not isinstance(at_most, int) or isinstance(at_most, bool) or not 1 <= at_most < 2**31:
        raise node.fail(
            f"at_most= must be the largest number of outputs an input may give, from 1 to {2**31 - 1}; got {at_most!r}"
        )


@dataclass(frozen=True, eq=False)
class MapColumns(Step):
    """Set fields by a function over whole Arrow columns. A row of the result may depend on that row alone."""

    function: Callable[..., Any]
    to: Mapping[str, Any]

    @property
    def label(self) -> str:
        return f"map_columns {quoted(self.to)}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The fields that the function takes."""
        return parameter_fields(self.label, self.function, self.given.scope)

    @cached_property
    def types(self) -> Mapping[str, pa.DataType]:
        return {name: types.declared_type(t, f"{self.label}: {name!r}") for name, t in self.to.items()}

    def _shape(self) -> Shape:
        if not callable(self.function) or not self.to:
            raise self.fail(
                "takes a function and the fields it sets with their types: map_columns(function, to={'x': float})"
            )
        self._new_fields(self.to, self.given.parents)
        _ = self.names
        return replace(self.given, fields={**self.given.fields, **self.types})


@dataclass(frozen=True, eq=False)
class Select(Step):
    """Keep only these fields of the item, in this order, under these names."""

    names: Mapping[str, str]

    @property
    def label(self) -> str:
        return f"select {quoted(self.names)}"

    def _shape(self) -> Shape:
        if not self.names:
            raise self.fail("must keep at least one field; got none")
        self._new_fields(self.names, self.given.parents)
        fields = {name: self._must_have(old, self.given.fields) for name, old in self.names.items()}
        return replace(self.given, fields=fields)
