"""What each node of a graph costs: measured on the first items of its source, every node a loop of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from penstock.engine.intake import Arrival, Batch, arriving
from penstock.engine.run import Run
from penstock.engine.statistics import Firing, table
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.plan.bounded import bytes_of

QUANTILES = (0.1, 0.5, 0.9, 0.99)
BLOCK = 4096


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """One node: how many items it took, seconds an item, and what came of them.

    `quantiles` are those of 10, 50, 90 and 99 % of the seconds an item over its firings. `bytes_out` is what an item
    has that leaves, without what texts and lists hold beyond 64 bytes.
    """

    name: str
    items: int
    outputs: int
    seconds: float
    per_item_s: float
    quantiles: tuple[float, ...]
    bytes_out: int

    @property
    def outputs_per_item(self) -> float:
        return self.outputs / self.items if self.items else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """All nodes of a graph, from the source on, as measured on so many items of it."""

    sample: int
    nodes: tuple[NodeProfile, ...]

    def bottleneck(self) -> NodeProfile:
        """The node that takes the most time for the items of the source: it sets the pace of a pipeline."""
        return max(self.nodes, key=lambda node: node.seconds)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.as_dict())

    def __str__(self) -> str:
        slowest, total = self.bottleneck(), sum(node.seconds for node in self.nodes) or 1.0
        head = ("node", "items", "ns an item", "10 %", "50 %", "90 %", "99 %", "out", "bytes", "share")
        return "\n".join(table(head, [_row(node, node is slowest, total) for node in self.nodes]))


def _row(node: NodeProfile, is_slowest: bool, total: float) -> tuple[str, ...]:
    numbers = [node.per_item_s, *node.quantiles]
    share = f"{node.seconds / total:.0%}"
    return (
        f"{node.name} *" if is_slowest else node.name,
        f"{node.items:,}",
        *(f"{1e9 * number:,.1f}" for number in numbers),
        f"{node.outputs_per_item:.3g}",
        f"{node.bytes_out:,}",
        share,
    )


def profile(leaf: n.GraphNode, sample: int, width: int = BLOCK, **options: Any) -> Profile:
    """Measure every node on the first items. They run once before, so that compiling does not count."""
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 1:
        raise GraphError(f"profile: the sample must be a whole number of items, at least 1; got {sample!r}")
    run = None
    for _ in range(2):
        run = Run(
            (leaf,), batches_in=_first(leaf.source, sample, width), fuse=False, width=width, trace=True, **options
        )
        for _ in run.batches():
            pass
    assert run is not None
    return Profile(sample, tuple(_nodes(run)))


def _first(source: n.Source, sample: int, width: int) -> Iterator[Batch]:
    """The first items of a source, as if there were no others."""
    left = sample

    def pieces() -> Iterator[Arrival]:
        nonlocal left
        for rows in source.items.batches(width):
            yield Arrival(rows.slice(0, left))
            left -= rows.num_rows
            if left <= 0:
                return

    return (replace(batch, places=None) for batch in arriving(source, pieces()))


def _nodes(run: Run) -> Iterator[NodeProfile]:
    firings: dict[str, list[Firing]] = {}
    for firing in run.firings:
        firings.setdefault(firing.node, []).append(firing)
    for node, told in zip(run.nodes, run.statistics().nodes, strict=True):
        each = [firing.seconds / firing.items for firing in firings.get(node.name, []) if firing.items]
        found = tuple(float(value) for value in np.quantile(each, QUANTILES)) if each else (0.0,) * len(QUANTILES)
        sinks = run.planned.codes[node.segment].sinks
        size = max((bytes_of(sink) for sink in islice(sinks, 1)), default=0)
        per_item = told.seconds / told.items if told.items else 0.0
        yield NodeProfile(told.name, told.items, told.outputs, told.seconds, per_item, found, size)
