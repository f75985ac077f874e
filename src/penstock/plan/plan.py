"""The plan of a graph: its segments, and the generated loop of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.graph import nodes as n
from penstock.graph.needs import Names, needed_of, needs
from penstock.graph.record import Signal
from penstock.graph.tree import Tree
from penstock.plan.heartbeat.clocks import Clocks, met_as_channels
from penstock.plan.mark_types import signal_types
from penstock.plan.passes.fuse import fuse
from penstock.plan.segment import Segment

if TYPE_CHECKING:
    from penstock.codegen.generated import GeneratedLoop


@dataclass(frozen=True)
class Plan:
    """Segments with their loops, feeders first, and the signals by their numbers."""

    tree: Tree
    segments: tuple[Segment, ...]
    codes: dict[Segment, GeneratedLoop]
    signals: tuple[type[Signal], ...]
    needed: dict[n.GraphNode, Names]
    clocks: Clocks

    def needed_at(self, edge: n.GraphNode) -> Names:
        """The fields of the items after a node that results and the loops behind it need."""
        loops = {node for segment in self.segments for node in (*segment.nodes, segment.entry)}
        after = [needed_of(edge, child, self.needed) for child in self.tree.children[edge] if child in loops]
        own = [frozenset(edge.shape.fields)] if edge in self.tree.leaves else []
        return frozenset().union(*after, *own)

    def fed_by(self, feeder: Segment | None, edge: n.GraphNode | None = None) -> list[Segment]:
        """The segments that a segment feeds (None: the source), at one of its cuts."""
        return [s for s in self.segments if s.feeder is feeder and (edge is None or s.edge is edge)]


def plan(tree: Tree, *, is_fused: bool = True, trace: bool = False) -> Plan:
    """Cut the tree into segments and write the loop of each."""
    from penstock.codegen.generate import generate

    segments = fuse(tree, is_fused=is_fused)
    clocks = Clocks(tree, met_as_channels(segments))
    needed = needs(tree, clocks.meets)
    codes = generate(tree, segments, needed, clocks, trace=trace)
    return Plan(tree, segments, codes, signal_types(tree), needed, clocks)
