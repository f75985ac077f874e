"""How the sides of a flexible join are shared out among its copies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.graph import nodes as n
from penstock.graph.needs import at_field
from penstock.graph.tree import above
from penstock.plan.plan import Plan, SideSharing
from penstock.plan.segment import Segment, fed_segments


def share_sides(plan: Plan) -> Plan:
    """Choose who shares out the sides of each flexible join: one split for all of them, or one for each.

    Requires segments; and heartbeats, as far as there are any.
    Ensures a sharing for each flexible join: central as asked for, or because it has to be. That is so where those
    downstream are to be told how far it has come, and the split of one side cannot know that: by the clock of another
    stem, or where signals may stand behind an item.
    """
    joints = [each for each in plan.segments if each.copies and each.sides]
    return replace(plan, sharings={joint: _sharing(plan, joint) for joint in joints})


def _sharing(plan: Plan, joint: Segment) -> SideSharing:
    assert isinstance(joint.meet, n.Join)
    meet, last = joint.meet, next((each for each in plan.segments if each.joint is joint), joint)
    told, is_late = set(_clocks(plan, (joint, last))), _is_late(plan, meet)
    emits = any(isinstance(node, n.Emit) and n.stem(node) is n.stem(meet) for node in above(meet))
    has_to_be = not told <= {at_field(plan.tree, n.stem(meet))} or (bool(told) and emits)
    if meet.split == "central":
        return SideSharing(True, "as asked for", _clocks(plan, (last,)), is_late)
    reason = "what is behind waits to hear how far all have come" if has_to_be else "as asked for"
    return SideSharing(has_to_be, reason, _clocks(plan, (last,)), is_late)


def _clocks(plan: Plan, feeders: Collection[Segment]) -> tuple[str, ...]:
    """The clocks by which those downstream of some loops want to know how far these have come."""
    fed = [each for each in fed_segments(plan.segments) if each.feeder in feeders]
    return tuple(beats.clock for beats in plan.heartbeats if not beats.intervals.keys().isdisjoint(fed))


def _is_late(plan: Plan, meet: n.Meet) -> bool:
    """Whether signals that all sides have may stand behind an item: they were emitted before the streams parted."""
    fork = plan.tree.fork[meet]
    return any(isinstance(node, n.Emit) and n.stem(node) is n.stem(meet.sides[0]) for node in (fork, *above(fork)))
