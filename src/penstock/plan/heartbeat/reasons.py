"""The heartbeats of a plan by one clock, with what limits each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.plan.heartbeat.cycles import Edge
from penstock.plan.heartbeat.proof import limits
from penstock.plan.segment import Segment


@dataclass(frozen=True)
class Heartbeats:
    """The intervals of one clock: for each channel, by what it feeds, the most indices between two heartbeats.

    Where the plan has chosen them, `edges` are the channels that hold whole indices, as edges between `nodes` groups of
    loops, and those from the source to all that read it.
    """

    clock: str
    stem: n.GraphNode
    intervals: Mapping[Segment, int]
    nodes: int = 0
    edges: Mapping[Segment, Edge] | None = None

    def explain(self, fed: Segment) -> str:
        """The interval of a channel, and what limits it."""
        told = f"every {self.intervals[fed] + 1:,} of {self.stem.label}"
        if self.edges is None:
            return f"{told}; asked for"
        if fed not in self.edges:
            return f"{told}; here are lists, or signals from within lists, and it is told with each list"
        listed = list(self.edges)
        safe = [self.intervals.get(each, 0) for each in listed]
        cycle = limits(self.nodes, list(self.edges.values()), safe, listed.index(fed))
        if cycle is None or cycle.is_capacity:
            return f"{told}; the channel holds no more" if cycle is not None else told
        along = " and ".join(_name(listed[edge]) for edge in cycle.along)
        against = " and ".join(_name(listed[edge]) for edge in cycle.against)
        held = sum(self.edges[listed[edge]].capacity for edge in cycle.against)
        return f"{told}; the intervals of {along} must be less than the {held:,} that {against} hold"


def _name(fed: Segment) -> str:
    return f"{fed.feeder.name if fed.feeder is not None else 'the source'} → {fed.name}"
