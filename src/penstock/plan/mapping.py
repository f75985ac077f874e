"""Which core each loop is at work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.plan.fuse import Segment


def mapped(
    segments: Sequence[Segment], cores: int, given: Mapping[Any, int] | None, costs: Sequence[float] | None = None
) -> dict[Segment, int]:
    """The core of each loop: as given by streams, or in pieces of loops that follow each other, of about one cost.

    What reads the source stays together.
    """
    found = _pieces(segments, cores, costs or [1.0] * len(segments))
    for stream, core in (given or {}).items():
        segment = _segment_of(segments, getattr(stream, "node", None), stream)
        if not isinstance(core, int) or isinstance(core, bool) or not 0 <= core < cores:
            raise GraphError(f"run: mapping= must name cores from 0 to {cores - 1}; got {core!r} for {segment.name}")
        found[segment] = core
    readers = [segment for segment in segments if segment.feeder is None and not segment.sides]
    for segment in readers:
        found[segment] = found[readers[0]]
    return found


def _segment_of(segments: Sequence[Segment], node: n.GraphNode | None, stream: Any) -> Segment:
    if node is None:
        raise GraphError(f"run: mapping= takes a dict from streams to cores; got the key {stream!r}")
    for segment in segments:
        at_entry = segment.sides or segment.entry is not segment.edge
        if node in segment.nodes or (at_entry and node is segment.entry):
            return segment
    raise GraphError(f"run: mapping= names {node.label}, which is in no loop of this run; is it a result?")


def _pieces(segments: Sequence[Segment], cores: int, costs: Sequence[float]) -> dict[Segment, int]:
    """Cut the loops, in their order, into so many pieces that the dearest is as cheap as can be."""
    least, most = max(costs), sum(costs)
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (least, middle) if _fits(costs, cores, middle) else (middle, most)
    found, core, total = {}, 0, 0.0
    for segment, cost in zip(segments, costs, strict=True):
        if total + cost > most * (1 + 1e-9) and total:
            core, total = min(core + 1, cores - 1), 0.0
        found[segment], total = core, total + cost
    return found


def _fits(costs: Sequence[float], cores: int, most: float) -> bool:
    pieces, total = 1, 0.0
    for cost in costs:
        pieces, total = (pieces, total + cost) if total + cost <= most else (pieces + 1, cost)
    return pieces <= cores
