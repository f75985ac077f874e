"""What all nodes have: the shape of their items, and the checks on names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.errors import GraphError, quoted
from penstock.graph import types
from penstock.graph.function import RESOLVING, Function, Undeclared, bind, undeclared_error
from penstock.graph.hidden import is_hidden
from penstock.graph.record import Record

if TYPE_CHECKING:
    from penstock.graph.nodes.keyed import KeyBy
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
        return self.opener.finds_regions


@dataclass(frozen=True, eq=False)
class Shape:
    """What the items of a stream look like: own fields, enclosing regions from the outermost in, and the key."""

    fields: Fields
    regions: tuple[Region, ...] = ()
    key: KeyBy | None = None
    key_depth: int = 0
    unkeyed: str = ""
    """Why there is no one key, where streams of several keys have met; empty elsewhere. What needs a key fails with it.

    Invariant: it is empty where there is a key; else `key_depth` is how many regions were open there.
    """

    @cached_property
    def parents(self) -> Fields:
        """The fields of all parents. Invariant: no two of them, and no field of the item, have the same name."""
        merged: dict[str, pa.DataType] = {}
        for region in self.regions:
            merged |= region.fields
        return merged

    @cached_property
    def scope(self) -> Fields:
        """Every field that a function may name here."""
        return {**self.parents, **self.fields}

    @property
    def depth(self) -> int:
        return len(self.regions)

    @cached_property
    def key_fields(self) -> Fields:
        """The fields of the key, as they were where it was given; none without a key."""
        return {} if self.key is None else {name: self.key.given.scope[name] for name in self.key.names}

    @property
    def is_keyed_here(self) -> bool:
        """Whether the items of the innermost region, and not the region as a whole, are spread over keys."""
        return self.key is not None and self.key_depth == self.depth

    @property
    def is_unkeyed_here(self) -> bool:
        """Whether the items of the innermost region come from streams of several keys."""
        return bool(self.unkeyed) and self.key_depth == self.depth


@dataclass(frozen=True, eq=False)
class GraphNode:
    """The base of all node kinds."""

    finds_regions: ClassVar[bool] = False

    copies: int = field(default=0, kw_only=True)
    """How many copies of this node may help it, on other cores."""
    core: int | None = field(default=None, kw_only=True)
    """Which core this node is to be at work on, where there are several."""
    title: str | None = field(default=None, kw_only=True)
    """The name by which a checkpoint and options know this step, where the user chose one."""

    @property
    def label(self) -> str:
        """How messages and pictures name this node."""
        raise NotImplementedError

    @property
    def heading(self) -> str:
        """How reports name this node: by the name that the user gave it, too."""
        return self.label if self.title is None else f"{self.title} ({self.label})"

    @property
    def inputs(self) -> tuple[GraphNode, ...]:
        return ()

    @cached_property
    def shape(self) -> Shape:
        """The fields, regions and key of the items that leave. `Undeclared` where a call has to show a type first.

        Invariant: `_undeclared` is there exactly as long as the shape is not known for that reason.
        """
        if not RESOLVING.get() and (asked := self.__dict__.get("_undeclared")) is not None:
            raise asked.with_traceback(None)
        try:
            shape = self._shape()
        except Undeclared as error:
            self.__dict__["_undeclared"] = error
            raise
        self.__dict__.pop("_undeclared", None)
        return shape

    def _shape(self) -> Shape:
        raise NotImplementedError

    @property
    def functions(self) -> tuple[Function, ...]:
        """All functions of the user's in this node."""
        return ()

    @property
    def has_end(self) -> bool:
        """Whether this node gives items of its own when the stream ends, for every key."""
        return False

    @property
    def ending(self) -> tuple[Function, ...]:
        """Those of the functions that are called on a key and not on an item."""
        return ()

    @property
    def source(self) -> Source:
        node: GraphNode = self
        while not isinstance(node, Source):
            node = node.inputs[0]
        return node

    def fail(self, text: str) -> GraphError:
        return GraphError(f"{self.label}: {text}")

    def _new_fields(self, names: Mapping[str, Any] | tuple[str, ...], parents: Fields) -> None:
        for name in names:
            if not isinstance(name, str) or not name or is_hidden(name):
                raise self.fail(f"a field's name must be a string that does not begin with '#'; got {name!r}")
            if name in parents:
                raise self.fail(f"a field may not have the name of a parent's field; got {name!r}; choose another name")
        if len(set(names)) < len(names):
            raise self.fail(f"fields must have different names; got {quoted(names)}")

    def _must_be_clear(self, given: Shape, what: str) -> None:
        """Refuse what belongs to a key, or to the whole stream, where streams of several keys have met."""
        if given.unkeyed:
            raise self.fail(f"{what} must belong to one key, or to a stream that has none; {given.unkeyed}")

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
        return Shape(dict(self.items.fields))


@dataclass(frozen=True, eq=False)
class Step(GraphNode):
    """A node with one input."""

    before: GraphNode

    def __post_init__(self) -> None:
        with suppress(Undeclared):  # then it is checked when a run starts
            _ = self.shape

    @property
    def inputs(self) -> tuple[GraphNode, ...]:
        return (self.before,)

    @property
    def given(self) -> Shape:
        """The shape of the items that arrive."""
        return self.before.shape

    def _bind(self, what: str, function: Any, **options: Any) -> Function:
        scope = options.pop("scope", None)
        scope = self.given.scope if scope is None else scope
        return bind(f"{self.label}{what}", function, scope, warned=self.__dict__.get("_warned", ()), **options)

    def _probe(self, records: Mapping[str, type[Record]]) -> Callable[[Function], Any]:
        from penstock.graph.reference import first_result

        def probe(function: Function) -> Any:
            if RESOLVING.get():
                return first_result(self.before, function, records)
            self.__dict__["_warned"] = (*self.__dict__.get("_warned", ()), function.call)
            raise undeclared_error(function)

        return probe


def resolve(nodes: Iterable[GraphNode]) -> None:
    """Make the types of all results known as a run starts: functions that tell theirs in no other way are called.

    Requires nodes in the order of the stream.
    """
    before = RESOLVING.set(True)
    try:
        for node in nodes:
            _ = node.shape, node.functions
    finally:
        RESOLVING.reset(before)
