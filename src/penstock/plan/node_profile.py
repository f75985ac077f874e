"""What each node of a graph costs, as it was measured: what mappings, copies and models are chosen by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.errors import GraphError
from penstock.plan.segment import Segment
from penstock.text import distinct, table

QUANTILES = (0.1, 0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """One node: how many items it took, seconds an item, and what came of them.

    What counts is the time in the node's own loop; what it takes besides to take an item from a channel, and to put
    what comes of it into the next, is `passing_s`, and a firing takes `firing_s` however few items it has; nodes that
    are fused do not pay these.
    `samples` are the seconds an item of its firings, at most 1,024 of them, spread over the run. `bytes_out` is what an
    item has that leaves, without what texts and lists hold beyond 64 bytes.
    """

    name: str
    items: int
    outputs: int
    seconds: float
    per_item_s: float
    samples: tuple[float, ...]
    bytes_out: int
    passing_s: float = 0.0
    firing_s: float = 0.0
    saved_s: float = 0.0
    """How much less of `seconds` it takes in one loop with the node before: what passes between them is not stored."""
    crossing_s: float = 0.0
    """What a block of what leaves costs to cross to another core, on each side, where measured; of so many bytes."""
    crossing_bytes: float = 0.0
    parent_bytes: int = 0
    """How many of `bytes_out` are those of its parents, which are there once for all items of a region."""
    marks: int = 0
    """How many signals and boundaries of regions it took."""
    is_python: bool = False
    """Whether it runs as plain Python (a function that does not compile, or one over columns), under Python's lock."""

    @property
    def outputs_per_item(self) -> float:
        return self.outputs / self.items if self.items else 0.0

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The seconds an item that 10, 50, 90 and 99 % of the firings stay below."""
        if not self.samples:
            return (0.0,) * len(QUANTILES)
        return tuple(float(value) for value in np.quantile(self.samples, QUANTILES))


@dataclass(frozen=True, slots=True)
class Profile:
    """All nodes of a graph, from the source on, as measured on so many items of it.

    Each is measured as a loop of its own. `fused_s` is what all take together where as few loops as can be have all of
    them, if that was measured: less, because nothing lies between them.
    """

    sample: int
    nodes: tuple[NodeProfile, ...]
    fused_s: float | None = None

    def costs(self, loops: Sequence[Segment]) -> list[float]:
        """The seconds that each loop took, where they are those of the same graph; refused where not."""
        names = distinct(loop.name for loop in loops)
        found = [node.name for node in self.nodes]
        if names != found:
            raise GraphError(
                f"profile: must be one of the same graph, whose nodes are {', '.join(names)}; got one of "
                f"{', '.join(found)}; measure it again with tune.profile(stream, sample)"
            )
        return [node.seconds for node in self.nodes]

    @property
    def python_s(self) -> float:
        """How long nodes held Python's lock, which one thread has at a time: no number of cores makes that less."""
        return sum(node.seconds for node in self.nodes if node.is_python)

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
