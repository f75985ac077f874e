"""Which core each node is at work on, and which nodes have copies to help them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.fuse import Segment, fuse
from penstock.plan.moving import moved


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


def balanced(loops: Sequence[Segment], costs: Sequence[float], cores: int) -> dict[n.GraphNode, int]:
    """The core of each node, from what each loop costs: so that the core with the most to do has as little as can be.

    Each core has loops that follow each other.
    """
    shared = _pieces(loops, cores, costs)
    return {node: core for loop, core in shared.items() for node in inside(loop)}


def loops_of(leaves: tuple[n.GraphNode, ...]) -> tuple[Segment, ...]:
    """The loops of a graph, every node one of its own, as a profile has them."""
    return fuse(Tree(leaves), is_fused=False)


def inside(segment: Segment) -> list[n.GraphNode]:
    """The nodes of a loop, with that at its entry where it belongs to it."""
    at_entry = segment.sides or segment.entry is not segment.edge
    return [*([segment.entry] if at_entry else []), *segment.nodes]


def mapped(
    segments: Sequence[Segment], cores: int, asked: Mapping[n.GraphNode, int], costs: Sequence[float] | None = None
) -> dict[Segment, int]:
    """The core of each loop: that of its nodes, and else that of the loop before it.

    Where nothing is asked for, cores have pieces of loops that follow each other, of about one cost. What reads the
    source stays together.
    """
    found = {} if asked else _pieces(segments, cores, costs or [1.0] * len(segments))
    for segment in segments if asked else ():
        own = next((asked[node] for node in inside(segment) if node in asked), None)
        before = segment.sides[0].feeder if segment.sides else segment.feeder
        found[segment] = own if own is not None else (0 if before is None else found[before])
    readers = [segment for segment in segments if segment.feeder is None and not segment.sides]
    for segment in readers:
        found[segment] = found[readers[0]]
    return found


def _pieces(segments: Sequence[Segment], cores: int, costs: Sequence[float]) -> dict[Segment, int]:
    """Cut the loops, in their order, into so many pieces that the dearest is as cheap as can be."""
    least, most = max(costs), sum(costs)
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (least, middle) if _fits(costs, cores, middle) else (middle, most)
    found, core, total = {}, 0, 0.0
    for segment, cost in zip(segments, costs, strict=True):
        if total + cost > most * (1 + 1e-9) and total:
            core, total = min(core + 1, cores - 1), 0.0
        found[segment], total = core, total + cost
    return found


def _fits(costs: Sequence[float], cores: int, most: float) -> bool:
    pieces, total = 1, 0.0
    for cost in costs:
        pieces, total = (pieces, total + cost) if total + cost <= most else (pieces + 1, cost)
    return pieces <= cores
