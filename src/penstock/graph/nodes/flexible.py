"""Nodes that copies may help; and how a join is made so with all that it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.graph.nodes.base import GraphNode, Step
from penstock.graph.nodes.items import Filter, Map, Select, check_copies, with_copies
from penstock.graph.nodes.joins import Join, Merge
from penstock.graph.nodes.keyed import KeyBy

SPLITS = ("central", "beta")
"""How the sides of a flexible join are shared out."""


def flexible(node: GraphNode, copies: Any, split: Any) -> GraphNode:
    """A node that copies may help; refused where these could not do the same."""
    if isinstance(node, KeyBy) and node.is_kept:
        return replace(node, before=flexible(node.before, copies, split))
    check_copies(node, copies)
    if split not in SPLITS:
        raise node.fail(f"flexible: split= must be 'central' or 'beta'; got {split!r}")
    if isinstance(node, Join):
        return replace(node, copies=copies, split=split)
    joined = _join_of(node)
    if joined is not None:
        made = _behind(node, joined, replace(joined, copies=copies, split=split))
        return replace(made, copies=copies)
    if isinstance(node, Merge):
        raise node.fail(
            "flexible: a merge does nothing with its items but put them in order, so that copies cannot help it; make "
            "a node before or behind it flexible"
        )
    if split != "central":
        raise node.fail(f"flexible: split={split!r} is for joins, which have several inputs; leave it out")
    return with_copies(node, copies)


def brings_together(node: GraphNode) -> bool:
    """Whether streams meet here, so that copies need all sides."""
    return isinstance(node, (Join, Merge)) or (isinstance(node, KeyBy) and node.is_kept) or _join_of(node) is not None


def _join_of(node: GraphNode) -> Join | None:
    """The join whose functions, each for a set of sides, this node gives the results of; None where it is no such."""
    joins = {_join_of_branch(branch) for branch in (node.sides if isinstance(node, Merge) else (node,))}
    joined = joins.pop()
    return joined if not joins and joined is not None and joined.cases == len(node.inputs) else None


def _join_of_branch(node: GraphNode) -> Join | None:
    for kind in (Select, Map, Filter):
        if not isinstance(node, kind):
            return None
        node = node.before
    return node if isinstance(node, Join) and node.cases else None


def _behind(node: GraphNode, joined: Join, made: Join) -> GraphNode:
    """The same node behind another join."""
    if node is joined:
        return made
    if isinstance(node, Merge):
        return replace(node, sides=tuple(_behind(side, joined, made) for side in node.sides))
    assert isinstance(node, Step)
    return replace(node, before=_behind(node.before, joined, made))
