"""Which fields each node needs of the items that arrive, so that nothing else is carried to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.graph import nodes as n
from penstock.graph.aggregate import Builtin
from penstock.graph.hidden import HiddenField, is_hidden
from penstock.graph.tree import Tree
from penstock.graph.window import RegionWindow, TimeWindow

Names = frozenset[str]


def key_field(tree: Tree, node: n.KeyBy) -> HiddenField:
    """The hidden field that holds the number of an item's key."""
    return HiddenField.of("k", tree.number[node])


def at_field(tree: Tree, stem: n.GraphNode) -> HiddenField:
    """The hidden field that holds an item's index among those of its stem."""
    return HiddenField.of("at", tree.number[stem])


def needs(tree: Tree, meets: Collection[n.Meet] = ()) -> dict[n.GraphNode, Names]:
    """For each node the fields, of the item or of its parents, that it and all nodes behind it need to be given.

    Names are unique in a scope, so a name alone says which field is meant. At `meets` items come with their index.
    """
    needed: dict[n.GraphNode, Names] = {}
    for node in reversed(tree.nodes):
        after = needed_after(tree, node, needed)
        needed[node] = _GIVEN[type(node)](node, after) | _functions(node)
        if isinstance(node, n.KeyBy):
            needed[node] -= {key_field(tree, node)}
        needed[node] -= {at_field(tree, each) for each in numbered_at(node)}
        if node in meets:
            needed[node] |= {at_field(tree, n.stem(node.inputs[0]))}
        if isinstance(node, n.Stateful) and node.state is not None and node.given.key is not None:
            needed[node] |= {key_field(tree, node.given.key)}
    return needed


def numbered_at(node: n.GraphNode) -> list[n.GraphNode]:
    """The stems whose items get their index here: the node itself, or regions that were found before and end here."""
    ends = isinstance(node, n.Aggregate) and n.stem(node) is node.region.opener
    return [node, *([n.stem(node)] if ends else [])]


def needed_after(tree: Tree, node: n.GraphNode, needed: dict[n.GraphNode, Names]) -> Names:
    """What the nodes behind this one need, and the result where this one is a leaf."""
    after = frozenset(node.shape.fields) if node in tree.leaves else frozenset()
    return after.union(*(needed_of(node, child, needed) for child in tree.children[node]))


def needed_of(node: n.GraphNode, child: n.GraphNode, needed: dict[n.GraphNode, Names]) -> Names:
    """What a node behind needs of this one: where streams meet, others may have it."""
    names = needed[child]
    if not isinstance(child, n.Meet):
        return names
    return frozenset(name for name in names if is_hidden(name) or name in node.shape.scope)


def _functions(node: n.GraphNode) -> Names:
    return frozenset(name for function in node.functions if function not in node.ending for name in function.fields)


def _same(node: Any, after: Names) -> Names:
    return after


def _select(node: n.Select, after: Names) -> Names:
    return frozenset(node.names.get(name, name) for name in after)


def _aggregate(node: n.Aggregate, after: Names) -> Names:
    taken = {r.field for r in node.results.values() if isinstance(r, Builtin) and r.field is not None}
    return (after - set(node.results)) | taken


def _regions(node: n.Regions, after: Names) -> Names:
    return (after - set(node.keep)) | set(node.by) | set(node.keep.values())


def _enumerate(node: n.Enumerate, after: Names) -> Names:
    made = {name for _, name in node.elements} | {node.index}
    return (after - made) | {name for name, _ in node.elements}


def _pushing(node: Any, after: Names) -> Names:
    after -= set(node.to if isinstance(node.to, tuple) else (node.to,))
    return after - set(node.keep) if node.has_end else after  # with an end, what is kept comes from the key


def _keyed_aggregate(node: n.KeyedAggregate, after: Names) -> Names:
    taken = {r.field for r in node.results.values() if isinstance(r, Builtin) and r.field is not None}
    time = {node.window.field} if isinstance(node.window, TimeWindow) else set()
    first = set(node.window.kept.values()) if isinstance(node.window, RegionWindow) else set()
    return frozenset(name for name in after if is_hidden(name)) | taken | time | first


_GIVEN: dict[type[n.GraphNode], Callable[[Any, Names], Names]] = {
    n.Source: _same,
    n.DropNulls: lambda node, after: after | set(node.names),
    n.FillNull: _same,
    n.Map: lambda node, after: after - {name for names, _ in node.outputs for name in names},
    n.Filter: _same,
    n.FlatMap: _pushing,
    n.Through: _pushing,
    n.Enumerate: _enumerate,
    n.Regions: _regions,
    n.Aggregate: _aggregate,
    n.Close: _same,
    n.KeyedAggregate: _keyed_aggregate,
    n.KeyBy: lambda node, after: after | set(node.names),
    n.Emit: _same,
    n.LateItems: lambda node, after: after | {node.window.field},
    n.EmitWatermark: lambda node, after: after | {node.field},
    n.MapColumns: lambda node, after: (after - set(node.to)) | set(node.names),
    n.Select: _select,
    n.Join: lambda node, after: after - set(node.present),
    n.Merge: _same,
    n.Received: _same,
    n.Send: lambda node, after: after - {n.PLACE},
}
