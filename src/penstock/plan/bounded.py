"""Capacities within a bound: on the memory of all channels, or on how many items may lie before one on its way.

What a channel holds is a trade. A large one lets its nodes fire on full ensembles, and one of them go on while the
other waits; but all that it holds is memory, and an item waits behind all that lie before it. All channels get the same
capacity, and an ensemble, in which items leave a node together, is half of it: so one is made while another is taken.
"""

from __future__ import annotations

from penstock.errors import GraphError
from penstock.plan.capacity import bytes_of, least
from penstock.plan.fuse import Segment
from penstock.plan.plan import Plan

TWICE = 2
"""A queue has room for twice its capacity."""


def capacity_within(planned: Plan, memory: int | None, delay: int | None) -> int | None:
    """The largest capacity with which all channels have at most so many bytes, and an item at most so many before it.

    None where there is no channel.
    """
    sinks = [sink for code in planned.codes.values() for sink in code.sinks if sink.is_cut]
    if not sinks:
        return None
    found = []
    if memory is not None:
        found.append(memory // (TWICE * sum(bytes_of(sink) for sink in sinks)))
    if delay is not None:
        found.append(delay // max(_channels_before(planned, segment) for segment in planned.segments))
    most, needed = min(found), max(least(sink)[0] for sink in sinks)
    if most < needed:
        given = f"memory={memory:,}" if delay is None or memory is not None else f"delay={delay:,}"
        raise GraphError(
            f"run: {len(sinks)} channels must each hold at least {needed} items; within {given} they hold {most}; "
            f"raise it, or run with fuse=True"
        )
    return most


def _channels_before(planned: Plan, segment: Segment) -> int:
    """How many channels lie before a loop, on the longest way from the source."""
    if segment.sides:
        return 1 + max(_channels_before(planned, side.feeder) for side in segment.sides if side.feeder is not None)
    return 0 if segment.feeder is None else 1 + _channels_before(planned, segment.feeder)
