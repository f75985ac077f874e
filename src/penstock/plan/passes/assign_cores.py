"""Which core each node is at work on, and which nodes have copies to help them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.balance import pieces
from penstock.plan.moving import moved
from penstock.plan.segment import Segment, inside


def places(
    leaves: tuple[n.GraphNode, ...],
    cores: int,
    mapping: Mapping[Any, int] | None = None,
    flexible: Mapping[Any, int] | None = None,
) -> Places:
    """Where nodes are asked to be: by `on_core` and `flexible` in the graph, and by dicts from streams."""
    nodes = Tree(leaves).nodes
    asked = {node: node.core for node in nodes if node.core is not None}
    for node, core in asked.items():
        _check_core(f"{node.label}: on_core", node, core, cores)
    for stream, core in (mapping or {}).items():
        named = _named("mapping", stream, nodes)
        _check_core("run: mapping=", named, core, cores)
        asked[named] = core
    copies = {node: node.copies for node in nodes if node.copies}
    for stream, count in (flexible or {}).items():
        copies[_named("flexible", stream, nodes)] = n.with_copies(_named("flexible", stream, nodes), count).copies
    return Places(asked, copies)


def within(leaves: tuple[n.GraphNode, ...], cores: int) -> Places:
    """Where nodes are asked to be in the graph, on cores of which there may be fewer.

    A core that is not there is one that is: numbers begin again behind the last. Copies are at most one on each other
    core.
    """
    nodes = Tree(leaves).nodes
    asked = {node: node.core % cores for node in nodes if node.core is not None}
    return Places(asked, {node: min(node.copies, cores - 1) for node in nodes if node.copies and cores > 1})


def with_places(leaves: tuple[n.GraphNode, ...], places: Places) -> tuple[n.GraphNode, ...]:
    """The same graph, in which nodes ask themselves for where they are to be."""
    made: dict[n.GraphNode, Any] = {}
    for node in Tree(leaves).nodes:
        made[node] = moved(node, *(made[before] for before in node.inputs)) if node.inputs else node
        if node.inputs:
            object.__setattr__(made[node], "core", places.cores.get(node))
            object.__setattr__(made[node], "copies", places.copies.get(node, 0))
    return tuple(made[leaf] for leaf in leaves)


def _named(option: str, stream: Any, nodes: Sequence[n.GraphNode]) -> n.GraphNode:
    """The node of a stream that a dict names."""
    node = getattr(stream, "node", None)
    if node is None:
        what = "cores" if option == "mapping" else "copies"
        raise GraphError(f"run: {option}= takes a dict from streams to {what}; got the key {stream!r}")
    if node not in nodes or isinstance(node, n.Source):
        raise GraphError(f"run: {option}= names {node.label}, which is in no loop of this run; is it a result?")
    return node  # type: ignore[no-any-return]


def _check_core(where: str, node: n.GraphNode, core: Any, cores: int) -> None:
    if not isinstance(core, int) or isinstance(core, bool) or not 0 <= core < cores:
        raise GraphError(f"{where} must name cores from 0 to {cores - 1}; got {core!r} for {node.label}")


def mapped(
    segments: Sequence[Segment], cores: int, asked: Mapping[n.GraphNode, int], costs: Sequence[float] | None = None
) -> dict[Segment, int]:
    """The core of each loop: that of its nodes, and else that of the loop before it.

    Where nothing is asked for, cores have pieces of loops that follow each other, of about one cost. What reads the
    source stays together.
    """
    found = {} if asked else pieces(segments, cores, costs or [1.0] * len(segments))
    for segment in segments if asked else ():
        own = next((asked[node] for node in inside(segment) if node in asked), None)
        before = segment.sides[0].feeder if segment.sides else segment.feeder
        found[segment] = own if own is not None else (0 if before is None else found[before])
    readers = [segment for segment in segments if segment.feeder is None and not segment.sides]
    for segment in readers:
        found[segment] = found[readers[0]]
    return found
