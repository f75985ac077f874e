"""The generated loop of each segment, which shows what may leave it, and how much of that at most comes of one item."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.mark_types import signal_types
from penstock.plan.plan import Plan


def write_loops(plan: Plan) -> Plan:
    """Write the loop of each segment.

    Requires segments, clocks, and the fields that nodes need.
    Ensures a code for each segment, which gives every result exactly once; and the signals by their numbers.
    """
    from penstock.codegen.generate import generate

    codes = generate(plan.tree, plan.segments, plan.needed, plan.clocks, trace=plan.request.trace)
    return replace(plan, codes=codes, signals=signal_types(plan.tree))
