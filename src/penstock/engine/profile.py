"""Measure what each node of a graph costs, on the first items of its source, every node a loop of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from penstock.engine.intake import Arrival, Batch, arriving
from penstock.engine.joint import JointNode
from penstock.engine.run import Run
from penstock.engine.statistics import Firing
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.plan.capacity import bytes_of
from penstock.plan.profile import NodeProfile, Profile

BLOCK = 4096
SAMPLES = 1024
OUTLYING = 3


def profile(
    leaves: tuple[n.GraphNode, ...], sample: int, width: int = BLOCK, most_bytes: int | None = None, **options: Any
) -> Profile:
    """Measure every node on the first items, or on as many bytes of them.

    They run once before, so that compiling does not count. Times are those of the processor, unless another clock is
    given, so that what else the machine does makes little difference.
    """
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 1:
        raise GraphError(f"profile: the sample must be a whole number of items, at least 1; got {sample!r}")
    first = partial(_first, leaves[0].source, sample, width, most_bytes)
    options = {**options, "width": width}
    fused = _ran(leaves, first, {**options, "fuse": True})
    fused_s = sum(firing.kernel_s for firing in fused.firings)
    return replace(measured(leaves, first, sample, **options), fused_s=fused_s)


def measured(
    leaves: tuple[n.GraphNode, ...], first: Callable[[], Iterator[Batch]], sample: int, **options: Any
) -> Profile:
    """Measure every node on some batches, so many items, which `first` gives as often as it is asked."""
    return Profile(sample, tuple(_nodes(_ran(leaves, first, {**options, "fuse": False}))))


def _ran(leaves: tuple[n.GraphNode, ...], first: Callable[[], Iterator[Batch]], options: dict[str, Any]) -> Run:
    """A run on some batches, after one that does not count."""
    given: dict[str, Any] = {"clock": time.thread_time, "width": BLOCK, **options, "trace": True}
    for _ in range(2):
        run = Run(leaves, batches_in=first(), **given)
        for _ in run.scheduler().run():
            pass
    return run


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
        if firing.items:
            firings.setdefault(firing.node, []).append(firing)
    for node, told in zip(run.nodes, run.statistics().nodes, strict=True):
        each = firings.get(node.name, [])
        # Where streams meet there is no loop: all that is done there is the node's own.
        own = [firing.seconds if isinstance(node, JointNode) else firing.kernel_s for firing in each]
        samples = _steady([spent / firing.items for spent, firing in zip(own, each, strict=True)])
        passing = _steady([(firing.seconds - spent) / firing.items for spent, firing in zip(own, each, strict=True)])
        weights = [firing.items for firing in each]
        per_item, passing_s = (float(np.average(of, weights=weights)) if each else 0.0 for of in (samples, passing))
        sinks = run.planned.codes[node.segment].sinks
        size = max((bytes_of(sink) for sink in islice(sinks, 1)), default=0)
        some = tuple(samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES])
        yield NodeProfile(told.name, told.items, told.outputs, per_item * told.items, per_item, some, size, passing_s)


def _steady(samples: list[float]) -> list[float]:
    """Seconds an item, without those outliers that come of memory that grows, or that nobody has touched before."""
    most = OUTLYING * float(np.quantile(samples, 0.9)) if samples else 0.0
    return [min(sample, most) for sample in samples]
