"""Where the nodes of a run are at work: as asked for, and shared out by what they cost where that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.options import Options
from penstock.graph import nodes as n
from penstock.graph.tree import Places
from penstock.plan.balance import BLOCK, balanced, chosen, loops_of
from penstock.plan.node_profile import Profile
from penstock.plan.passes.assign_cores import places

SAMPLE, SAMPLE_BYTES = 1 << 14, 1 << 24
"""How many items, or bytes of them, are measured where the run is to choose which node is flexible."""


def place(
    leaves: tuple[n.GraphNode, ...], options: Options, fitted: Places | None
) -> tuple[Places, Profile | None, Options]:
    """The places of nodes, the profile that they were chosen by, if any, and the options with what goes with them.

    `fitted`, where given, stands for what the graph asks for; on one core, nodes that it has elsewhere are loops of
    their own.
    """
    o, given = options, options.mapping
    if o.cores == 1:
        return fitted or Places(), None, o
    by_hand = [each if isinstance(each, Mapping) else None for each in (given, o.flexible)]
    asked = places(leaves, o.cores, *by_hand) if fitted is None else fitted
    if o.flexible == "auto":
        if not isinstance(given, Profile):
            from penstock.engine.node_timing import measure_sample

            given = measure_sample(
                leaves, SAMPLE, o.width or BLOCK, SAMPLE_BYTES, compile=o.compile, on_error=o.on_error
            )
        asked = chosen(leaves, asked, given, o.cores)
    elif isinstance(given, Profile):
        loops = loops_of(leaves)
        asked = replace(asked, cores={**balanced(loops, given.costs(loops), o.cores), **asked.cores})
    if asked.copies and o.block_items is None and o.width is None:
        o = replace(o, block_items=BLOCK)
    return asked, given if isinstance(given, Profile) else None, o
