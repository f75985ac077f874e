"""The same graph from another source: how stages, and first passes over a split, get nodes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.graph import nodes as n
from penstock.graph.rebase import rebase
from penstock.graph.source import Items
from penstock.graph.tree import Tree


def without_items(source: n.Source) -> n.Source:
    """The same source, with the fields and without the items: for stages, which travel."""
    return n.Source(Items(source.items.fields, nothing), source.name)


def nothing(*_: Any) -> Sequence[Any]:
    """The items of a source that has none of its own."""
    return ()


def moved_to(leaf: n.GraphNode, source: n.Source) -> Any:
    """The same graph, as seen from a leaf, from another source of the same fields."""
    made: dict[n.GraphNode, Any] = {}
    for node in Tree((leaf,)).nodes:
        made[node] = source if isinstance(node, n.Source) else rebase(node, *(made[before] for before in node.inputs))
    return made[leaf]


__all__ = ["moved_to", "nothing", "without_items"]
