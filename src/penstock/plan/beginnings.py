"""Regions found in a stream that is read in splits: where each split's first region surely begins.

A region may span two splits, so splits are moved to where regions begin. In a split the first sure beginning is where
`start` first holds, or where a field of `by` first differs from the item before. What lies before it belongs to the
split before, whatever region it is in. So each split can be looked at by itself, and only as far as that place.
"""

from __future__ import annotations

from typing import Any

from penstock.graph import nodes as n
from penstock.graph.tree import Tree, above
from penstock.plan.cuts import emitted_before


def alignable(tree: Tree) -> n.Regions | None:
    """The first node that finds regions in the stream's own order, right in the splits of the source."""
    for node in tree.nodes:
        if isinstance(node, n.Regions) and not node.given.depth and _is_local(node):
            return node
    return None


def _is_local(node: n.GraphNode) -> bool:
    """Whether all nodes before this one look at single items and make at most one of each.

    Of several items that came of one, the second may begin a region, and no split can begin between them.
    """
    for before in above(node):
        is_stateful = isinstance(before, n.Stateful) and before.state is not None
        is_inside = isinstance(before, n.Step) and any(not region.is_found for region in before.given.regions)
        if is_stateful or isinstance(before, (n.Close, n.KeyedAggregate)):
            return False
        is_merge = isinstance(before, n.Merge) and all(region.is_found for region in before.shape.regions)
        if is_merge or (isinstance(before, (n.Regions, n.Through, n.FlatMap)) and not is_inside):
            return False
    return True


def beginnings(node: n.Regions) -> n.Send:
    """What to run on a split to find its first sure beginning: the items that begin a region, or the fields of `by`.

    Each comes with its index, which is its place in the split.
    """
    signals = tuple(emitted_before(node))  # somebody must take those that come up on the way
    if node.start is None:
        return n.Send(node.before, node.by, True, signals)
    passing: Any = object.__new__(n.Filter)
    passing.__dict__.update(before=node.before, state=None, handlers=(), given_function=None, predicate=node.start)
    return n.Send(passing, (next(iter(node.given.fields)),), True, signals)


def begins_with(node: n.Regions, field: str) -> bool:
    """Whether a region begins wherever a field of the source changes: it is one of `by`, as it came from there."""
    if field not in node.by:
        return False
    step: n.GraphNode = node.before
    while not isinstance(step, n.Source):
        made = {name for names, _ in step.outputs for name in names} if isinstance(step, n.Map) else set()
        made |= set(step.to) if isinstance(step, n.MapColumns) else set()
        if field in made or not isinstance(step, _KEEPS_FIELDS):
            return False
        (step,) = step.inputs
    return True


_KEEPS_FIELDS = (n.DropNulls, n.FillNull, n.Map, n.MapColumns, n.Filter, n.Emit, n.KeyBy)
