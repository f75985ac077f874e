"""Measure what each node of a graph costs, on the first items of its source, every node a loop of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from penstock.engine.intake import Arrival, Batch, arriving
from penstock.engine.run import Run
from penstock.engine.statistics import Firing
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.plan.bounded import bytes_of
from penstock.plan.profile import NodeProfile, Profile

BLOCK = 4096
SAMPLES = 1024


def profile(
    leaves: tuple[n.GraphNode, ...], sample: int, width: int = BLOCK, most_bytes: int | None = None, **options: Any
) -> Profile:
    """Measure every node on the first items, or on as many bytes of them.

    They run once before, so that compiling does not count. Times are those of the processor, unless another clock is
    given, so that what else the machine does makes little difference.
    """
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 1:
        raise GraphError(f"profile: the sample must be a whole number of items, at least 1; got {sample!r}")
    given: dict[str, Any] = {"clock": time.thread_time, **options, "fuse": False, "width": width, "trace": True}
    run = None
    for _ in range(2):
        run = Run(leaves, batches_in=_first(leaves[0].source, sample, width, most_bytes), **given)
        for _ in run.batches():
            pass
    assert run is not None
    return Profile(sample, tuple(_nodes(run)))


def _first(source: n.Source, sample: int, width: int, most_bytes: int | None) -> Iterator[Batch]:
    """The first items of a source, as if there were no others."""
    left, size = sample, 0

    def pieces() -> Iterator[Arrival]:
        nonlocal left, size
        for rows in source.items.batches(width):
            yield Arrival(rows.slice(0, left))
            left, size = left - rows.num_rows, size + rows.nbytes
            if left <= 0 or (most_bytes is not None and size >= most_bytes):
                return

    return (replace(batch, places=None) for batch in arriving(source, pieces()))


def _nodes(run: Run) -> Iterator[NodeProfile]:
    firings: dict[str, list[Firing]] = {}
    for firing in run.firings:
        firings.setdefault(firing.node, []).append(firing)
    for node, told in zip(run.nodes, run.statistics().nodes, strict=True):
        each = [firing.seconds / firing.items for firing in firings.get(node.name, []) if firing.items]
        samples = tuple(each[:: max(1, len(each) // SAMPLES)][:SAMPLES])
        sinks = run.planned.codes[node.segment].sinks
        size = max((bytes_of(sink) for sink in islice(sinks, 1)), default=0)
        per_item = told.seconds / told.items if told.items else 0.0
        yield NodeProfile(told.name, told.items, told.outputs, told.seconds, per_item, samples, size)
