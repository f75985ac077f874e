"""Nodes where several streams of one source meet again: by the index of their items.

An item's index is its place among the items of its *stem*: the source, or the last node before it that gives any number
of items for one. Nodes behind the stem drop items, or change them, so that what two branches make of one item has one
index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from penstock.errors import quoted
from penstock.graph import types
from penstock.graph.function import Undeclared
from penstock.graph.nodes.base import Fields, GraphNode, Shape, Source
from penstock.graph.nodes.cleaning import DropNulls, FillNull
from penstock.graph.nodes.items import Filter, FlatMap, Map, MapColumns, Select, names_of
from penstock.graph.nodes.keyed import Emit, KeyBy
from penstock.graph.nodes.regions import Aggregate, Close, Enumerate, Regions
from penstock.graph.nodes.stage import Send

SplitKind = Literal["central", "beta"]
Maker = tuple[GraphNode, str]
"""Where a field is made: the node, and its name there."""
_KEEPING = (DropNulls, FillNull, Map, MapColumns, Filter, Emit, KeyBy, Select, Regions, Close, Send)
"""Nodes that give each item once or not at all."""


def stem(node: GraphNode) -> GraphNode:
    """The node whose items, or found regions, number the items of this one."""
    while True:
        if isinstance(node, Join):
            node = node.sides[0]
        elif isinstance(node, _KEEPING) or (isinstance(node, FlatMap) and node.at_most == 1 and not node.has_end):
            node = node.before
        elif isinstance(node, Aggregate):
            opener = node.region.opener
            if not isinstance(opener, Enumerate):
                return opener
            node = opener.before
        else:
            return node


def may_drop(node: GraphNode, to: GraphNode) -> bool:
    """Whether an index of the stem may have no item here."""
    while node is not to and node.inputs:
        if isinstance(node, (DropNulls, Filter, FlatMap, Join)):
            return True
        node = node.region.opener if isinstance(node, Aggregate) else node.inputs[0]
    return False


def maker(node: GraphNode, name: str) -> Maker:
    """Where the value of a field was made that leaves this node."""
    while True:
        before = made_before(node, name)
        if before is None:
            return node, name
        node, name = before


def made_before(node: GraphNode, name: str) -> Maker | None:
    """Whose field of which name this one is, unchanged; None where it is made here."""
    if isinstance(node, (Map, MapColumns, FillNull)):
        return None if name in _set_by(node) else (node.before, name)
    if isinstance(node, Select):
        return node.before, node.names[name]
    if isinstance(node, FlatMap):
        return (node.before, name) if name in node.keep and not node.has_end else None
    if isinstance(node, (Aggregate, Close)):
        return _from_parent(node, name)
    if isinstance(node, Regions) and name in node.keep:
        return None  # of the first item of the region
    if isinstance(node, (DropNulls, Filter, Emit, KeyBy, Send, Regions)):
        return node.before, name
    if isinstance(node, Meet) and name in node.sides[0].shape.parents:
        return node.sides[0], name  # all sides lie in the same regions
    if isinstance(node, Merge):
        makers = {maker(side, name) for side in node.sides}
        return makers.pop() if len(makers) == 1 else None
    if isinstance(node, Join) and name not in node.fill:
        return next(((side, name) for side in node.sides if name in side.shape.fields), None)
    return None


def _set_by(node: Map | MapColumns | FillNull) -> set[str]:
    if isinstance(node, Map):
        return {name for names, _ in node.given_functions for name in names_of(names)}
    return set(node.to if isinstance(node, MapColumns) else node.values)


def _from_parent(node: Aggregate | Close, name: str) -> Maker | None:
    """A parent's field is a field of the item that was opened; the fields of a found region belong to its node."""
    if name not in node.keep or (isinstance(node, Close) and name in node.given.fields):
        return None if isinstance(node, Aggregate) else (node.before, name)
    opener = node.given.regions[-1].opener
    return (opener.before, name) if isinstance(opener, Enumerate) else (opener, name)


@dataclass(frozen=True, eq=False)
class Meet(GraphNode):
    """A node with several inputs, whose items are brought together by index."""

    sides: tuple[GraphNode, ...]

    def __post_init__(self) -> None:
        with suppress(Undeclared):  # then it is checked when a run starts
            _ = self.shape

    @property
    def inputs(self) -> tuple[GraphNode, ...]:
        return self.sides

    def _together(self) -> Shape:
        """The regions and the key that all sides have, without fields."""
        if len(self.sides) < 2:
            raise self.fail(f"brings at least two streams together; got {len(self.sides)}")
        first = self.sides[0]
        for at, side in enumerate(self.sides[1:], 1):
            self._check_stem(at, side)
            if side.shape.regions != first.shape.regions:
                raise self.fail(
                    f"all sides must lie in the same regions; side 0 lies in {_regions(first)}, side {at} in "
                    f"{_regions(side)}; close regions with aggregate or close before, or split inside of them"
                )
        keys = {(side.shape.key, side.shape.key_depth) for side in self.sides}
        if len(keys) == 1 and not any(side.shape.unkeyed for side in self.sides):
            return Shape({}, first.shape.regions, first.shape.key, first.shape.key_depth)
        return Shape({}, first.shape.regions, None, first.shape.depth, self._why_unkeyed())

    def _why_unkeyed(self) -> str:
        """Why the sides have no one key that could be kept without more."""
        before = [side.shape.unkeyed for side in self.sides if side.shape.unkeyed]
        if before:
            return before[0]
        if key_of(self.sides) is not None:
            return (
                f"all sides of {self.label} are grouped by {quoted(_key(self.sides[0]).names)}, each by itself, but "
                f"its items need not have that field any more; keep it on all sides, unchanged, or write key_by behind "
                f"{self.label}, or before the streams part"
            )
        first, *others = (f"side {at} {{}}by {_grouping(side)}" for at, side in enumerate(self.sides))
        groups = ", ".join([first.format("is grouped "), *(other.format("") for other in others)])
        return f"at {self.label}, {groups}; write key_by behind {self.label} to choose the key"

    @cached_property
    def kept_key(self) -> tuple[str, ...]:
        """The fields, of the items here, by which all sides are grouped; none where that is no key of all of them.

        Where all sides have the very same node for their key, the shape has it, and there is nothing to give again.
        """
        makers = None if self.shape.key is not None else key_of(self.sides)
        if makers is None or not all(self._holds(name, made) for name, made in makers.items()):
            return ()
        return tuple(makers)

    def _holds(self, name: str, made: Maker) -> bool:
        """Whether a field of every item here is the one that was made there."""
        return name in self.shape.scope and maker(self, name) == made

    def _check_stem(self, at: int, side: GraphNode) -> None:
        first = self.sides[0]
        if side.source is not first.source:
            raise self.fail(
                f"all sides must come from one source; side 0 comes from {first.source.label}, side {at} from "
                f"{side.source.label}; read both as one source, or bring them together by key with Spark before"
            )
        mine, other = stem(first), stem(side)
        if mine is not other:
            raise self.fail(
                f"all sides must have the same indices; side 0 has those of {_numbered_by(mine)}, side {at} those of "
                f"{_numbered_by(other)}; split behind {_later(mine, other).label}, or bring the sides together before "
                f"it"
            )


def key_of(sides: Sequence[GraphNode]) -> Mapping[str, Maker] | None:
    """The key by which all of some streams are grouped: its names in the first, and where each field was made.

    None where they have several keys, or some have none. Two keys are one if their fields were made at the same places.
    """
    shapes = [side.shape for side in sides]
    if any(shape.key is None or not shape.is_keyed_here for shape in shapes):
        return None
    first, *others = (_makers(_key(side)) for side in sides)
    return first if all(set(other.values()) == set(first.values()) for other in others) else None


def _key(side: GraphNode) -> KeyBy:
    assert side.shape.key is not None
    return side.shape.key


def _makers(key: KeyBy) -> dict[str, Maker]:
    return {name: maker(key.before, name) for name in key.names}


def _grouping(side: GraphNode) -> str:
    """By what a stream is grouped, for messages: the fields, and what made each."""
    if side.shape.key is None:
        return "nothing"
    return ", ".join(f"{name!r} of {made.label}" for name, (made, _) in _makers(side.shape.key).items())


def _regions(node: GraphNode) -> str:
    return " in ".join(region.opener.label for region in reversed(node.shape.regions)) or "none"


def _numbered_by(node: GraphNode) -> str:
    if isinstance(node, Source):
        return node.label
    return f"the regions of {node.label}" if isinstance(node, Regions) else f"{node.label}, which may give many for one"


def _later(a: GraphNode, b: GraphNode) -> GraphNode:
    """The one of two nodes that breaks the index of the other."""
    return a if isinstance(b, Source) else b


@dataclass(frozen=True, eq=False)
class Join(Meet):
    """One item for each index that all sides have, or any side where `is_outer`, with the fields of all sides."""

    is_outer: bool = False
    given_fill: Mapping[str, Any] = field(default_factory=dict)
    present: tuple[str, ...] = ()
    """Names of boolean fields that say which side has the index."""
    cases: int = 0
    """How many functions, each for a set of sides, take all that it gives."""
    split: SplitKind = "central"
    """Where copies help: whether its sides are shared out together, or by one that the others follow."""

    @property
    def label(self) -> str:
        return "align"

    @cached_property
    def shared(self) -> frozenset[str]:
        """The fields that all sides have, unchanged since they parted."""
        first, *others = (frozenset(side.shape.fields) for side in self.sides)
        return first.intersection(*others)

    @cached_property
    def side_of(self) -> Mapping[str, int]:
        """The side that each field is taken from: the first that has it."""
        sides: dict[str, int] = {}
        for at, side in enumerate(self.sides):
            for name in side.shape.fields:
                if maker(self.sides[sides.setdefault(name, at)], name) != maker(side, name):
                    raise self.fail(
                        f"a field of several sides must be the same in all; {name!r} of side {sides[name]} is made by "
                        f"{maker(self.sides[sides[name]], name)[0].label}, that of side {at} by "
                        f"{maker(side, name)[0].label}; give one of them another name with select"
                    )
        return sides

    @cached_property
    def fill(self) -> Mapping[str, pa.Array]:
        """What a field has where its side lacks the index, each as an array of one."""
        return {name: self._fill_value(name, t) for name, t in self._may_lack().items()}

    def _may_lack(self) -> Fields:
        """The fields that an item may lack."""
        if not self.is_outer:
            return {}
        fields = {name: self.sides[at].shape.fields[name] for name, at in self.side_of.items()}
        start = stem(self)
        return {name: t for name, t in fields.items() if name not in self.shared and self._lacks(name, start)}

    def _lacks(self, name: str, start: GraphNode) -> bool:
        return all(may_drop(side, start) for side in self.sides if name in side.shape.fields)

    def _fill_value(self, name: str, t: pa.DataType) -> pa.Array:
        if not types.is_scalar(t):
            raise self.fail(
                f"outer: {name!r} is {t}, and only numbers, booleans and times can stand for what is missing; make a "
                f"number of it before, or keep the field on all sides"
            )
        if self.given_fill.get(name) is None:
            raise self.fail(
                f"outer: {name!r} is missing where side {self.side_of[name]} drops an item; give fill={{{name!r}: ...}}"
            )
        try:
            return pa.array([self.given_fill[name]], t)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
            raise self.fail(f"outer: {name!r} is {t}; got fill= {self.given_fill[name]!r}") from None

    def _shape(self) -> Shape:
        shape = self._together()
        fields = {name: self.sides[at].shape.fields[name] for name, at in self.side_of.items()}
        for name in self.given_fill:
            self._must_have(name, fields, "of a side")
        _ = self.fill
        if self.present and len(self.present) != len(self.sides):
            raise self.fail(f"present= must name a field for each of {len(self.sides)} sides; got {self.present}")
        self._new_fields(self.present, {**shape.parents, **fields})
        return replace(shape, fields=fields | dict.fromkeys(self.present, pa.bool_()))


@dataclass(frozen=True, eq=False)
class Merge(Meet):
    """The items of all sides, in the order of their indices; of one index, in the order of the sides."""

    @property
    def label(self) -> str:
        return "merge"

    def _holds(self, name: str, made: Maker) -> bool:
        return name in self.shape.scope and all(maker(side, name) == made for side in self.sides)

    def _shape(self) -> Shape:
        shape, fields = self._together(), self.sides[0].shape.fields
        for at, side in enumerate(self.sides[1:], 1):
            if dict(side.shape.fields) != dict(fields):
                raise self.fail(
                    f"all sides must have the same fields; side 0 has {_field_list(fields)}, side {at} has "
                    f"{_field_list(side.shape.fields)}; bring them into one form with map and select"
                )
        return replace(shape, fields=dict(fields))


def _field_list(fields: Fields) -> str:
    return quoted(fields) if not fields else ", ".join(f"{name!r} ({t})" for name, t in fields.items())
