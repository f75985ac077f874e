"""A node behind others than those it was made behind."""

from __future__ import annotations

from typing import Any

from penstock.graph import nodes as n


def rebase(node: n.GraphNode, *inputs: n.GraphNode) -> Any:
    """The same node behind others of the same shapes. Its functions stay bound as they are."""
    made = object.__new__(type(node))
    made.__dict__.update(node.__dict__)
    made.__dict__.pop("shape", None)
    if isinstance(node, n.Meet):
        object.__setattr__(made, "sides", inputs)
    else:
        (before,) = inputs
        object.__setattr__(made, "before", before)
    _ = made.shape
    return made
