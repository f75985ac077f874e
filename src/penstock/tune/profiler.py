"""Measure what each node of a graph costs, on the first items of its source, every node a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.engine.intake import Batch
from penstock.engine.node_timing import BLOCK, first_batches, measure_nodes, repeat_run
from penstock.engine.run import Run
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.balance import loops_of
from penstock.plan.node_profile import Profile
from penstock.plan.passes.size import bytes_of, parent_bytes
from penstock.plan.segment import Segment, inside

NARROWER = 8
"""So many times smaller are the firings that tell what one costs however few items it takes."""
WORTHWHILE = 0.95
"""Where one loop of all nodes takes more than this share of what they take apart, nothing is saved between them."""
FEWER = 4
"""What crossing costs is measured on so many times fewer items."""


def profile(
    leaves: tuple[n.GraphNode, ...], sample: int, width: int = BLOCK, most_bytes: int | None = None, **options: Any
) -> Profile:
    """Measure every node on the first items, or on as many bytes of them.

    They run once before, so that compiling does not count, and then a few times, of which the best counts for each
    firing: memory that nobody has touched before makes one slow, and so does what else the machine does. Times are
    those of the processor, unless another clock is given.
    """
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 1:
        raise GraphError(f"profile: the sample must be a whole number of items, at least 1; got {sample!r}")
    first = partial(first_batches, leaves[0].source, sample, width, most_bytes)
    options = {**options, "width": width}
    _, fused = repeat_run(leaves, first, {**options, "fuse": True})
    few, narrow = max(1, sample // NARROWER), max(1, width // NARROWER)
    _, small = repeat_run(
        leaves,
        partial(first_batches, leaves[0].source, few, narrow, most_bytes),
        {"fuse": False, **options, "width": narrow},
    )
    alone = measure_nodes(leaves, first, sample, small, **options)
    fused_s, alone_s = sum(firing.kernel_s for firing in fused), sum(node.seconds for node in alone.nodes)
    saved = _savings(leaves, alone, first, options) if fused_s < WORTHWHILE * alone_s else {}
    crossing = _crossing(
        leaves, partial(first_batches, leaves[0].source, max(1, sample // FEWER), width, most_bytes), options
    )
    nodes = []
    for at, node in enumerate(alone.nodes):
        spent_s, size = crossing.get(at, (0.0, 0.0))
        nodes.append(replace(node, saved_s=saved.get(at, 0.0), crossing_s=spent_s, crossing_bytes=size))
    return replace(alone, nodes=tuple(nodes), fused_s=fused_s)


def _pairs(leaves: tuple[n.GraphNode, ...]) -> Iterator[Places]:
    """Each node on a core with the one before it, in pairs, and then in the other pairs."""
    depth: dict[n.GraphNode, int] = {}
    for node in Tree(leaves).nodes:
        depth[node] = 1 + max((depth[before] for before in node.inputs), default=-1)
    for shift in range(2):
        yield Places({node: (at + shift) // 2 % 2 for node, at in depth.items() if at})


def _savings(
    leaves: tuple[n.GraphNode, ...], alone: Profile, first: Callable[[], Iterator[Batch]], options: Mapping[str, Any]
) -> dict[int, float]:
    """What nodes take less, by number, in one loop with the node before them."""
    number = {node: at for at, loop in enumerate(loops_of(leaves)) for node in inside(loop)}
    saved: dict[int, float] = {}
    for places in _pairs(leaves):
        run, firings = repeat_run(leaves, first, {**options, "fuse": True, "places": places})
        spent: dict[str, float] = {}
        for firing in firings:
            spent[firing.node] = spent.get(firing.node, 0.0) + firing.kernel_s
        for loop in run.parts.nodes:
            members = [number[each] for each in inside(loop.segment) if each in number and not isinstance(each, n.Meet)]
            less = sum(alone.nodes[at].seconds for at in members) - spent.get(loop.name, 0.0)
            saved |= {at: less / (len(members) - 1) for at in members[1:]}
    return saved


def _crossing(
    leaves: tuple[n.GraphNode, ...], first: Callable[[], Iterator[Batch]], options: Mapping[str, Any]
) -> dict[int, tuple[float, float]]:
    """What blocks of what leaves a node, by number, cost to cross to another core, on each side, and their bytes."""
    number = {node: at for at, loop in enumerate(loops_of(leaves)) for node in inside(loop)}
    crossing: dict[int, tuple[float, float]] = {}
    for places in _pairs(leaves):
        run, _ = repeat_run(leaves, first, {**options, "fuse": True, "cores": 2, "places": places})
        for fed, each in run.parts.crossings.items():
            if each.blocks and fed.edge in number:
                spent_s = (each.sending_s + each.receiving_s) / 2
                crossing[number[fed.edge]] = (
                    spent_s / each.blocks,
                    _item_bytes(run, fed) * each.sending.sent / each.blocks,
                )
    return crossing


def _item_bytes(run: Run, fed: Segment) -> int:
    """The bytes of an item that passes a channel, without what texts and lists hold beyond 64 bytes."""
    sinks = (sink for code in run.plan.codes.values() for sink in code.sinks if sink.feeds is fed)
    return next(bytes_of(sink) - parent_bytes(sink) for sink in sinks)
