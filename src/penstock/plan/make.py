"""Make a plan: the passes in the order in which they need each other."""

from __future__ import annotations

from collections.abc import Callable

from penstock.graph import nodes as n
from penstock.plan.passes.assign_cores import assign_cores
from penstock.plan.passes.crossings import crossings
from penstock.plan.passes.fuse import fuse
from penstock.plan.passes.share_sides import share_sides
from penstock.plan.passes.size import size
from penstock.plan.plan import Plan
from penstock.plan.request import PlanRequest

Pass = Callable[[Plan], Plan]

LAYOUT: tuple[Pass, ...] = (assign_cores, fuse, size, share_sides, crossings)
"""Those that need no loop to be written: loops with their widths and cores, and no channels.

All of them, and with them the pass that writes loops, are `codegen.generate.PASSES`.
"""


def plan(
    leaves: tuple[n.GraphNode, ...], request: PlanRequest | None = None, passes: tuple[Pass, ...] = LAYOUT
) -> Plan:
    """The plan of a graph, as seen from its results."""
    made = Plan.of(leaves, request or PlanRequest())
    for each in passes:
        made = each(made)
    return made
