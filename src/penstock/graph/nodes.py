"""The node kinds of a graph: frozen, and valid by construction.

A node knows the node before it, checks itself against that node's shape when it is made, and has a shape of its own: the
fields of its items, the regions they lie in, the key they are grouped by. There are no other kinds; each backend has a
rule for each of these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import GraphError, quoted
from penstock.graph import types
from penstock.graph.aggregate import Builtin
from penstock.graph.function import Function, bind
from penstock.graph.record import Fold, Node, Record, Signal, State

if TYPE_CHECKING:
    from penstock.graph.source import Items

Fields = Mapping[str, pa.DataType]


@dataclass(frozen=True, eq=False)
class Region:
    """A run of items that share a parent: the node that opens it, and the parent's shape."""

    opener: GraphNode
    parent: Shape
    fields: Fields
    opened: tuple[str, ...] = ()

    @property
    def is_found(self) -> bool:
        """Whether the boundaries are found in the stream, so that a region may span any number of batches."""
        return isinstance(self.opener, Regions)


@dataclass(frozen=True, eq=False)
class Shape:
    """What the items of a stream look like: own fields, enclosing regions from the outermost in, and the key."""

    fields: Fields
    regions: tuple[Region, ...] = ()
    key: KeyBy | None = None
    key_depth: int = 0

    @cached_property
    def parents(self) -> Fields:
        """The fields of all parents. Invariant: no two of them, and no field of the item, have the same name."""
        merged: dict[str, pa.DataType] = {}
        for region in self.regions:
            merged |= region.fields
        return MappingProxyType(merged)

    @cached_property
    def scope(self) -> Fields:
        """Every field that a function may name here."""
        return MappingProxyType({**self.parents, **self.fields})

    @property
    def depth(self) -> int:
        return len(self.regions)

    @property
    def is_keyed_here(self) -> bool:
        """Whether the items of the innermost region, and not the region as a whole, are spread over keys."""
        return self.key is not None and self.key_depth == self.depth


@dataclass(frozen=True, eq=False)
class GraphNode:
    """The base of all node kinds."""

    @property
    def label(self) -> str:
        """How messages and pictures name this node."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[GraphNode, ...]:
        return ()

    @cached_property
    def shape(self) -> Shape:
        return self._shape()

    def _shape(self) -> Shape:
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Function, ...]:
        """All functions of the user's in this node."""
        return ()

    @property
    def source(self) -> Source:
        node: GraphNode = self
        while not isinstance(node, Source):
            (node,) = node.inputs
        return node

    def fail(self, text: str) -> GraphError:
        return GraphError(f"{self.label}: {text}")

    def _new_fields(self, names: Mapping[str, Any] | tuple[str, ...], parents: Fields) -> None:
        for name in names:
            if not isinstance(name, str) or not name or name.startswith("#"):
                raise self.fail(f"a field's name must be a string that does not begin with '#'; got {name!r}")
            if name in parents:
                raise self.fail(f"a field may not have the name of a parent's field; got {name!r}; choose another name")
        if len(set(names)) < len(names):
            raise self.fail(f"fields must have different names; got {quoted(names)}")

    def _must_have(self, name: str, fields: Fields, of: str = "of the item") -> pa.DataType:
        if not isinstance(name, str) or name not in fields:
            raise self.fail(
                f"{name!r} must be a field {of}; there are {quoted(fields)}{types.nearest(str(name), fields)}"
            )
        return fields[name]


@dataclass(frozen=True, eq=False)
class Source(GraphNode):
    """The items, in their order."""

    items: Items
    name: str = "source"

    @property
    def label(self) -> str:
        return f"source {self.name!r}"

    def _shape(self) -> Shape:
        return Shape(MappingProxyType(dict(self.items.fields)))


@dataclass(frozen=True, eq=False)
class Step(GraphNode):
    """A node with one input."""

    before: GraphNode

    def __post_init__(self) -> None:
        _ = self.shape

    @property
    def inputs(self) -> tuple[GraphNode, ...]:
        return (self.before,)

    @property
    def given(self) -> Shape:
        """The shape of the items that arrive."""
        return self.before.shape

    def _bind(self, what: str, function: Any, **options: Any) -> Function:
        return bind(f"{self.label}{what}", function, options.pop("scope", self.given.scope), **options)

    def _probe(self, records: Mapping[str, type[Record]]) -> Callable[[Function], Any]:
        from penstock.graph.reference import first_result

        return lambda function: first_result(self.before, function, records)


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
                if value is None:
                    raise ValueError
                pa.scalar(value, innermost)
            except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError):
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

    @property
    def records(self) -> Mapping[str, type[Record]]:
        return {} if self.state is None else {"state": self.state}

    def on(self, signal: Any, function: Any, assigned: Mapping[str, Any]) -> Stateful:
        """This node with one more handler."""
        where = f"{self.label}: on {getattr(signal, '__name__', signal)!r}"
        if not (isinstance(signal, type) and issubclass(signal, Signal) and signal is not Signal):
            raise GraphError(f"{where}: must be a class derived from ps.Signal; got {signal!r}")
        if self.state is None:
            raise GraphError(f"{where}: only a node with state= can handle a signal; give this one a state, or put `on` after the node that has it")
        if (function is None) == (not assigned):
            raise GraphError(f"{where}: give a function of state and signal, or fields of the state with their functions")
        return replace(self, handlers=(*self.handlers, *self._handlers(where, signal, function, assigned)))

    def _handlers(self, where: str, signal: type[Signal], function: Any, assigned: Mapping[str, Any]) -> tuple[Handler, ...]:
        assert self.state is not None
        records = {"state": self.state, "signal": signal}
        if function is not None:
            return (Handler(signal, bind(where, function, {}, records, results=0), None),)
        made = []
        for name, give in assigned.items():
            if name not in self.state.layout.initial:
                raise GraphError(f"{where}: {name!r} must be a field of the state; there are {quoted(self.state.layout.initial)}")
            made.append(Handler(signal, bind(where, give, {}, records), name))
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
        return f"map {', '.join(repr(n) for names, _ in self.given_functions for n in _tuple(names))}"

    @cached_property
    def outputs(self) -> tuple[tuple[tuple[str, ...], Function], ...]:
        """The names that each function sets."""
        return tuple((_tuple(names), self._bound(names, function)) for names, function in self.given_functions)

    def _bound(self, names: tuple[str, ...] | str, function: Any) -> Function:
        results = len(names) if isinstance(names, tuple) else None
        return self._bind("", function, records=self.records, results=results, probe=self._probe(self.records))

    def _shape(self) -> Shape:
        self._check_state()
        if not self.given_functions:
            raise self.fail("must set at least one field; got none; write map(field=function)")
        self._new_fields(tuple(n for names, _ in self.given_functions for n in _tuple(names)), self.given.parents)
        fields = dict(self.given.fields)
        for names, function in self.outputs:
            fields |= dict(zip(names, function.returns, strict=True))
        return replace(self.given, fields=MappingProxyType(fields))

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(function for _, function in self.outputs) + self._handler_functions


def _tuple(names: Any) -> tuple[str, ...]:
    return names if isinstance(names, tuple) else (names,)


@dataclass(frozen=True, eq=False)
class Filter(Stateful):
    """Keep the items for which a function is true."""

    given_function: Any = None

    @property
    def label(self) -> str:
        return "filter"

    @cached_property
    def predicate(self) -> Function:
        bound = self._bind("", self.given_function, records=self.records, probe=self._probe(self.records))
        return _predicate(self, bound)

    def _shape(self) -> Shape:
        self._check_state()
        _ = self.predicate
        return self.given

    @property
    def functions(self) -> tuple[Function, ...]:
        return (self.predicate, *self._handler_functions)


def _predicate(node: Step, function: Function) -> Function:
    (t,) = function.returns
    if not (pt.is_boolean(t) or types.is_integer(t)):
        raise node.fail(f"must be decided by a boolean; {function.location} gives {t}")
    return function


@dataclass(frozen=True, eq=False)
class FlatMap(Stateful):
    """Give 0 to `at_most` new items for each: the function is a generator, and every `yield` a push."""

    given_function: Any = None
    to: tuple[str, ...] | str = ()
    at_most: int = 1
    keep: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"flat_map {', '.join(map(repr, _tuple(self.to)))}"

    @cached_property
    def function(self) -> Function:
        results = len(self.to) if isinstance(self.to, tuple) else None
        _must_yield(self, self.given_function)
        return self._bind("", self.given_function, records=self.records, results=results, probe=self._probe(self.records))

    def _shape(self) -> Shape:
        self._check_state()
        _check_pushes(self, self.to, self.at_most)
        fields = {name: self._must_have(name, self.given.fields) for name in self.keep}
        self._new_fields((*self.keep, *_tuple(self.to)), self.given.parents)
        fields |= dict(zip(_tuple(self.to), self.function.returns, strict=True))
        return replace(self.given, fields=MappingProxyType(fields))

    @property
    def functions(self) -> tuple[Function, ...]:
        return (self.function, *self._handler_functions)


def _must_yield(node: Step, function: Any) -> None:
    function = getattr(function, "function", function)  # ps.returns(...)
    if not inspect.isgeneratorfunction(getattr(function, "py_func", function)):
        raise node.fail(f"must be a generator, in which each yield is a push; got {function!r}; write `yield` instead of `return`")


def _check_pushes(node: Step, to: tuple[str, ...] | str, at_most: int) -> None:
    if not _tuple(to):
        raise node.fail("must name the fields of the new items; got none; write to='field' or to=('a', 'b')")
    if not isinstance(at_most, int) or isinstance(at_most, bool) or at_most < 1:
        raise node.fail(f"at_most= must be the largest number of outputs an input may give, at least 1; got {at_most!r}")


@dataclass(frozen=True, eq=False)
class Through(Step):
    """A node with hooks of the user's own: begin, run and end, each of which may push."""

    hooks: type[Node] = Node
    to: tuple[str, ...] | str = ()
    at_most: int = 1

    @property
    def label(self) -> str:
        return f"through {getattr(self.hooks, '__name__', self.hooks)!r}"

    def _hook(self, name: str, scope: Fields) -> Function | None:
        hook = getattr(self.hooks, name, None)
        if hook is None:
            return None
        if not inspect.isgeneratorfunction(hook):
            return self._bind(f".{name}", hook, scope=scope, records=self.records, results=0)
        results = len(self.to) if isinstance(self.to, tuple) else None
        return self._bind(f".{name}", hook, scope=scope, records=self.records, results=results)

    @property
    def records(self) -> Mapping[str, type[Record]]:
        return {"self": self.hooks}

    @cached_property
    def begin(self) -> Function | None:
        return self._hook("begin", self.given.parents)

    @cached_property
    def run(self) -> Function:
        hook = self._hook("run", self.given.scope)
        if hook is None:
            raise self.fail("must have a method run; got none")
        return hook

    @cached_property
    def end(self) -> Function | None:
        return self._hook("end", self.given.parents)

    def _shape(self) -> Shape:
        if not (isinstance(self.hooks, type) and issubclass(self.hooks, Node)):
            raise self.fail(f"must be a class derived from ps.Node; got {self.hooks!r}")
        if self.given.is_keyed_here:
            raise self.fail("its hooks belong to a region, and after key_by each key has an order of its own; use state= instead")
        _check_pushes(self, self.to, self.at_most)
        self._new_fields(_tuple(self.to), self.given.parents)
        pushing = [hook for hook in self.functions if hook.returns]
        if not pushing:
            raise self.fail("must push something; none of begin, run and end has a yield")
        if len({hook.returns for hook in pushing}) > 1:
            raise self.fail(f"its hooks must push the same types; got {', '.join(str(hook.returns) for hook in pushing)}")
        return replace(self.given, fields=MappingProxyType(dict(zip(_tuple(self.to), pushing[0].returns, strict=True))))

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(hook for hook in (self.begin, self.run, self.end) if hook is not None)


@dataclass(frozen=True, eq=False)
class Enumerate(Step):
    """Open each item: its elements become the items, and it becomes their parent."""

    name: str
    as_: str
    index: str | None = None

    @property
    def label(self) -> str:
        return f"enumerate {self.name!r}"

    @cached_property
    def elements(self) -> tuple[tuple[str, str], ...]:
        """The list fields that are opened together and the names of their elements: several for a list of structs."""
        fields = self.given.fields
        if self.name in fields:
            return ((self.name, self.as_),)
        inner = [name for name in fields if name.startswith(f"{self.name}.")]
        if not inner:
            self._must_have(self.name, fields)
        return tuple((name, f"{self.as_}{name[len(self.name):]}") for name in inner)

    def _shape(self) -> Shape:
        made: dict[str, pa.DataType] = {}
        for name, element_name in self.elements:
            element = types.element_of(self.given.fields[name])
            if element is None:
                raise self.fail(f"{name!r} must be a list, an array, a string or bytes; got {self.given.fields[name]}")
            made[element_name] = element
        names = (*made, *(() if self.index is None else (self.index,)))
        self._new_fields(names, self.given.scope)
        if self.index is not None:
            made[self.index] = pa.int64()
        region = Region(self, self.given, self.given.fields, tuple(name for name, _ in self.elements))
        return replace(self.given, fields=MappingProxyType(made), regions=(*self.given.regions, region))


@dataclass(frozen=True, eq=False)
class Regions(Step):
    """Find regions in the stream: one begins with the first item, and wherever `start` holds or a field changes.

    The fields of `by`, and those that `keep` takes from the first item, become the parent's.
    """

    given_start: Any = None
    by: tuple[str, ...] = ()
    keep: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"regions by {quoted(self.by)}" if self.by else "regions"

    @cached_property
    def start(self) -> Function | None:
        if self.given_start is None:
            return None
        return _predicate(self, self._bind("", self.given_start, probe=self._probe({})))

    def _shape(self) -> Shape:
        if (self.given_start is None) == (not self.by):
            raise self.fail("give start=predicate or by=field, and not both")
        if self.given.is_keyed_here:
            raise self.fail("regions lie in the stream's own order, and after key_by each key has one of its own; find the regions before key_by")
        _ = self.start
        parent = {name: self._must_have(name, self.given.fields) for name in self.by}
        for name, t in parent.items():
            if types.is_list(t) or types.is_array(t):
                raise self.fail(f"by= takes numbers, times, strings and bytes; {name!r} is {t}")
        taken = {name: self._must_have(old, self.given.fields) for name, old in self.keep.items()}
        own = {name: t for name, t in self.given.fields.items() if name not in parent}
        self._new_fields(tuple(taken), {**self.given.parents, **self.given.fields})
        if not own:
            raise self.fail("the items must keep a field beside those of by=; got none")
        region = Region(self, self.given, MappingProxyType({**parent, **taken}))
        return replace(self.given, fields=MappingProxyType(own), regions=(*self.given.regions, region))

    @property
    def functions(self) -> tuple[Function, ...]:
        return () if self.start is None else (self.start,)


@dataclass(frozen=True, eq=False)
class Folding:
    """A fold of the user's, bound: begin and end see the parents, run sees the item too."""

    record: type[Fold]
    begin: Function | None
    run: Function
    end: Function

    def __str__(self) -> str:
        return self.record.__name__


@dataclass(frozen=True, eq=False)
class Aggregate(Step):
    """Close the innermost region: one item for each, with the parent's fields and the aggregates."""

    given_results: Mapping[str, Any]
    given_keep: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        return f"aggregate {quoted(self.given_results)}"

    @property
    def region(self) -> Region:
        if not self.given.regions:
            raise self.fail("must stand inside a region, and none is open here; open one with enumerate or regions")
        return self.given.regions[-1]

    @cached_property
    def results(self) -> Mapping[str, Builtin | Folding]:
        return {name: self._result(name, given) for name, given in self.given_results.items()}

    def _result(self, name: str, given: Any) -> Builtin | Folding:
        if isinstance(given, Builtin):
            return given
        if not (isinstance(given, type) and issubclass(given, Fold)):
            raise self.fail(f"{name!r} must be an aggregate such as ps.sum('v'), or a class derived from ps.Fold; got {given!r}")
        records, parents = {"self": given}, self.given.parents
        for hook in ("run", "end"):
            if not callable(getattr(given, hook, None)):
                raise self.fail(f"the fold {given.__name__} must have a method {hook}; got none")
        begin = None
        if given.begin is not None:
            begin = self._bind(f" {given.__name__}.begin", given.begin, scope=parents, records=records, results=0)
        run = self._bind(f" {given.__name__}.run", given.run, records=records, results=0)  # type: ignore[attr-defined]
        end = self._bind(f" {given.__name__}.end", given.end, scope=parents, records=records)  # type: ignore[attr-defined]
        return Folding(given, begin, run, end)

    @cached_property
    def keep(self) -> tuple[str, ...]:
        """The parent's fields in the result: as asked for, or all but the list that was opened."""
        if self.given_keep is None:
            return tuple(name for name in self.region.fields if name not in self.region.opened)
        for name in self.given_keep:
            self._must_have(name, self.region.fields, "of the parent")
        return self.given_keep

    def _shape(self) -> Shape:
        region = self.region
        if not self.given_results:
            raise self.fail("must give at least one result; got none; write aggregate(total=ps.sum('v'))")
        fields = {name: region.fields[name] for name in self.keep}
        self._new_fields(tuple(self.given_results), {**region.parent.parents, **fields})
        for name, result in self.results.items():
            if isinstance(result, Builtin):
                fields[name] = result.result_type(self.label, self.given.scope)
            else:
                fields[name] = result.end.returns[0]
        return replace(region.parent, fields=MappingProxyType(fields))

    @property
    def functions(self) -> tuple[Function, ...]:
        folds = [result for result in self.results.values() if isinstance(result, Folding)]
        return tuple(f for fold in folds for f in (fold.begin, fold.run, fold.end) if f is not None)


@dataclass(frozen=True, eq=False)
class Close(Step):
    """Strip the innermost region: its items stay, with the parent's fields that are named."""

    keep: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return "close"

    def _shape(self) -> Shape:
        if not self.given.regions:
            raise self.fail("there must be an open region to close, and none is open here; was it closed before?")
        region = self.given.regions[-1]
        kept = {name: self._must_have(name, region.fields, "of the parent") for name in self.keep}
        fields = MappingProxyType({**kept, **self.given.fields})
        depth = min(self.given.key_depth, self.given.depth - 1)
        return replace(self.given, fields=fields, regions=self.given.regions[:-1], key_depth=depth)


@dataclass(frozen=True, eq=False)
class KeyBy(Step):
    """Group the items by fields: from here on, state belongs to a key."""

    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"key_by {quoted(self.names)}"

    def _shape(self) -> Shape:
        if not self.names:
            raise self.fail("must name at least one field; got none")
        for name in self.names:
            t = self._must_have(name, self.given.scope, "of the item or of a parent")
            if not (types.is_scalar(t) or types.is_text(t)):
                raise self.fail(f"a key must be numbers, booleans, times, strings or bytes; {name!r} is {t}")
        return replace(self.given, key=self, key_depth=self.given.depth)


@dataclass(frozen=True, eq=False)
class Emit(Step):
    """Place a signal after each item for which `when` holds."""

    signal: type[Signal]
    given_when: Any
    given_values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"emit {getattr(self.signal, '__name__', self.signal)!r}"

    @cached_property
    def when(self) -> Function:
        return _predicate(self, self._bind("", self.given_when, probe=self._probe({})))

    @cached_property
    def values(self) -> Mapping[str, Function]:
        return {name: self._bind(f" {name}", function) for name, function in self.given_values.items()}

    def _shape(self) -> Shape:
        if not (isinstance(self.signal, type) and issubclass(self.signal, Signal) and self.signal is not Signal):
            raise self.fail(f"must be a class derived from ps.Signal; got {self.signal!r}")
        _ = self.when
        initial = self.signal.layout.initial
        for name, function in self.values.items():
            if name not in initial:
                raise self.fail(f"{name!r} must be a field of the signal; there are {quoted(initial)}")
            wanted = types.from_view(types.View(self.signal.layout.dtype[name]))  if self.signal.layout.dtype[name].shape == () else None
            if wanted is None or not types.widens(function.returns[0], wanted):
                raise self.fail(f"the signal's field {name!r} takes {wanted or 'no computed value'}; {function.location} gives {function.returns[0]}")
        return self.given

    @property
    def functions(self) -> tuple[Function, ...]:
        return (self.when, *self.values.values())


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
        from penstock.graph.function import _parameters

        return tuple(p.field for p in _parameters(self.label, self.function, self.given.scope, {}))

    @cached_property
    def types(self) -> Mapping[str, pa.DataType]:
        return {name: types.declared(t, f"{self.label}: {name!r}") for name, t in self.to.items()}

    def _shape(self) -> Shape:
        if not callable(self.function) or not self.to:
            raise self.fail("takes a function and the fields it sets with their types: map_columns(function, to={'x': float})")
        self._new_fields(self.to, self.given.parents)
        _ = self.names
        return replace(self.given, fields=MappingProxyType({**self.given.fields, **self.types}))


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
        return replace(self.given, fields=MappingProxyType(fields))


KINDS: tuple[type[GraphNode], ...] = (
    Source, DropNulls, FillNull, Map, Filter, FlatMap, Through, Enumerate, Regions, Aggregate, Close, KeyBy, Emit,
    MapColumns, Select,
)  # fmt: skip
"""All node kinds. A backend has a rule for each of them; a test demands it."""
