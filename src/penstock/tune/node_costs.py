"""What the nodes of a graph cost for a stretch of its source, from a profile of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.errors import ModelError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.plan.balance import loops_of
from penstock.plan.node_profile import NodeProfile, Profile
from penstock.plan.segment import Segment, inside

STEPS = 256
"""A stretch is looked at in at most so many steps."""
LEAST = 0.05
"""A loop takes at least this share of what its nodes take in loops of their own, however much is saved between them."""
STEADY = 0.1
"""Times whose deviation is at most this share of their mean are taken for constant: buffers even them out."""


@dataclass(frozen=True, eq=False)
class NodeCosts:
    """The costs of every node, by items of the source.

    Refused where the profile is of another graph, or saw no item.
    """

    leaves: tuple[n.GraphNode, ...]
    profile: Profile
    loops: tuple[Segment, ...] = field(init=False)
    of_node: dict[n.GraphNode, NodeProfile] = field(init=False)
    source_items: int = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile):
            raise ModelError(f"model: takes a profile of the graph, as of tune.profile(stream); got {self.profile!r}")
        put, loops = object.__setattr__, loops_of(self.leaves)
        self.profile.costs(loops)
        pairs = list(zip(loops, self.profile.nodes, strict=True))
        put(self, "loops", loops)
        put(self, "of_node", {node: each for loop, each in pairs for node in inside(loop)})
        read = [each.items for loop, each in pairs if loop.feeder is None and not loop.sides]
        put(self, "source_items", max(read, default=0))
        if not self.source_items:
            raise ModelError(
                "model: the profile must have seen at least one item, or nothing is known of the costs; it saw none; "
                "measure it with tune.profile(stream) on a source that has items"
            )

    def profiles_of(self, segment: Segment) -> list[NodeProfile]:
        """The profiles of the nodes in a loop. Where streams meet within one, that takes no time."""
        nodes = [node for node in inside(segment) if node in self.of_node]
        return [self.of_node[node] for node in nodes if segment.sides or not isinstance(node, n.Meet)]

    def items_in(self, segment: Segment) -> float:
        """How many items enter a loop for one of the source."""
        told = self.profiles_of(segment)
        return told[0].items / self.source_items if told else self.items_out(segment.edge)

    def items_out(self, edge: n.GraphNode) -> float:
        """How many items leave a node for one of the source."""
        return self.of_node[edge].outputs / self.source_items if edge in self.of_node else 1.0

    def item_bytes(self, edge: n.GraphNode) -> int:
        """The bytes of an item that leaves a node."""
        if edge in self.of_node:
            return self.of_node[edge].bytes_out
        return sum(types.size(each) for each in edge.shape.fields.values())

    def marks(self, fed: Segment) -> float:
        """How many signals and boundaries of regions come through the channel to a loop, for an item of the source."""
        return sum(each.marks for each in self.profiles_of(fed)[:1]) / self.source_items

    def channel_bytes(self, fed: Segment) -> float:
        """The bytes that pass a channel for an item of the source: parents pass once for a region."""
        parents = self.of_node[fed.edge].parent_bytes if fed.edge in self.of_node else 0
        return self.items_out(fed.edge) * (self.item_bytes(fed.edge) - parents) + self.marks(fed) / 2 * parents

    def passing_s(self, segment: Segment) -> float:
        """What it takes to get items into a loop and out of it, for one of the source, beside the firings."""
        told = self.profiles_of(segment)
        return sum(each.passing_s * each.items / self.source_items for each in (told[:1] + told[-1:])) / 2

    def firing_s(self, segment: Segment) -> float:
        """What a firing of a loop takes however few items it has."""
        told = self.profiles_of(segment)
        return sum(each.firing_s for each in (told[:1] + told[-1:])) / 2

    def work_s(self, segment: Segment) -> float:
        """What a loop has to do for one item of the source, in the mean. One loop of all nodes was measured as such."""
        within, fused_s = set(inside(segment)), self.profile.fused_s
        if fused_s is None or not self.of_node.keys() <= within:
            behind = [node for node in within if node in self.of_node and not within.isdisjoint(node.inputs)]
            alone_s, saved_s = self._alone_s(segment), sum(self.of_node[node].saved_s for node in behind)
            fused_s = max(alone_s - saved_s, LEAST * alone_s)
        return fused_s / self.source_items

    def python_share(self, segment: Segment) -> float:
        """Which share of the work of a loop holds Python's lock: all, where a function of it does not compile."""
        if segment.is_interpreted:
            return 1.0
        whole_s = self._alone_s(segment)
        return sum(each.seconds for each in self.profiles_of(segment) if each.is_python) / whole_s if whole_s else 0.0

    def _alone_s(self, segment: Segment) -> float:
        """What the nodes of a loop took in loops of their own."""
        return sum(each.seconds for each in self.profiles_of(segment))

    def steps(self, block: float) -> int:
        """In how many blocks of so many items the profile was measured."""
        return max(1, min(STEPS, round(self.source_items / block)))

    def varying(self, segment: Segment, block: float) -> list[float] | None:
        """What a loop has to do for each block of the profile, from the first on; None where that hardly varies.

        The nodes of a loop vary together: the items that take one of them long may take another long too.
        """
        steps = self.steps(block)
        told = [each for each in self.profiles_of(segment) if len(each.samples) > 1 and each.seconds > 0]
        if steps == 1 or not told:
            return None
        total = np.full(steps, self._alone_s(segment) - sum(each.seconds for each in told))
        for each in told:
            shape = stretch(each.samples, steps)
            total += shape / max(float(shape.mean()), 1e-300) * each.seconds
        total *= self.work_s(segment) / max(self._alone_s(segment), 1e-300)
        is_steady = float(total.std()) <= STEADY * float(total.mean())
        return None if is_steady else [float(value) * block for value in total]


def stretch(samples: Sequence[float], steps: int) -> Any:
    """Samples that are spread evenly over a stretch as the means of so many equal steps of it.

    >>> stretch([1.0, 3.0], 4).tolist(), stretch([1.0, 3.0, 5.0, 7.0], 2).tolist()
    ([1.0, 1.0, 3.0, 3.0], [2.0, 6.0])
    """
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(samples, np.float64))])
    at = np.interp(np.linspace(0, len(samples), steps + 1), np.arange(len(samples) + 1), sums)
    return np.diff(at) * steps / len(samples)
