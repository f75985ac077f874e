"""Clocks: how far a stream has come, told along the channels to where it meets others.

Streams meet by index. So on the way there from the stem, whose items are numbered, an item carries its index, and a
mark its *place* among the indices; and a node says now and then how far it has come, even where it has nothing to send.
A place is a number: the item of index i stands at 4 i + 3, and before it, from 4 i on, come

- a signal that was emitted behind item i - 1 (4 i);
- a boundary of a region, or a signal that came with the source, before item i (4 i + 1);
- a signal that was emitted within item i, in a list that it holds (4 i + 2).

Whoever has dealt with item i and with all that was emitted behind it has come to 4 (i + 1) + 1; who has yet to hear of
such signals, to 4 (i + 1). With the end of a list that item i holds, one has dealt with the item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.graph.needs import at_field, numbered_at
from penstock.graph.tree import Tree, above
from penstock.plan.segment import Segment

BEHIND, BEFORE, WITHIN, ITEM = 0, 1, 2, 3
"""What stands at a place, as the last part of it."""
STEPS = 4
"""How many places there are for an index."""
END = 1 << 62
"""A place behind all others."""


def finished(place: int) -> int:
    """The index before which all is done for one who has come to a place."""
    return (place - BEFORE) // STEPS


@dataclass(frozen=True)
class Clocks:
    """The clocks of a graph: for each node at which streams meet as channels, that of their stem."""

    tree: Tree
    meets: tuple[n.Meet, ...]

    def at(self, edge: n.GraphNode) -> tuple[str, ...]:
        """The clocks that are told on the channels behind a node."""
        found = (self._clock(meet) for meet in self.meets if self._leads(edge, meet) or self._carries(edge, meet))
        return tuple(dict.fromkeys(found))

    def _carries(self, edge: n.GraphNode, meet: n.Meet) -> bool:
        """Whether marks go from a node to where regions meet that are numbered only where they end, with their origins.

        There they have no place yet, but it must be known which node has emitted them, and so on which sides they are.
        """
        fork = self.tree.fork[meet]
        is_late = isinstance(n.stem(meet.sides[0]), n.Regions)
        return is_late and (edge is fork or edge in self.tree.below(fork)) and meet in self.tree.below(edge)

    def is_numbered(self, edge: n.GraphNode, clock: str) -> bool:
        """Whether what stands at an edge has a place by a clock."""
        return any(self._leads(edge, meet) for meet in self.meets if self._clock(meet) == clock)

    def _leads(self, edge: n.GraphNode, meet: n.Meet) -> bool:
        """Whether a node lies between where items are numbered and where they meet."""
        stem = n.stem(meet.sides[0])
        before = {edge, *above(edge)}
        return meet in self.tree.below(edge) and any(
            stem in numbered_at(node) for node in before if _numbers(node, stem)
        )

    def beats_at(self, edge: n.GraphNode) -> tuple[str, ...]:
        """The clocks for which a node behind whom streams have parted must say how far it has come."""
        found = []
        for meet in self.meets:
            fork = self.tree.fork[meet]
            parted = edge is fork or edge in self.tree.below(fork)
            if parted and self._leads(edge, meet):
                found.append(self._clock(meet))
        return tuple(dict.fromkeys(found))

    def emits_above(self, edge: n.GraphNode, clock: str) -> tuple[int, bool]:
        """How many signals that not all sides have may stand behind one item at an edge; and whether any lie within it.

        Those that are emitted before the streams part are on all sides.
        """
        forks = [self.tree.fork[meet] for meet in self.meets if self._leads(edge, meet) and self._clock(meet) == clock]
        parted = {node for fork in forks for node in self.tree.below(fork)}
        emits = [node for node in {edge, *above(edge)} & parted if isinstance(node, n.Emit)]
        behind = [node for node in emits if at_field(self.tree, n.stem(node)) == clock]
        return len(behind), any(self._lies_within(node, clock) for node in emits)

    def _clock(self, meet: n.Meet) -> str:
        return at_field(self.tree, n.stem(meet.sides[0]))

    def _lies_within(self, node: n.GraphNode, clock: str) -> bool:
        """Whether a node lies in a list that is held by the items of a clock, or in one of its regions."""
        stems = (r.opener if r.is_found else n.stem(r.opener.inputs[0]) for r in node.shape.regions)
        return any(at_field(self.tree, stem) == clock for stem in stems)

    def done(self, edge: n.GraphNode, clock: str) -> int:
        """Where one stands who has had an item at an edge: signals behind it are yet to come, where any are emitted."""
        return BEHIND if self.emits_above(edge, clock)[0] else BEFORE

    def counter(self, segment: Segment, edge: n.GraphNode, clock: str) -> str | None:
        """The variable of a loop that counts the items of a stem, where these are numbered in it before a node."""
        for node in [each for each in segment.nodes if each is edge or each in above(edge)][::-1]:
            for stem in numbered_at(node):
                if at_field(self.tree, stem) == clock and _numbers(node, stem):
                    return counter_of(self.tree, node, stem)
        return None


def _numbers(node: n.GraphNode, stem: n.GraphNode) -> bool:
    """Whether the items that leave a node are numbered by it; found regions are, where they end."""
    return n.stem(node) is stem and (node is stem or isinstance(node, n.Aggregate))


def counter_of(tree: Tree, node: n.GraphNode, stem: n.GraphNode) -> str:
    return f"at{tree.number[stem]}_{tree.number[node]}"


def met_as_channels(segments: Sequence[Segment]) -> tuple[n.Meet, ...]:
    """The nodes at which streams meet that come from several loops."""
    return tuple(segment.meet for segment in segments if segment.sides and segment.meet is not None)
