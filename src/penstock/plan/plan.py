"""The plan of a graph: its segments, and the generated loop of each."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.needs import Names, needed_of, needs
from penstock.graph.record import Signal
from penstock.graph.tree import Tree
from penstock.plan.clock import Clocks, met_as_channels
from penstock.plan.fuse import CLEANING, Segment, fed_segments, fuse
from penstock.plan.loop import write_loop
from penstock.plan.outlets import OutletWriter
from penstock.plan.spec import Code, signal_types

MOST = 1 << 48
"""More outputs of one item than this are not counted with."""


@dataclass(frozen=True)
class Plan:
    """Segments with their loops, feeders first, and the signals by their numbers."""

    tree: Tree
    segments: tuple[Segment, ...]
    codes: dict[Segment, Code]
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
    segments = fuse(tree, is_fused=is_fused)
    clocks = Clocks(tree, met_as_channels(segments))
    needed = needs(tree, clocks.meets)
    codes, given = {}, set()
    for segment in segments:
        cuts = [fed for fed in fed_segments(segments) if fed.feeder is segment]
        if segment.sides:
            codes[segment] = OutletWriter(tree, segment, needed, clocks).write_joint(cuts)
            continue
        members = set() if segment.copies else set(segment.nodes)
        if _gives_entry(segment) and segment.entry not in given:
            members.add(segment.entry)  # a node at an entry lies in no loop; the first loop behind it gives its result
            given.add(segment.entry)
        leaves = frozenset(members & set(tree.leaves))
        codes[segment] = write_loop(tree, segment, needed, cuts, leaves, clocks, trace=trace)
        _refuse_beyond(segment, codes[segment])
    return Plan(tree, segments, codes, signal_types(tree), needed, clocks)


def _gives_entry(segment: Segment) -> bool:
    """Whether what enters a loop may be a result that no loop before it has given: as it is read, or put in order."""
    if segment.copies:
        return False
    feeder = segment.feeder
    is_ordered = feeder is not None and (bool(feeder.sides) or (feeder.copies > 0 and segment.entry is segment.edge))
    return is_ordered or isinstance(segment.entry, (*CLEANING, n.MapColumns))


def _refuse_beyond(segment: Segment, code: Code) -> None:
    """Refuse a loop in which one item may give more than can be counted."""
    for buffer in code.buffers:
        if buffer.most is not None and buffer.most >= MOST:
            raise GraphError(
                f"{segment.name}: one item may give {buffer.most:,} outputs, as declared; it must be less than 2**48; "
                f"lower at_most="
            )
