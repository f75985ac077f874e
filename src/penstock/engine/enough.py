"""When a run has enough: all limits on the way to its results are full, so that the rest of its source is of no use."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.loop import Memory
from penstock.graph import nodes as n
from penstock.graph.tree import Tree

FIRST_ITEMS = 1024
"""How many items are taken from a source at a time where a few may be enough."""


def has_enough(tree: Tree, memory: Memory) -> Callable[[], bool]:
    """A function that looks whether all results of a run are full."""

    def is_full(node: n.GraphNode) -> bool:
        limit = node.limit if isinstance(node, n.Filter) else None
        if limit is not None and memory.of(node).records["count"][0] >= limit.most:  # type: ignore[arg-type]
            return True
        return bool(node.inputs) and all(map(is_full, node.inputs))

    return lambda: all(map(is_full, tree.leaves))


def may_end_early(tree: Tree, *, has_signals: bool) -> bool:
    """Whether a run may leave out the rest of its source.

    Not where signals pass a limit, as what is downstream handles them; nor where each item that was read is counted,
    for letters; nor where blocks of other stages arrive, which are handed on.
    """
    if has_signals or tree.is_guarded or isinstance(tree.source, n.Received):
        return False
    return all(map(_has_limit, tree.leaves))


def items_at_a_time(tree: Tree, usual: int) -> int:
    """How many items to take from the source at a time: fewer than usual where a limit may soon be full."""
    limits = [node.limit.most for node in tree.nodes if isinstance(node, n.Filter) and node.limit is not None]
    return min(usual, max(FIRST_ITEMS, *limits)) if limits and all(map(_has_limit, tree.leaves)) else usual


def _has_limit(node: n.GraphNode) -> bool:
    if isinstance(node, n.Filter) and node.limit is not None:
        return True
    return bool(node.inputs) and all(map(_has_limit, node.inputs))
