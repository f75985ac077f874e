"""Which nodes remember something from item to item, and where."""

from __future__ import annotations

from penstock.graph import nodes as n
from penstock.graph.tree import Tree


def remembering(tree: Tree) -> list[n.Stateful]:
    """The nodes of a graph that remember something of keys, or of the stream, from item to item."""
    return [node for node in tree.nodes if isinstance(node, n.Stateful) and (node.state is not None or node.has_end)]


def kept_in_loops(node: n.GraphNode) -> bool:
    """Whether a node remembers something in the variables of a loop, or in channels.

    What lies within one item is done with it: hooks there begin anew with the next.
    """
    if isinstance(node, n.Through):
        return not node.given.regions or node.given.regions[-1].is_found
    return isinstance(node, (n.Regions, n.Meet, n.LateItems))
