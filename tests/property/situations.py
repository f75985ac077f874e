"""What occurs in a case: the kinds of its nodes and the situations that the tests must not miss.

Read off the finished graph and its data, not noted while building, so that it tells what is there and not what was
meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tests.property.graphs import Case
from tests.property.library import kind_of

from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.aggregate import Builtin
from penstock.graph.tree import Tree
from penstock.graph.window import CountWindow, RegionWindow, TimeWindow

EMPTIES = 200
"""How many empty lists in a row are hundreds of empty regions."""

WANTED = (
    *(f"aggregate {kind}" for kind in ("sum", "count", "mean", "variance", "min", "max", "first", "last", "to_list")),
    *(f"aggregate {what}" for what in ("fold", "fold with begin", "of a parent's field", "keep=")),
    *(f"branch {where}" for where in ("anywhere", "in a region", "in a region with an aggregate on each side")),
    *("close", "close with fields", "field of a struct", "interpreted function", "map_columns in a region"),
    *(f"control {where}" for where in ("before the first", "inside the stream", "after the last", "at one place")),
    *("control inside a found region", "control after key_by"),
    *(f"emit {what}" for what in ("in a region", "with values", "without values", "handled after its region")),
    *(f"enumerate {what}" for what in ("list", "string", "bytes", "fixed array", "list of structs", "list of lists")),
    *(f"enumerate {what}" for what in ("computed", "collected", "with index", "without index")),
    *(f"by key {kind}" for kind in ("sum", "count", "mean", "variance", "min", "max", "first", "last", "fold")),
    *(f"by key {what}" for what in ("fold with begin", "keep=", "composite")),
    *(f"end {what}" for what in ("keyed", "unkeyed", "with a key's field", "keep=", "alone pushes", "with a handler")),
    *("flat_map keep=", "flat_map of a tuple", "map of a tuple"),
    *(f"handler {what}" for what in ("function", "field", "keyed")),
    *(f"item {what}" for what in ("empty input", "single", "NaN", "infinity", "minus zero", "empty text")),
    "item hundreds of empty regions",
    *(f"key {kind}" for kind in ("i", "s", "f", "b", "t", "x", "composite", "of a parent", "inside a region")),
    *(f"leaf {what}" for what in ("inner", "in a region", "one of several")),
    *(f"nested {a} in {b}" for a in ("enumerate", "found") for b in ("enumerate", "found")),
    *("nested three deep", "nulls dropped", "nulls filled"),
    *(f"regions {what}" for what in ("by float", "by string", "by two", "keep=", "start")),
    *(f"source {what}" for what in ("cut into chunks", "dictionary", "of dicts")),
    *(f"state {what}" for what in ("array", "in a region", "unkeyed", "keyed map", "keyed filter", "keyed flat_map")),
    *(f"process {hook} pushes" for hook in ("begin", "run", "end")),
    *(f"process {where}" for where in ("without a region", "in a region", "of a tuple")),
    *(f"window {what}" for what in ("Whole", "Counted", "Timed", "Found", "by i", "by f", "by t")),
    *("window without partial", "window with late"),
    *(
        f"key's regions {what}"
        for what in ("start", "by", "by two", "by f", "keep=", "keep= renamed", "fold of a head")
    ),
    *(f"window {what}" for what in ("sliding by count", "sliding by time", "with gaps of items", "with gaps of time")),
    *(f"type {t}" for t in ("uint8", "int32", "int64", "float", "double", "bool", "string", "binary", "date32[day]")),
)
"""Every situation that must occur; `situations` may find more."""


def situations(case: Case) -> set[str]:
    tree = Tree(case.leaves)
    found = set(_of_source(case)) | set(_of_tree(case, tree))
    for node in tree.nodes:
        found |= set(_of_node(tree, node))
    return found


def _of_source(case: Case) -> Iterator[str]:
    items = case.items
    yield from ["item empty input"] if items.rows == 0 else ["item single"] if items.rows == 1 else []
    yield from ["source cut into chunks"] if items.cuts else []
    yield from ["source dictionary"] if items.encoded else []
    yield from ["source of dicts"] if items.as_dicts else []
    opened = {node.name for node in Tree(case.leaves).nodes if isinstance(node, n.Enumerate)}
    for column in items.columns:
        yield f"type {column.type}"
        for value in column.values:
            yield from _of_value(value)
        empties = "".join("." if value == [] else "x" for value in column.values)
        if "." * EMPTIES in empties and column.name in opened:
            yield "item hundreds of empty regions"


def _of_value(value: object) -> Iterator[str]:
    if isinstance(value, float):
        yield from ["item NaN"] if math.isnan(value) else ["item infinity"] if math.isinf(value) else []
        yield from ["item minus zero"] if value == 0 and math.copysign(1, value) < 0 else []
    elif value == "":
        yield "item empty text"


def _of_tree(case: Case, tree: Tree) -> Iterator[str]:
    yield from ["leaf one of several"] if len(case.leaves) > 1 else []
    yield from ["leaf inner"] if any(tree.children[leaf] for leaf in case.leaves) else []
    yield from ["leaf in a region"] if any(leaf.shape.regions for leaf in case.leaves) else []
    places = [signal.index for signal in case.control]
    rows = case.items.rows
    yield from ["control before the first"] if 0 in places and rows else []
    yield from ["control after the last"] if rows in places and rows else []
    yield from ["control inside the stream"] if any(0 < place < rows for place in places) else []
    yield from ["control at one place"] if len(set(places)) < len(places) else []
    handling = [node for node in tree.nodes if isinstance(node, n.Stateful) and node.handlers]
    if places and any(region.is_found for node in handling for region in node.shape.regions):
        yield "control inside a found region"
    if places and any(node.shape.key for node in handling):
        yield "control after key_by"


def _of_node(tree: Tree, node: n.GraphNode) -> Iterator[str]:
    yield f"node {type(node).__name__}"
    yield from ["interpreted function"] if any(function.reason for function in node.functions) else []
    children = tree.children[node]
    if len(children) > 1:
        yield "branch anywhere"
        if node.shape.regions:
            yield "branch in a region"
            region = node.shape.regions[-1]
            if sum(_closes(tree, child, region) for child in children) > 1:
                yield "branch in a region with an aggregate on each side"
    for rule, kind in _RULES.items():
        if isinstance(node, kind):
            yield from rule(node)
    if isinstance(node, n.Emit) and node.shape.regions:
        outside = [b for b in tree.below(node) if b.shape.depth < node.shape.depth and isinstance(b, n.Stateful)]
        if any(handler.signal is node.signal for b in outside for handler in b.handlers):
            yield "emit handled after its region"


def _closes(tree: Tree, node: n.GraphNode, region: n.Region) -> bool:
    return any(isinstance(b, n.Aggregate) and b.region is region for b in (node, *tree.below(node)))


def _of_enumerate(node: n.Enumerate) -> Iterator[str]:
    yield "enumerate with index" if node.index else "enumerate without index"
    t = node.given.fields[node.elements[0][0]]
    computed = _maker(node, node.elements[0][0])
    yield from ["enumerate collected"] if isinstance(computed, n.Aggregate) else []
    yield from ["enumerate computed"] if isinstance(computed, n.Map) else []
    if node.name not in node.given.fields:
        yield "enumerate list of structs"
    elif types.is_text(t):
        yield "enumerate string" if types.is_string(t) else "enumerate bytes"
    else:
        yield "enumerate fixed array" if types.is_array(t) else "enumerate list"
        yield from ["enumerate list of lists"] if types.is_list(t.value_type) else []
    yield from _nested(node)


def _maker(node: n.Step, name: str) -> n.GraphNode | None:
    """The node that made a field of the items that arrive."""
    before = node.before
    while before.inputs and name in before.shape.fields:
        if isinstance(before, n.Map) and any(name in names for names, _ in before.outputs):
            return before
        if isinstance(before, n.Aggregate) and name in before.results:
            return before
        (before,) = before.inputs
    return None


def _nested(node: n.Step) -> Iterator[str]:
    inner = "found" if isinstance(node, n.Regions) else "enumerate"
    if node.given.regions:
        yield f"nested {inner} in {'found' if node.given.regions[-1].is_found else 'enumerate'}"
    yield from ["nested three deep"] if node.shape.depth > 2 else []


def _of_regions(node: n.Regions) -> Iterator[str]:
    yield from ["regions keep="] if node.keep else []
    yield from ["regions start"] if node.start else []
    yield from ["regions by two"] if len(node.by) > 1 else []
    kinds = {"s": "string", "f": "float"}
    for name in node.by:
        yield f"regions by {kinds.get(kind_of(node.given.fields[name]), 'other')}"
    yield from _nested(node)


def _of_aggregate(node: n.Aggregate) -> Iterator[str]:
    yield from ["aggregate keep="] if node.given_keep is not None else []
    for result in node.results.values():
        if isinstance(result, Builtin):
            yield f"aggregate {result.kind}"
            yield from ["aggregate of a parent's field"] if result.field in node.given.parents else []
        else:
            yield "aggregate fold"
            yield from ["aggregate fold with begin"] if result.begin else []


def _of_key_by(node: n.KeyBy) -> Iterator[str]:
    yield from ["key composite"] if len(node.names) > 1 else []
    yield from ["key of a parent"] if set(node.names) & set(node.given.parents) else []
    yield from ["key inside a region"] if node.given.regions else []
    for name in node.names:
        yield f"key {kind_of(node.given.scope[name])}"


def _of_stateful(node: n.Stateful) -> Iterator[str]:
    if node.state is None:
        return
    if isinstance(node, n.KeyedAggregate):
        yield from _of_keyed_aggregate(node)
        return
    kind = {n.Map: "map", n.Filter: "filter", n.FlatMap: "flat_map"}[type(node)]
    if isinstance(node, n.FlatMap) and node.end is not None:
        yield f"end {'keyed' if node.given.key else 'unkeyed'}"
        yield from ["end with a key's field"] if node.end.fields else []
        yield from ["end keep="] if node.keep else []
        yield from ["end alone pushes"] if not node.function.returns else []
        yield from ["end with a handler"] if node.handlers else []
    yield from [f"state keyed {kind}"] if node.given.key else ["state unkeyed"]
    yield from ["state array"] if node.state.__name__ == "Window" else []
    yield from ["state in a region"] if node.given.regions else []
    for handler in node.handlers:
        yield "handler function" if handler.field is None else "handler field"
        yield from ["handler keyed"] if node.given.key else []


def _of_keyed_aggregate(node: n.KeyedAggregate) -> Iterator[str]:
    window = node.window
    yield f"window {type(window).__name__}"
    for result in node.results.values():
        yield f"by key {result.kind}" if isinstance(result, Builtin) else "by key fold"
        yield from ["by key fold with begin"] if not isinstance(result, Builtin) and result.begin else []
    yield from ["by key keep="] if node.given_keep is not None else []
    yield from ["by key composite"] if len(node.given.key_fields) > 1 else []
    if isinstance(window, CountWindow):
        yield from ["window without partial"] if not window.partial else []
        yield from ["window sliding by count"] if window.every < window.count else []
        yield from ["window with gaps of items"] if window.every > window.count else []
    if isinstance(window, RegionWindow):
        yield from _of_found(node, window)
    if isinstance(window, TimeWindow):
        yield f"window by {kind_of(window.type)}"
        yield from ["window sliding by time"] if window.every < window.length else []
        yield from ["window with gaps of time"] if window.every > window.length else []
        yield from ["window with late"] if window.late else []


def _of_found(node: n.KeyedAggregate, window: RegionWindow) -> Iterator[str]:
    kept = {name: old for name, old in window.kept.items() if name not in window.by}
    yield "key's regions by" if window.start is None else "key's regions start"
    yield from ["key's regions by two"] if len(window.by) > 1 else []
    yield from (f"key's regions by {kind_of(node.given.fields[name])}" for name in window.by)
    yield from ["key's regions keep="] if kept else []
    yield from ["key's regions keep= renamed"] if any(name != old for name, old in kept.items()) else []
    begins = [result.begin for result in node.results.values() if not isinstance(result, Builtin) and result.begin]
    yield from ["key's regions fold of a head"] if any(set(f.fields) & set(window.kept) for f in begins) else []


def _of_others(node: n.GraphNode) -> Iterator[str]:
    if isinstance(node, n.Map):
        yield from ["map of a tuple"] if any(len(names) > 1 for names, _ in node.outputs) else []
    elif isinstance(node, n.FlatMap):
        yield from ["flat_map keep="] if node.keep else []
        yield from ["flat_map of a tuple"] if isinstance(node.to, tuple) else []
    elif isinstance(node, n.Through):
        for name, hook in (("begin", node.begin), ("run", node.run), ("end", node.end)):
            yield from [f"process {name} pushes"] if hook is not None and hook.returns else []
        yield "process in a region" if node.given.regions else "process without a region"
        yield from ["process of a tuple"] if isinstance(node.to, tuple) else []
    elif isinstance(node, n.Emit):
        yield "emit with values" if node.values else "emit without values"
        yield from ["emit in a region"] if node.given.regions else []
    elif isinstance(node, n.Close):
        yield "close with fields" if node.keep else "close"
    elif isinstance(node, n.MapColumns):
        yield from ["map_columns in a region"] if node.given.regions else []
    elif isinstance(node, (n.DropNulls, n.FillNull)):
        yield "nulls dropped" if isinstance(node, n.DropNulls) else "nulls filled"
    elif isinstance(node, n.Source):
        yield from ["field of a struct"] if any("." in name for name in node.shape.fields) else []


_RULES = {
    _of_enumerate: n.Enumerate,
    _of_regions: n.Regions,
    _of_aggregate: n.Aggregate,
    _of_key_by: n.KeyBy,
    _of_stateful: n.Stateful,
    _of_others: n.GraphNode,
}
