"""Write the loop of each segment of a graph."""

from __future__ import annotations

from collections.abc import Sequence, Set

from penstock.codegen.generated import GeneratedLoop
from penstock.codegen.loop_body import write_body
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.loop_frame import frame_loop
from penstock.codegen.rules import RULES
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.needs import Names
from penstock.graph.tree import Tree
from penstock.plan.heartbeat.clocks import Clocks
from penstock.plan.segment import CLEANING, Segment, fed_segments

MOST = 1 << 48
"""More outputs of one item than this are not counted with."""


def generate(
    tree: Tree, segments: Sequence[Segment], needed: dict[n.GraphNode, Names], clocks: Clocks, *, trace: bool
) -> dict[Segment, GeneratedLoop]:
    """The loops of segments. With `trace`, every signal that is handed to a node is logged with its place."""
    loops: dict[Segment, GeneratedLoop] = {}
    results: set[n.GraphNode] = set()
    for segment in segments:
        cuts = [fed for fed in fed_segments(segments) if fed.feeder is segment]
        leaves = _leaves(tree, segment, results)
        results |= leaves
        loop = LoopContext(tree, segment, needed, cuts, leaves, clocks, trace, RULES)
        if segment.sides:
            loops[segment] = loop.exits.write_joint()
            continue
        loops[segment] = frame_loop(loop, write_body(loop))
        _refuse_beyond(segment, loops[segment])
    return loops


def _leaves(tree: Tree, segment: Segment, results: Set[n.GraphNode]) -> frozenset[n.GraphNode]:
    """The nodes whose items are results of a loop, apart from those that are `results` of loops before it."""
    members = set() if segment.copies else set(segment.nodes)
    if _gives_entry(segment) and segment.entry not in results:
        members.add(segment.entry)  # a node at an entry lies in no loop; the first loop after it gives its result
    return frozenset(members & set(tree.leaves))


def _gives_entry(segment: Segment) -> bool:
    """Whether what enters a loop may be a result that no loop before it has given: as it is read, or put in order."""
    if segment.copies:
        return False
    feeder = segment.feeder
    is_ordered = feeder is not None and (bool(feeder.sides) or (feeder.copies > 0 and segment.entry is segment.edge))
    return is_ordered or isinstance(segment.entry, (*CLEANING, n.MapColumns))


def _refuse_beyond(segment: Segment, loop: GeneratedLoop) -> None:
    """Refuse a loop in which one item may give more than can be counted."""
    for buffer in loop.buffers:
        if buffer.most is not None and buffer.most >= MOST:
            raise GraphError(
                f"{segment.name}: one item may give {buffer.most:,} outputs, as declared; it must be less than 2**48; "
                f"lower at_most="
            )
