"""Time the nodes of a graph on the first items of its source, every node a loop of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from penstock.engine.intake import Arrival, Batch, arriving
from penstock.engine.joint import JointNode
from penstock.engine.node import RunningNode
from penstock.engine.run import Run
from penstock.engine.statistics import Firing
from penstock.graph import nodes as n
from penstock.kernels.compile import reusing
from penstock.plan.node_profile import NodeProfile, Profile
from penstock.plan.passes.size import bytes_of, parent_bytes

BLOCK = 4096
SAMPLES = 1024
REPEATS = 3
OUTLYING = 3
APART = 1.5
"""Firings tell what one costs, however few items it takes, if some are so many times smaller than the others."""


def measure_sample(
    leaves: tuple[n.GraphNode, ...], sample: int, width: int = BLOCK, most_bytes: int | None = None, **options: Any
) -> Profile:
    """What every node costs by itself on the first items, and no more: enough to share nodes out."""
    return measure_nodes(
        leaves, partial(first_batches, leaves[0].source, sample, width, most_bytes), sample, width=width, **options
    )


def measure_nodes(
    leaves: tuple[n.GraphNode, ...],
    first: Callable[[], Iterator[Batch]],
    sample: int,
    small: Sequence[Firing] = (),
    **options: Any,
) -> Profile:
    """Measure every node on some batches, so many items, which `first` gives as often as it is asked.

    `small` are firings of the same nodes on fewer items, if any are known. With `fuse=True`, as few loops as can be
    instead of all nodes.
    """
    run, firings = repeat_run(leaves, first, {"fuse": False, **options})
    return Profile(sample, tuple(_nodes(run, _by_node(firings), _by_node(small))))


def repeat_run(
    leaves: tuple[n.GraphNode, ...], first: Callable[[], Iterator[Batch]], options: dict[str, Any]
) -> tuple[Run, list[Firing]]:
    """A run on some batches, after one that does not count, and the best that each of its firings took in a few.

    Of several cores, the run is that in which crossing from one to another took the least.
    """
    given: dict[str, Any] = {"clock": time.thread_time, "width": BLOCK, **options, "trace": True}
    runs = []
    with reusing():  # what cannot be kept would be compiled in each run, and measured with it
        for _ in range(1 + REPEATS):
            run = Run(leaves, batches_in=first(), **given)
            for _ in run.scheduler().run():
                pass
            runs.append(run)
    quickest = min(runs[1:], key=lambda run: sum(c.sending_s + c.receiving_s for c in run.parts.crossings.values()))
    return quickest, fastest([run.trace.firings for run in runs[1:]])


def fastest(runs: Sequence[Sequence[Firing]]) -> list[Firing]:
    """The firings of some runs, each as fast as it was in any; those of the fastest run where they are not the same.

    >>> one, other = Firing("a", 0.0, 3.0, 5, 0, 5, kernel_s=2.0), Firing("a", 9.0, 4.0, 5, 0, 5, kernel_s=1.0)
    >>> [(firing.seconds, firing.kernel_s) for firing in fastest([[one], [other]])]
    [(3.0, 1.0)]
    """
    if len({tuple((each.node, each.items) for each in run) for run in runs}) > 1:
        return list(min(runs, key=lambda run: sum(each.seconds for each in run)))
    return [
        replace(same[0], seconds=min(each.seconds for each in same), kernel_s=min(each.kernel_s for each in same))
        for same in zip(*runs, strict=True)
    ]


def first_batches(source: n.Source, sample: int, width: int, most_bytes: int | None) -> Iterator[Batch]:
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


def _by_node(found: Sequence[Firing]) -> dict[str, list[Firing]]:
    firings: dict[str, list[Firing]] = {}
    for firing in found:
        if firing.items:
            firings.setdefault(firing.node, []).append(firing)
    return firings


def _nodes(run: Run, firings: Mapping[str, list[Firing]], small: Mapping[str, list[Firing]]) -> Iterator[NodeProfile]:
    for node, told in zip(run.parts.nodes, run.statistics().nodes, strict=True):
        each = firings.get(node.name, [])
        firing_s = firing_cost_s(each, small.get(node.name, []))
        around = [max(firing.seconds - firing.kernel_s - firing_s, 0.0) for firing in each]
        own = [firing.kernel_s for firing in each]
        if isinstance(node, JointNode):  # where streams meet there is no loop: all that is done there is the node's own
            own, around = around, [0.0] * len(each)
        samples, passing = (
            _without_outliers([s / f.items for s, f in zip(of, each, strict=True)]) for of in (own, around)
        )
        weights = [firing.items for firing in each]
        per_item, passing_s = (float(np.average(of, weights=weights)) if each else 0.0 for of in (samples, passing))
        sinks = run.plan.codes[node.segment].sinks
        size, parents = next(((bytes_of(sink), parent_bytes(sink)) for sink in sinks), (0, 0))
        some = tuple(samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES])
        counts = told.items, told.outputs, per_item * told.items, per_item, some, size
        is_python = isinstance(node, RunningNode) and (node.makes_columns or not node.loop.is_compiled)
        marks = told.signals
        yield NodeProfile(
            told.name, *counts, passing_s, firing_s, parent_bytes=parents, marks=marks, is_python=is_python
        )


def firing_cost_s(large: Sequence[Firing], small: Sequence[Firing]) -> float:
    """What a firing costs however few items it takes, outside its loop: by a line through firings of two sizes.

    >>> large, small = [Firing("a", 0.0, 9.0, 80, 0, 0)], [Firing("a", 0.0, 2.0, 10, 0, 0)]
    >>> firing_cost_s(large, small), firing_cost_s(large, large)
    (1.0, 0.0)
    """
    if not large or not small:
        return 0.0
    (many, many_s), (few, few_s) = (_middle(each) for each in (large, small))
    if many < APART * few:
        return 0.0
    return min(max((many * few_s - few * many_s) / (many - few), 0.0), few_s)


def _middle(firings: Sequence[Firing]) -> tuple[float, float]:
    """The items of a firing in the mean, and its seconds outside its loop, without outliers."""
    spent = _without_outliers([firing.seconds - firing.kernel_s for firing in firings])
    return float(np.mean([firing.items for firing in firings])), float(np.mean(spent))


def _without_outliers(samples: list[float]) -> list[float]:
    """Seconds without those outliers that come of memory that grows, or that nobody has touched before."""
    most = OUTLYING * float(np.quantile(samples, 0.9)) if samples else 0.0
    return [min(sample, most) for sample in samples]
