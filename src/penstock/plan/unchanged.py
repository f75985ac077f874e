"""Which columns still are what entered a loop, row by row, downstream of its nodes."""

from __future__ import annotations

from penstock.graph import nodes as n


def is_enumerable(node: n.Enumerate, fields: frozenset[str]) -> bool:
    """Whether the lists that a node opens are still as they entered, so that their lengths are known."""
    return all(name in fields or f"{name}[]" in fields for name, _ in node.elements)


def unchanged_columns(node: n.GraphNode, fields: frozenset[str]) -> frozenset[str]:
    """The columns that are still what entered, and row by row, behind this node.

    An element of a list that entered is written as `name[]`: it may be opened, but it is no row. A name that has left
    the scope is forgotten, because a later node may give it to something else.
    """
    scope = set(node.shape.scope)
    return frozenset(name for name in _passed(node, fields) if name.removesuffix("[]") in scope)


def _passed(node: n.GraphNode, fields: frozenset[str]) -> frozenset[str]:
    if isinstance(node, n.Map):
        made = {name for names, _ in node.outputs for name in names}
        return fields - made - {f"{name}[]" for name in made}
    if node.has_end or isinstance(node, (n.KeyedAggregate, n.Meet)):
        return frozenset()  # what it gives at the end of the stream, or of several sides, has entered nowhere
    if isinstance(node, (n.FlatMap, n.Through)):
        return (fields & set(node.shape.scope)) - set(node.to if isinstance(node.to, tuple) else (node.to,))
    if isinstance(node, n.Enumerate):
        return fields | {f"{name}[]" for _, name in node.elements}
    if isinstance(node, n.Regions):
        return (fields & set(node.shape.fields)) | (fields & set(node.given.parents))
    if isinstance(node, n.Aggregate):
        return fields & (set(node.shape.scope) - set(node.results))
    if isinstance(node, n.Select):
        kept = {name for name, old in node.names.items() if old in fields}
        return frozenset(kept | {name for name in fields if name in node.given.parents})
    return frozenset(fields)
