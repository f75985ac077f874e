"""Nodes that open, cross and close regions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import quoted
from penstock.graph import types
from penstock.graph.aggregate import Builtin
from penstock.graph.function import Function
from penstock.graph.nodes.base import Fields, Region, Shape, Step
from penstock.graph.nodes.folds import Folding, bind_result, functions_of, types_of
from penstock.graph.nodes.items import check_pushes, names_of, predicate
from penstock.graph.record import Operator, Record


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
        return tuple((name, f"{self.as_}{name[len(self.name) :]}") for name in inner)

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
        return replace(self.given, fields=made, regions=(*self.given.regions, region))


@dataclass(frozen=True, eq=False)
class Regions(Step):
    """Find regions in the stream: one begins with the first item, and wherever `start` holds or a field changes.

    The fields of `by`, and those that `keep` takes from the first item, become the parent's.
    """

    finds_regions: ClassVar[bool] = True

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
        return predicate(self, self._bind("", self.given_start, probe=self._probe({})))

    def _shape(self) -> Shape:
        self._check_rule()
        if self.given.is_keyed_here:
            raise self.fail(
                f"regions of a key lie in the order of its items, outside of all regions, and {self.given.depth} are "
                f"open here; close them with aggregate or close before, or find the regions before key_by"
            )
        if self.given.is_unkeyed_here:
            self._must_be_clear(self.given, "its regions")
        _ = self.start
        parent = {name: self._must_have(name, self.given.fields) for name in self.by}
        for name, t in parent.items():
            if types.is_list(t) or types.is_array(t):
                raise self.fail(f"by= takes numbers, times, strings and bytes; {name!r} is {t}")
        taken = {name: self._must_have(old, self.given.fields) for name, old in self.keep.items()}
        for name, t in taken.items():
            if not types.is_flat(t):
                raise self.fail(f"keep= takes numbers, times, texts and lists of numbers; {self.keep[name]!r} is {t}")
        own = {name: t for name, t in self.given.fields.items() if name not in parent}
        self._new_fields(tuple(taken), self.given.parents)
        if taken.keys() & self.given.fields.keys():
            both = sorted(taken.keys() & self.given.fields.keys())
            raise self.fail(
                f"keep= must give new names, because the items keep their fields; got {quoted(both)}; write "
                f"keep={{'new': 'old'}}"
            )
        if not own:
            raise self.fail("the items must keep a field beside those of by=; got none")
        region = Region(self, self.given, {**parent, **taken})
        return replace(self.given, fields=own, regions=(*self.given.regions, region))

    def _check_rule(self) -> None:
        if (self.given_start is None) == (not self.by):
            raise self.fail("give start=predicate or by=field, and not both")

    @property
    def functions(self) -> tuple[Function, ...]:
        return () if self.start is None else (self.start,)


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
            self._must_be_clear(self.given, "its results")
            raise self.fail(
                "must stand inside a region, and none is open here; open one with enumerate or regions, or group the "
                "items with key_by"
            )
        return self.given.regions[-1]

    @cached_property
    def results(self) -> Mapping[str, Builtin | Folding]:
        parents = self.given.parents
        return {name: bind_result(self, name, given, parents, parents) for name, given in self.given_results.items()}

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
        fields |= types_of(self, self.results)
        return replace(region.parent, fields=fields)

    @property
    def functions(self) -> tuple[Function, ...]:
        return functions_of(self.results)


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
        fields = {**kept, **self.given.fields}
        depth = min(self.given.key_depth, self.given.depth - 1)
        return replace(self.given, fields=fields, regions=self.given.regions[:-1], key_depth=depth)


@dataclass(frozen=True, eq=False)
class Through(Step):
    """A node with hooks of the user's own: begin, run and end, each of which may push."""

    hooks: type[Operator] = Operator
    to: tuple[str, ...] | str = ()
    at_most: int = 1

    @property
    def label(self) -> str:
        return f"process {getattr(self.hooks, '__name__', self.hooks)!r}"

    def _hook(self, name: str, scope: Fields) -> Function | None:
        hook = getattr(self.hooks, name, None)
        if hook is None:
            return None
        if not inspect.isgeneratorfunction(hook):
            return self._bind(f".{name}", hook, scope=scope, records=self.records, results=0)
        results = len(self.to) if isinstance(self.to, tuple) else None
        return self._bind(f".{name}", hook, scope=scope, records=self.records, results=results, yields=True)

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
        if not (isinstance(self.hooks, type) and issubclass(self.hooks, Operator)):
            raise self.fail(f"must be a class derived from ps.Operator; got {self.hooks!r}")
        if self.given.is_keyed_here:
            raise self.fail(
                "its hooks belong to a region, and after key_by each key has an order of its own; use state= instead"
            )
        check_pushes(self, self.to, self.at_most)
        self._new_fields(names_of(self.to), self.given.parents)
        pushing = [hook for hook in self.functions if hook.returns]
        if not pushing:
            raise self.fail("must push something; none of begin, run and end has a yield")
        if len({hook.returns for hook in pushing}) > 1:
            raise self.fail(
                f"its hooks must push the same types; got {', '.join(str(hook.returns) for hook in pushing)}"
            )
        return replace(self.given, fields=dict(zip(names_of(self.to), pushing[0].returns, strict=True)))

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(hook for hook in (self.begin, self.run, self.end) if hook is not None)
