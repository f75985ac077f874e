"""Write the loop of each segment: the pass in the middle of those that make a whole plan."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from penstock.codegen.generated import GeneratedLoop
from penstock.codegen.loop_body import write_body
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.loop_frame import frame_loop
from penstock.codegen.rules import RULES
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.tree import Tree
from penstock.plan.make import Pass
from penstock.plan.mark_types import signal_types
from penstock.plan.passes.assign_cores import assign_cores
from penstock.plan.passes.contexts import contexts
from penstock.plan.passes.crossings import crossings
from penstock.plan.passes.fuse import fuse
from penstock.plan.passes.heartbeats import heartbeats
from penstock.plan.passes.share_sides import share_sides
from penstock.plan.passes.size import size
from penstock.plan.plan import Plan
from penstock.plan.segment import CLEANING, Segment

MOST = 1 << 48
"""More outputs of one item than this are not counted with."""


def write_loops(plan: Plan) -> Plan:
    """Write the loop of each segment, which shows how much may leave it for one item.

    Requires segments, clocks, and the fields that nodes need.
    Ensures a code for each segment, which gives every result exactly once; and the signals by their numbers.
    """
    plan = replace(plan, signals=signal_types(plan.tree))
    loops: dict[Segment, GeneratedLoop] = {}
    results: set[n.GraphNode] = set()
    for segment in plan.segments:
        leaves = _leaves(plan.tree, segment, results)
        results |= leaves
        loop = LoopContext(plan, segment, leaves, RULES)
        if segment.sides:
            loops[segment] = loop.exits.write_joint()
            continue
        loops[segment] = frame_loop(loop, write_body(loop))
        _refuse_beyond(segment, loops[segment])
    return replace(plan, codes=loops)


LOOPS: tuple[Pass, ...] = (assign_cores, fuse, write_loops)
"""The passes after which the loops are written."""
PASSES: tuple[Pass, ...] = (*LOOPS, size, contexts, heartbeats, share_sides, crossings)
"""The passes that make a whole plan."""


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
