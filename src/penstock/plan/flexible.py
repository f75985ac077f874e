"""Which node to make flexible, from what each costs: the one whose copies take the most off the busiest core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.graph.tree import Places
from penstock.plan.fuse import Segment
from penstock.plan.mapping import balanced, inside, loops_of
from penstock.plan.profile import Profile

LEAST_GAIN = 1.05
"""A node is made flexible only where the run is to be so much faster by it: copies cost something too."""


BLOCK, BLOCK_S = 4096, 4e-3
"""How many items a block has that goes to one copy; where it is known what they cost, as many as take so long."""


@dataclass(frozen=True)
class Choice:
    """A mapping of nodes to cores, the node that is to be flexible (or none), and what both are to gain.

    `alone_s` is what the busiest core has to do without copies, `shared_s` with them, were they to cost nothing.
    """

    cores: dict[n.GraphNode, int]
    flexible: n.GraphNode | None
    alone_s: float
    shared_s: float

    @property
    def gain(self) -> float:
        return self.alone_s / self.shared_s if self.shared_s else 1.0


def choose(loops: Sequence[Segment], costs: Sequence[float], cores: int) -> Choice:
    """The best mapping of loops that follow each other to cores, and the node that is best made flexible in it."""
    homes = balanced(loops, costs, cores)
    loads = [0.0] * cores
    for loop, cost in zip(loops, costs, strict=True):
        loads[homes[inside(loop)[0]]] += cost
    alone = max(loads)
    best: tuple[float, float, n.GraphNode | None] = (alone, 0.0, None)
    for loop, cost in zip(loops, costs, strict=True):
        node = loop.only
        if node is None or not n.can_have_copies(node):
            continue
        home = homes[node]
        rest = max(load - cost * (core == home) for core, load in enumerate(loads))
        shared = max(sum(costs) / cores, rest)
        best = min(best, (shared, -cost, node), key=lambda each: each[:2])
    shared, _, node = best
    if node is None or alone < LEAST_GAIN * shared:
        return Choice(homes, None, alone, alone)
    return Choice(homes, node, alone, shared)


def chosen(leaves: tuple[n.GraphNode, ...], asked: Places, profile: Profile, cores: int) -> Places:
    """Where nodes are to be at work by a profile, but as asked for where something is."""
    loops = loops_of(leaves)
    found = choose(loops, profile.costs(loops), cores)
    copies = dict(asked.copies)
    if found.flexible is not None and not copies:
        copies[found.flexible] = cores - 1
    return Places({**found.cores, **asked.cores}, copies)


def block_for(leaves: tuple[n.GraphNode, ...], places: Places, profile: Profile | None) -> int:
    """How many items make a block: so many that handing it out costs little, and so few that copies end together."""
    if profile is None:
        return BLOCK
    loops = loops_of(leaves)
    profile.costs(loops)
    each = [node.per_item_s for loop, node in zip(loops, profile.nodes, strict=True) if loop.only in places.copies]
    return max(1, round(BLOCK_S / max(each))) if each and max(each) > 0 else BLOCK
