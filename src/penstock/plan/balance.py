"""Which node to make flexible, from what each costs: the one whose copies take the most off the busiest core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.node_profile import NodeProfile, Profile
from penstock.plan.passes.fuse import segments
from penstock.plan.segment import Segment, inside

LEAST_GAIN = 1.05
"""A node is made flexible only where the run is to be so much faster by it: copies cost something too."""


BLOCK, BLOCK_S = 4096, 2.5e-2
"""How many items a block has that goes to one copy; where it is known what they cost, as many as take so long."""
LARGEST, LARGEST_BYTES = 1 << 16, 1 << 22
"""No block has more items than this, or more bytes: what is in it should not leave the caches on its way."""
HANDING_S, PASSING_S = 5e-4, 3e-8
"""What a block costs to be handed out and put in order again, and the least for each item in it, as it was measured
(docs/benchmarks.md)."""


@dataclass(frozen=True)
class CoreChoice:
    """A mapping of nodes to cores, the node that is to be flexible (or none), and what both are to gain.

    `alone_s` is what the busiest core has to do without copies, `shared_s` with them.
    """

    cores: dict[n.GraphNode, int]
    flexible: n.GraphNode | None
    alone_s: float
    shared_s: float

    @property
    def gain(self) -> float:
        return self.alone_s / self.shared_s if self.shared_s else 1.0


def choose(loops: Sequence[Segment], profile: Profile, cores: int) -> CoreChoice:
    """The best mapping of loops that follow each other to cores, and the node that is best made flexible in it.

    What runs as plain Python gains nothing by another core, and has no copies; where nearly all of it does, all loops
    are on one core.
    """
    costs = profile.costs(loops)
    homes = balanced(loops, costs, cores)
    loads = [0.0] * cores
    for loop, cost in zip(loops, costs, strict=True):
        loads[homes[inside(loop)[0]]] += cost
    if 0 < sum(costs) < LEAST_GAIN * profile.python_s:  # Python's lock lets one core work at a time
        return CoreChoice(dict.fromkeys(homes, 0), None, sum(costs), sum(costs))
    alone = max(*loads, profile.python_s)
    best: tuple[float, float, n.GraphNode | None] = (alone, 0.0, None)
    for loop, node in zip(loops, profile.nodes, strict=True):
        if loop.only is None or not n.can_have_copies(loop.only) or node.is_python:
            continue
        rest = max(load - node.seconds * (core == homes[loop.only]) for core, load in enumerate(loads))
        shared = max((sum(costs) + sharing_s(node)) / cores, rest, profile.python_s)
        best = min(best, (shared, -node.seconds, loop.only), key=lambda each: each[:2])
    shared, _, found = best
    if found is None or alone < LEAST_GAIN * shared:
        return CoreChoice(homes, None, alone, alone)
    return CoreChoice(homes, found, alone, shared)


def dearest(loops: Sequence[Segment], profile: Profile) -> n.GraphNode | None:
    """The node that takes the most time of those that can have copies."""
    pairs = zip(loops, profile.nodes, strict=True)
    able = [(node.seconds, loop.only) for loop, node in pairs if loop.only is not None and n.can_have_copies(loop.only)]
    return max(able, key=lambda each: each[0])[1] if able else None


def sharing_s(node: NodeProfile) -> float:
    """What it costs to share out the items of a node, in blocks of the usual size."""
    return node.items * (HANDING_S / block_of(node) + PASSING_S + 2 * node.passing_s)


def block_of(node: NodeProfile) -> int:
    """How many items make a block: so many that handing it out costs little, and so few that copies end together."""
    return _within(BLOCK_S / node.per_item_s, node.bytes_out) if node.per_item_s > 0 else BLOCK


def _within(items: float, item_bytes: int) -> int:
    return max(1, min(LARGEST, LARGEST_BYTES // max(1, item_bytes), round(items)))


def choose_places(leaves: tuple[n.GraphNode, ...], asked: Places, profile: Profile, cores: int) -> Places:
    """Where nodes are to be at work by a profile, but as asked for where something is."""
    loops = loops_of(leaves)
    found = choose(loops, profile, cores)
    copies = dict(asked.copies)
    if found.flexible is not None and not copies:
        copies[found.flexible] = cores - 1
    return Places({**found.cores, **asked.cores}, copies)


def blocks(leaves: tuple[n.GraphNode, ...], segments: Sequence[Segment], profile: Profile) -> dict[Segment, int]:
    """How many items each loop takes at a time: as many as take about as long as a block is to."""
    loops, found = loops_of(leaves), {}
    profile.costs(loops)
    of_node = {node: each for loop, each in zip(loops, profile.nodes, strict=True) for node in inside(loop)}
    for segment in segments:
        told = [of_node[node] for node in inside(segment) if node in of_node]
        items, seconds = max((each.items for each in told[:1]), default=0), sum(each.seconds for each in told)
        if items and seconds:
            near = [*told, *([of_node[segment.edge]] if segment.edge in of_node else [])]
            found[segment] = _within(BLOCK_S * items / seconds, max(each.bytes_out for each in near))
    return found


def balanced(loops: Sequence[Segment], costs: Sequence[float], cores: int) -> dict[n.GraphNode, int]:
    """The core of each node, from what each loop costs: so that the core with the most to do has as little as can be.

    Each core has loops that follow each other.
    """
    shared = pieces(loops, cores, costs)
    return {node: core for loop, core in shared.items() for node in inside(loop)}


def loops_of(leaves: tuple[n.GraphNode, ...]) -> tuple[Segment, ...]:
    """The loops of a graph, every node one of its own, as a profile has them."""
    return segments(Tree(leaves), is_fused=False)


def pieces(segments: Sequence[Segment], cores: int, costs: Sequence[float]) -> dict[Segment, int]:
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
